"""FedJAX: its own federated averaging, with the backend named by the second argument (`jit` or `pmap` on all cores)."""

import os
import sys

backend = sys.argv[2]
if backend == "pmap":  # one JAX device for each core
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={os.cpu_count()}"

import fedjax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from protocol import Pacer, he_normal, load_work  # noqa: E402

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
fedjax.set_for_each_client_backend(backend)
algorithm = fedjax.algorithms.fed_avg.federated_averaging(
    jax.grad(loss),
    client_optimizer=fedjax.optimizers.sgd(work.learning_rate),
    server_optimizer=fedjax.optimizers.sgd(1.0),
    client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=None, num_steps=work.steps),
)
layers = enumerate(he_normal(work.widths))
state = algorithm.init({f"{name}{i}": jnp.asarray(a) for i, layer in layers for name, a in zip("wb", layer, strict=True)})
keys = list(jax.random.split(jax.random.PRNGKey(0), work.devices))
x_test, y_test = jnp.asarray(work.x_test), jnp.asarray(work.y_test.astype(np.int32))

pacer.ready("fedjax", "jax", "jaxlib", backend=backend)
while True:
    clients = [(int(k), datasets[k], keys[k]) for k in work.participants[pacer.round]]
    state, _ = algorithm.apply(state, clients)
    pacer.round_done(float(judge(state.params, x_test, y_test)))
