"""The expected work of experiments, which `--dry-run` prints. Counts are exact; memory and time are estimates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..base.errors import UserError
from ..base.formatting import counted, duration
from ..base.rng import Seeds
from ..base.system import GIB
from ..experiment.experiment import AlgorithmConfig, Experiment
from .preparation import PARTICIPATION_BYTES, PreparedRun, event_bytes, prepare

# A rough speed of one core: small models in small batches reach some 10^10 to 10^11 operations per second on a present-day
# processor. A time that is estimated with it is right within a factor of about five. Compilation is not part of it.
FLOP_PER_S = 2.5e10
LIBRARY_BYTES = GIB // 3  # Python with JAX, before any data
MOST_ROWS = 40


class Workload(NamedTuple):
    """The work of one algorithm with all its seeds. It ends earlier where `evaluation` stops it."""

    rounds: int  # aggregations with each seed
    seconds: float  # simulated time at the last aggregation
    trainings: int  # local trainings that reach the server, over all seeds
    flop: float  # floating-point operations of training and evaluation, over all seeds; NaN if they cannot be counted


def workload_of(prepared: PreparedRun, entry: AlgorithmConfig) -> Workload:
    """Return the work of one algorithm of a prepared run."""
    from ..training.batches import flop_per_sample, samples_of  # start-up time

    dataset, timelines = prepared.dataset, {seed: prepared.timelines[entry.label, seed] for seed in prepared.seeds}
    objective = prepared.experiment.evaluation.train_loss == "objective"
    evaluated, samples = len(dataset.y_test) + (len(dataset.y_train) if objective else 0), 0.0
    for seed, timeline in timelines.items():
        trained = samples_of(entry.training, prepared.shards[seed], seed)(timeline.device, timeline.training)
        evaluations = 1 + len(timeline) / prepared.evaluated_every[entry.label, seed]
        samples += float(trained.sum()) + evaluated * evaluations / 3  # a forward pass is about a third of a training
    try:
        flop = samples * flop_per_sample(prepared.model, tuple(dataset.input_shape), dataset.num_classes)
    except UserError:  # a PyTorch module
        flop = float("nan")
    return Workload(
        rounds=max(map(len, timelines.values())), seconds=max(float(t.time_s[-1]) for t in timelines.values()),
        trainings=sum(len(t.device) for t in timelines.values()), flop=flop,
    )  # fmt: skip


def memory_bytes(prepared: PreparedRun) -> float:
    """Return about how much memory a run takes: libraries, data, timelines, and the largest events, one for each core."""
    data, size = prepared.dataset, prepared.num_parameters
    held = sum(array.nbytes for array in (data.x_train, data.y_train, data.x_test, data.y_test))
    held += sum(PARTICIPATION_BYTES * len(timeline.device) for timeline in prepared.timelines.values())
    events = [sum(event_bytes(c, [prepared.timelines[c.label, seed]], size)) for c, seed in prepared.units()]
    return LIBRARY_BYTES + held + sum(sorted(events)[-(os.cpu_count() or 1) :])


def print_dry_run(
    runs: Mapping[str, Experiment], seeds: Seeds, *, folder: str | Path, jobs: int | None = None, share: float = 1.0,
    time_scale: float | None = None,
) -> None:  # fmt: skip
    """Print what a command would compute.

    Args:
        runs: the experiments by name; a single one needs no name.
        seeds: the seeds of each.
        folder: the output folder.
        jobs: experiments that are computed in parallel (default: one per core).
        share: the largest share of all this that is computed.
        time_scale: real seconds per simulated second, for a deployment; None for a simulation.
    """
    from rich.console import Console  # start-up time

    from ..terminal.tables import print_table  # start-up time

    work: dict[str, Workload] = {}
    memory, cores, facts, refused = [], os.cpu_count() or 1, {}, {}
    for name, experiment in runs.items():
        try:
            prepared = prepare(experiment, seeds=seeds)
        except UserError as error:
            if len(runs) == 1:
                raise
            refused[name] = f"fails: {error}"
            continue
        for entry in experiment.algorithms:
            several = f"{name}, {entry.label}".removeprefix(", ")
            work[name if name and len(experiment.algorithms) == 1 else several] = workload_of(prepared, entry)
        memory.append(memory_bytes(prepared))
        data, held = prepared.dataset, sum(sorted(memory)[-(jobs or cores) :]) / GIB
        seconds = share * sum(row.flop for row in work.values()) / (FLOP_PER_S * cores)
        simulation = f"about {duration(max(1.0, float(f'{seconds:.1g}')))} on {counted(cores, 'core')}, and compilation"
        facts = {
            "seeds": ", ".join(map(str, prepared.seeds)),
            "data": f"{data.name}, {len(data.y_train):,} training and {len(data.y_test):,} test samples",
            "model": counted(prepared.num_parameters, "parameter"),
            "memory": f"about {held:.1f} GiB" + (" for the server, and more for each device" if time_scale else ""),
            "time": "unknown: the operations of this model cannot be counted" if seconds != seconds else simulation,
        }
    if time_scale is not None:
        real = duration(time_scale * sum(row.seconds for row in work.values()))
        facts["time"] = f"about {real}, one algorithm at a time"
    console, rows = Console(highlight=False, markup=False), list(work.values())[:MOST_ROWS]
    columns = [
        ("rounds", [f"{row.rounds:,}" for row in rows]),
        ("simulated\nseconds", [f"{row.seconds:,.6g}" for row in rows]),
        ("local\ntrainings", [f"{row.trainings:,}" for row in rows]),
    ]
    print_table(console, "", ("", list(work)[:MOST_ROWS]), columns)
    if len(work) > MOST_ROWS:
        console.print(f"... and {len(work) - MOST_ROWS} more")
    for name, text in {**facts, "folder": str(folder), **refused}.items():
        console.print(f"{name + ':':8} {text}", soft_wrap=True)
    console.print("dry run: nothing was computed or written")
