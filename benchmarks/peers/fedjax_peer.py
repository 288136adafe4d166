"""FedJAX: its own federated averaging on its default backend (`jit`)."""

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from protocol import Pacer, he_normal, load_work

pacer, work = Pacer(), load_work()


def logits(parameters, images):
    for i in range(3):
        images = images @ parameters[f"w{i}"].T + parameters[f"b{i}"]
        images = jax.nn.relu(images) if i < 2 else images
    return images


def loss(parameters, batch, rng):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits(parameters, batch["x"])), batch["y"][:, None], axis=1)
    return -chosen.mean()


@jax.jit
def judge(parameters, x_test, y_test):
    return (jnp.argmax(logits(parameters, x_test), axis=1) == y_test).mean()


shards = [work.shard(k) for k in range(work.devices)]
datasets = [fedjax.ClientDataset({"x": x, "y": y.astype(np.int32)}) for x, y in shards]
algorithm = fedjax.algorithms.fed_avg.federated_averaging(
    jax.grad(loss),
    client_optimizer=fedjax.optimizers.sgd(work.learning_rate),
    server_optimizer=fedjax.optimizers.sgd(1.0),
    client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=None, num_steps=work.steps),
)
layers = enumerate(he_normal(work.widths))
state = algorithm.init(
    {f"{name}{i}": jnp.asarray(a) for i, layer in layers for name, a in zip("wb", layer, strict=True)}
)
keys = list(jax.random.split(jax.random.PRNGKey(0), work.devices))
x_test, y_test = jnp.asarray(work.x_test), jnp.asarray(work.y_test.astype(np.int32))

pacer.ready("fedjax", "jax", "jaxlib", backend="jit")
while True:
    clients = [(int(k), datasets[k], keys[k]) for k in work.participants[pacer.round]]
    state, _ = algorithm.apply(state, clients)
    pacer.round_done(float(judge(state.params, x_test, y_test)))
