"""The workload of the speed measurements, and the simplest JAX program for it.

100 devices on MNIST in the paper's partition, the paper's MLP 784-10-10-10; each round trains 59 devices for 5 steps of
batch 32, averages, and evaluates the global model on the 10,000 test images.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paota import engine, simulate
from paota.experiment.experiment import Experiment
from paota.models.base import cross_entropy
from paota.models.mlp import Mlp
from paota.simulate.schedule import Schedule, learners_in_words

DEVICES, PARTICIPANTS, STEPS, BATCH, LEARNING_RATE = 100, 59, 5, 32, 0.1
ROUNDS_A_CALL = 20


def experiment(algorithm: str = "paota") -> Experiment:
    options = {"participants": PARTICIPANTS} if algorithm == "local-sgd" else {}
    return Experiment.from_dict(
        {
            "rounds": 3 * ROUNDS_A_CALL,
            "data": {"devices": DEVICES},
            "training": {"local_steps": STEPS, "batch_size": BATCH, "learning_rate": LEARNING_RATE},
            "evaluation": {"train_loss": "batches"},
            "algorithms": [{"name": algorithm, **options}],
        }
    )


def ours(algorithm: str = "paota") -> tuple[Callable[[], Any], float, str]:
    """Return (a call of ROUNDS_A_CALL rounds after the transient, mean devices per round, the learner)."""
    plan = simulate.prepare(experiment(algorithm))
    schedule = Schedule(plan, events_per_call=ROUNDS_A_CALL)
    (entry,) = plan.experiment.algorithms
    timeline = plan.timelines[entry.label, 0]
    task, sizes, rule = schedule.problem(entry), schedule.program_shape(entry, 0), engine.RoundConfig.of(entry)
    first = 2 * ROUNDS_A_CALL
    rows, count = engine.inputs_of(timeline, first, sizes, np.ones(len(timeline), bool))
    model = task.initial_model(0)

    def arguments() -> tuple[Any, ...]:
        state = schedule.initial_state(rule, model, program_shape=sizes)  # the program reuses the memory of its state
        return rule, jax.random.key(0), schedule.device_data(entry, 0), state, rows, np.int32(count)

    step, _ = engine.program(task, sizes, arguments())

    def call() -> Any:
        return jax.block_until_ready(step(*arguments()))

    return call, float(timeline.ready[first : first + ROUNDS_A_CALL].mean()), learners_in_words(plan)


def plain_jax() -> Callable[[], Any]:
    """Return the straightforward program: a vmap over devices of a scan over steps, gather and average inside jit."""
    plan = simulate.prepare(experiment("local-sgd"))
    x_train, y_train, x_test, y_test = (
        jnp.asarray(a) for a in (plan.dataset.x_train / np.float32(255), plan.dataset.y_train,
                                 plan.dataset.x_test / np.float32(255), plan.dataset.y_test)
    )  # fmt: skip
    shards = plan.shards[0]
    sizes, offsets = jnp.asarray(shards.sizes), jnp.asarray(shards.offsets[:-1])
    indices = jnp.asarray(shards.indices)
    model = Mlp()

    def loss(params: Any, batch: jax.Array) -> jax.Array:
        return cross_entropy(model.apply(params, x_train[batch]), y_train[batch]).mean()

    def local(params: Any, batches: jax.Array) -> Any:
        def step(params: Any, batch: jax.Array) -> tuple[Any, None]:
            gradient = jax.grad(loss)(params, batch)
            return jax.tree.map(lambda w, g: w - LEARNING_RATE * g, params, gradient), None

        return jax.lax.scan(step, params, batches)[0]

    def round_(params: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        chosen, draw = jax.random.split(key)
        device = jax.random.choice(chosen, DEVICES, (PARTICIPANTS,), replace=False)
        position = jax.random.randint(draw, (PARTICIPANTS, STEPS, BATCH), 0, sizes[device][:, None, None])
        batches = indices[offsets[device][:, None, None] + position]
        params = jax.tree.map(lambda w: w.mean(axis=0), jax.vmap(local, in_axes=(None, 0))(params, batches))
        return params, (model.apply(params, x_test).argmax(axis=1) == y_test).mean()

    run = jax.jit(lambda params, keys: jax.lax.scan(round_, params, keys))
    start = model.init(jax.random.key(0), (28, 28), 10)
    keys = jax.random.split(jax.random.key(1), ROUNDS_A_CALL)
    return lambda: jax.block_until_ready(run(start, keys))


def interleaved(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, np.ndarray]:
    """Return processor milliseconds of all threads and wall milliseconds per round, [repeats, 2]; the calls alternate."""
    for call in calls.values():
        call()  # compile, fill the caches
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            cpu, wall = time.process_time(), time.perf_counter()
            call()
            spent = time.process_time() - cpu, time.perf_counter() - wall
            times[name].append((1e3 * spent[0] / ROUNDS_A_CALL, 1e3 * spent[1] / ROUNDS_A_CALL))
    return {name: np.array(rows) for name, rows in times.items()}
