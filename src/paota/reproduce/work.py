"""Computing cells: one after the other, or side by side in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from ..runs.results import Trajectory
from . import store
from .cells import BOUND, CROSSED, OPTIMUM, Cell

Tell = Callable[[str, int], None]  # (cell, rounds done so far)
_queue: Any = None


def compute(cell: Cell, folder: Path, tell: Tell) -> float:
    """Run one cell and keep it; returns the seconds it took. Somebody else may have been faster."""
    begin = time.perf_counter()
    if store.find(folder, cell) is not None:
        return 0.0
    if cell.kind == OPTIMUM:
        _optimum(cell, folder)
    elif cell.kind == CROSSED:
        _crossed(cell, folder)
    elif cell.kind == BOUND:
        _bound(cell, folder)
    else:
        from .. import simulate

        plan = simulate.plan(cell.experiment, seeds=cell.seeds)
        store.keep(folder, cell, *store.pack(simulate.execute(plan, progress=_Told(cell, tell))))
    return time.perf_counter() - begin


def compute_all(
    cells: Sequence[Cell], folder: Path, *, workers: int, tell: Tell, done: Callable[[Cell, float], None]
) -> None:
    """Every cell, in the order of the catalogue: the paper's own figures are there first."""
    ordered = list(cells)
    if workers <= 1 or len(ordered) <= 1:
        for cell in ordered:
            done(cell, compute(cell, folder, tell))
        return
    context = multiprocessing.get_context("spawn")  # a forked JAX hangs
    queue = context.Queue()
    threads = max(1, (os.cpu_count() or 1) // workers)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_enter, initargs=(queue, str(folder), threads))
    try:
        running: dict[Future[float], Cell] = {pool.submit(_compute_in_worker, cell, folder): cell for cell in ordered}
        while running:
            finished, _ = wait(running, timeout=0.2, return_when="FIRST_COMPLETED")
            while not queue.empty():
                tell(*queue.get())
            for future in finished:
                done(running.pop(future), future.result())
    finally:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()  # after a failure or Ctrl-C nobody waits for what is still being computed
        pool.shutdown(wait=False, cancel_futures=True)


def _enter(queue: Any, folder: str, threads: int) -> None:
    """Once in every worker, before JAX is imported: its share of the cores, and a common store of compiled programs."""
    global _queue
    _queue = queue
    flags = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'} intra_op_parallelism_threads={threads}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))


def _compute_in_worker(cell: Cell, folder: Path) -> float:
    return compute(cell, folder, lambda name, rounds: _queue.put((name, rounds)))


class _Told:
    """The simulator's progress, as rounds of the whole cell."""

    def __init__(self, cell: Cell, tell: Tell) -> None:
        self.cell, self.tell = cell, tell
        self.done: dict[tuple[str, int], int] = {}

    def compiling(self, label: str) -> None: ...

    def compiled(self, label: str, seconds: float) -> None: ...

    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None:
        self.done[label, seed] = round
        self.tell(self.cell.name, sum(self.done.values()))

    def finished(self, trajectory: Trajectory) -> None:
        self.done[trajectory.label, trajectory.seed] = len(trajectory.metrics["round"]) - 1


def _optimum(cell: Cell, folder: Path) -> None:
    from .. import simulate
    from ..theory.landscape import Landscape
    from ..theory.optimum import minimise

    experiment = cell.experiment
    plan = simulate.plan(experiment)
    landscape = Landscape(plan.dataset, plan.shards[experiment.seed], experiment.model)
    found = minimise(landscape, seed=experiment.seed, **cell.options)
    facts = {"value": found.value, "gradient_norm": found.gradient_norm, "last_gain": found.last_gain}
    store.keep(folder, cell, {"model": found.model}, {**facts, "seed": experiment.seed})


def _crossed(cell: Cell, folder: Path) -> None:
    """F of seed i at the best model of seed j, [seeds, seeds]; needs the cells of all seeds to be there."""
    import numpy as np

    from .. import simulate
    from ..runs import files
    from ..theory.landscape import Landscape

    experiment = cell.experiment
    plan = simulate.plan(experiment, seeds=cell.seeds)
    models = [files.read_npz(folder / f"optimum-{seed}.npz")["model"] for seed in range(cell.seeds)]
    values = []
    for seed in range(cell.seeds):
        landscape = Landscape(plan.dataset, plan.shards[experiment.seed + seed], experiment.model)
        values.append([landscape.value_and_gradient(model)[0] for model in models])
    store.keep(folder, cell, {"values": np.array(values)}, {})


def _bound(cell: Cell, folder: Path) -> None:
    from ..theory.analysis import analyse

    made = analyse(cell.experiment, probes=2, **cell.options)
    facts = made.to_dict()
    facts.pop("rounds")
    store.keep(folder, cell, made.table(), facts)
