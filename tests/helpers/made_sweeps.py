"""Trajectories and sweeps with numbers chosen by hand."""

import numpy as np

from paota.results.result import Result, Trajectory
from paota.studies.sweep.grid import Axis, make_points
from paota.studies.sweep.metrics import parse_metric
from paota.studies.sweep.outcome import Sweep, rows_of, standard_metrics


def trajectory(accuracy, *, label="paota", seed=0, period_s=8.0, diverged=None):
    """Row r is judged `accuracy[r]` at r periods; a round costs 2 J of sending and 1 J of computing."""
    rounds = np.arange(len(accuracy))
    cost = np.where(rounds > 0, 1.0, 0.0)
    metrics = {
        "round": rounds,
        "time_s": rounds * period_s,
        "test_accuracy": np.array(accuracy, float),
        "test_loss": 1 - np.array(accuracy, float),
        "energy_j": 2 * cost,
        "compute_j": cost,
        "airtime_s": 0.5 * cost,
        "ready": 10 * cost,
    }
    return Trajectory(
        label=label,
        algorithm="paota",
        seed=seed,
        metrics=metrics,
        devices={},
        model=np.zeros(1),
        diverged_round=diverged,
    )


def sweep_of(base, axes, runs, best, *, failed=None, **more):
    """`runs[i]`: the trajectories of point i."""
    axes = tuple(Axis(key, tuple(values)) for key, values in axes.items())
    points = make_points(base, axes)
    metric = parse_metric(best)
    metrics = standard_metrics(metric, base.targets)
    rows = []
    for point, trajectories in zip(points, runs, strict=True):
        if trajectories:
            rows += rows_of(point, Result(experiment=point.experiment, trajectories=trajectories), metrics)
    made = Sweep(
        name=base.name, axes=axes, best_by=metric, metrics=metrics, seeds=len(runs[0]), rows=tuple(rows),
        failed=failed or {}, points=len(points), **more,
    )  # fmt: skip
    return made, points
