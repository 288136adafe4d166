"""Plain JAX: vmap over the clients of a round; batches gathered, models averaged and judged inside one jit."""

import jax
import jax.numpy as jnp
import numpy as np
from protocol import Pacer, draw_batches, he_normal, load_work

pacer, work = Pacer(), load_work()
x, y, x_test, y_test = map(jnp.asarray, (work.x, work.y.astype(np.int32), work.x_test, work.y_test.astype(np.int32)))
served = [(jnp.asarray(w), jnp.asarray(b)) for w, b in he_normal(work.widths)]
rng = np.random.default_rng(0)


def logits(parameters, images):
    for weight, bias in parameters[:-1]:
        images = jax.nn.relu(images @ weight.T + bias)
    weight, bias = parameters[-1]
    return images @ weight.T + bias


def loss(parameters, images, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits(parameters, images)), labels[:, None], axis=1)
    return -chosen.mean()


@jax.jit
def one_round(served, samples, x, y, x_test, y_test):
    def train(samples):
        def step(parameters, batch):
            gradient = jax.grad(loss)(parameters, x[batch], y[batch])
            return jax.tree.map(lambda p, g: p - work.learning_rate * g, parameters, gradient), None

        return jax.lax.scan(step, served, samples)[0]

    served = jax.tree.map(lambda p: p.mean(0), jax.vmap(train)(samples))
    return served, (jnp.argmax(logits(served, x_test), axis=1) == y_test).mean()


pacer.ready("jax", "jaxlib")
while True:
    samples = draw_batches(rng, work, work.participants[pacer.round]).astype(np.int32)
    served, accuracy = one_round(served, samples, x, y, x_test, y_test)
    pacer.round_done(float(accuracy))
