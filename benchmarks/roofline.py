"""Compare the engine with the machine's limits: `python benchmarks/roofline.py`

It measures the machine (large matrix product, memory bandwidth), counts the operations of a round (workload.py), and prints
the share of the ideal time that the engine reaches and where the rest goes. All times are wall time and processor time
(of all threads, divided by the cores); only processor time is reliable on a busy machine. "Dense" counts every pixel, as a
matrix product must. The fused kernel skips black blocks of pixels, so its own ideal, "lit blocks only", is lower.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import workload

from paota import engine, simulate
from paota.data.load import load_dataset
from paota.simulate.schedule import Schedule
from paota.training.batches import draw_batches
from paota.training.kernels import mlp
from paota.training.learner import Orders

WIDTHS = (784, 10, 10, 10)
PARAMETERS = sum((a + 1) * b for a, b in itertools.pairwise(WIDTHS))
TESTS = 10_000


def best(call: Callable[[], Any], repeats: int, calls: int = 1) -> tuple[float, float]:
    """Return the minimum (processor seconds, wall seconds) of a call, which other processes disturb least.

    Short calls are timed `calls` at a time, because some systems count processor time in ticks.
    """
    jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(call())
        times.append(((time.process_time() - cpu) / calls, (time.perf_counter() - wall) / calls))
    return min(t[0] for t in times), min(t[1] for t in times)


def matrix_rate(repeats: int, n: int = 1536) -> float:
    """Return the FLOP per second of a large float32 matrix product on all cores."""
    cores = os.cpu_count() or 1
    a = jnp.asarray(np.random.default_rng(0).normal(size=(n, n)), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    cpu, wall = best(lambda: product(a), repeats)
    return 2 * n**3 / min(cpu / cores, wall)


def bandwidth(repeats: int, megabytes: int = 512) -> float:
    """Return the bytes per second that NumPy's sum reads from main memory on one core."""
    a = np.ones(megabytes * 2**20 // 8)
    return a.nbytes / min(best(a.sum, repeats))


def multiply_adds(lit_share: float) -> tuple[float, float]:
    """Return the FLOP of (training in a round, evaluation), counting this share of the pixels.

    The backward pass takes twice the forward pass, except that the first layer needs no gradient of its input.
    """
    first = 2 * WIDTHS[0] * WIDTHS[1] * lit_share
    rest = 2 * sum(a * b for a, b in itertools.pairwise(WIDTHS[1:]))
    samples = workload.PARTICIPANTS * workload.STEPS * workload.BATCH
    return samples * (2 * first + 3 * rest), TESTS * (first + rest)


def bytes_moved(lit_share: float) -> float:
    """Return the bytes of a round: samples and start models read, trained models and updates written and read again."""
    row = WIDTHS[0] if lit_share == 1 else (1 + 2 / mlp.BLOCK) * lit_share * WIDTHS[0]  # bytes, and where they stand
    samples = workload.PARTICIPANTS * workload.STEPS * workload.BATCH + TESTS
    return samples * row + 5 * 4 * PARAMETERS * workload.PARTICIPANTS


def parts(repeats: int) -> dict[str, tuple[float, float]]:
    """Return (processor, wall) seconds of the parts of a round, each compiled separately."""
    plan = simulate.prepare(workload.experiment())
    schedule = Schedule(plan, events_per_call=workload.ROUNDS_A_CALL)
    (entry,) = plan.experiment.algorithms
    task, sizes, rule = schedule.problem(entry), schedule.program_shape(entry, 0), engine.RoundConfig.of(entry)
    fleet, root = schedule.device_data(entry, 0), jax.random.key(0)
    timeline = plan.timelines[entry.label, 0]
    number = int(np.argmin(np.abs(timeline.ready - workload.PARTICIPANTS)))
    rows, _ = engine.inputs_of(timeline, number, sizes, np.ones(len(timeline), bool))
    row = jax.tree.map(lambda column: jnp.asarray(column[0]), rows)
    model = task.initial_model(0)
    ring, slot = engine.State.initial(rule, model, sizes.versions, 1).ring, row.version % sizes.versions
    size = fleet.shard_sizes[row.device]

    @jax.jit
    def draw() -> jax.Array:
        position, _ = draw_batches(rule.training, root, row.device, row.training, size)
        return fleet.shard_indices[fleet.shard_offsets[row.device][:, None, None] + position]

    sample = draw()
    orders = Orders(slot, row.ready, sample, None, jnp.float32(workload.LEARNING_RATE))
    learner = task.learner
    train = jax.jit(lambda ring: learner.train(rule.training, orders, ring, fleet.x_train, fleet.y_train))
    trained = train(ring)

    @jax.jit
    def serve(ring: jax.Array, trained: Any) -> engine.RoundOutcome:
        samples, everybody = size.astype(float), jnp.asarray(float(workload.DEVICES))
        state = engine.State((), rule.algorithm.init_for(ring[0], 1), rule.server.optimiser.init(ring[0]))
        before = engine.RoundStart(row, ring[0], ring[1], samples, everybody, state)
        return engine.play_round(rule, root, before, lambda _: engine.prepare(rule, root, before, trained))[0]

    return {
        "mini-batch draws": best(draw, repeats, 50),
        "training": best(lambda: train(ring), repeats, 50),
        "similarity, power, air": best(lambda: serve(ring, trained), repeats, 50),
        "judging 10,000 images": best(lambda: engine.evaluate_model(task, model, fleet), repeats, 50),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    flops, stream = matrix_rate(args.repeats), bandwidth(min(args.repeats, 10))
    print(
        f"machine: {flops / 1e9:.0f} GFLOP/s in a large matrix product, {stream / 1e9:.1f} GB/s a core, {cores} cores"
    )
    call, ready, learner = workload.ours()
    images = load_dataset("mnist").x_train
    lit = len(mlp.block_rows(images).value) / images.size
    ideals = {}
    for name, share in (("dense", 1.0), (f"lit blocks only ({lit:.0%})", lit)):
        training, judging = multiply_adds(share)
        moved = bytes_moved(share)
        arithmetic, memory = (training + judging) / flops, moved / stream / cores
        ideals[name] = max(arithmetic, memory)
        print(
            f"a round, {name}: {(training + judging) / 1e9:.3f} GFLOP and {moved / 1e6:.1f} MB, at best "
            f"{1e3 * arithmetic:.2f} ms of arithmetic, {1e3 * memory:.2f} ms of memory"
        )
    times = workload.interleaved({"ours": call}, max(3, args.repeats // 5))["ours"]
    cpu, wall = times.min(axis=0)
    print(f"ours ({learner}, PAOTA, {ready:.1f} devices a round): {wall:.2f} ms wall, {cpu:.2f} ms of processors, "
          f"{cpu / cores:.2f} ms were they shared perfectly")  # fmt: skip
    for name, ideal in ideals.items():
        by_wall, by_cpu = 1e3 * ideal / wall, 1e3 * ideal * cores / cpu
        print(f"share of the ideal, {name}: {by_wall:.0%} by wall time, {by_cpu:.0%} by processor time")
    print("where the time goes, each part compiled on its own (processor ms, wall ms):")
    pieces = parts(args.repeats)
    for name, (part_cpu, part_wall) in pieces.items():
        print(f"  {name:<24} {1e3 * part_cpu:6.2f} {1e3 * part_wall:6.2f}")
    rest = cpu - 1e3 * sum(p[0] for p in pieces.values())
    print(f"  {'loop, log, evaluation gate':<24} {max(rest, 0):4.2f}")


if __name__ == "__main__":
    main()
