"""Runs for the report, made by hand: real `Result`s with real timelines, but learning curves that follow a formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from paota.experiment.experiment import Experiment
from paota.results.result import Result, Trajectory

AIR = (
    "amplitude_sum",
    "weight_square_sum",
    "noise_std",
    "transmit_power_w_mean",
    "transmit_power_w_max",
    "over_budget",
)
CEILING = {"paota": 0.84, "local-sgd": 0.86, "cotaf": 0.83}
SPEED = {"paota": 14.0, "local-sgd": 9.0, "cotaf": 10.0}

Event = tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # time, devices, versions, starts, finishes


def make_result(
    name: str = "paper",
    labels: tuple[str, ...] = ("paota", "local-sgd", "cotaf"),
    *,
    seeds: int = 5,
    rounds: int = 100,
    devices: int = 100,
    period_s: float = 8.0,
    speed: float = 1.0,
    diverged: tuple[str, ...] = (),
    targets: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8),
    records: bool = True,
    evaluate_every: int = 1,
    spending: bool = False,
    own: dict[str, float] | None = None,
) -> Result:
    """A label's algorithm is the one it names (else paota): local-sgd has no air, only paota is periodic.

    `own`: accuracy of the worst served device by label (else 0.4), the others one point higher each; and the better
    served, the better its channel.
    """
    kinds = {label: next((kind for kind in CEILING if kind in label), "paota") for label in labels}
    table = {
        "name": name,
        "rounds": rounds,
        "targets": list(targets),
        "data": {"devices": devices},
        "timing": {"period_s": period_s},
        "algorithms": [{"name": kind, "label": label} for label, kind in kinds.items()],
    }
    trajectories = []
    for label, kind in kinds.items():
        for seed in range(seeds):
            rng = np.random.default_rng([seed, len(label)])
            timeline = _periodic if kind == "paota" else _synchronous
            events = timeline(rng, rounds, devices, period_s)
            broken_from = rounds // 2 + 1 if label in diverged and seed == 0 else None
            metrics, rows = _tables(rng, kind, events, speed, broken_from, evaluate_every)
            if spending:
                metrics["energy_j"] = np.where(metrics["round"] > 0, 2.0 * metrics["ready"], np.nan)
            served: dict[str, np.ndarray] = {}
            if own is not None:
                every = np.arange(devices)
                accuracy = own.get(label, 0.4) + 0.01 * every
                served = {
                    "round": np.full(devices, rounds), "device": every, "samples": every + 1, "accuracy": accuracy
                }  # fmt: skip
                gain = 1e-9 * (1.0 + rows["device"]) if kind != "local-sgd" else np.full(len(rows["device"]), np.nan)
                rows["channel_gain"] = gain
            trajectories.append(
                Trajectory(
                    device_scores=served,
                    label=label,
                    algorithm=kind,
                    seed=seed,
                    metrics=metrics,
                    devices=rows if records else {key: column[:0] for key, column in rows.items()},
                    model=np.zeros(3),
                    diverged_round=broken_from,
                    compute_s=1.0,
                )
            )
    info = {"paota": "0.1.0", "jax": "0.10.2", "started": "2025-01-31T12:00:00"}
    return Result(experiment=Experiment.from_dict(table), trajectories=trajectories, info=info)


def by_hand(
    runs: dict[str, list[list[tuple[float, float]]]], *, name: str = "run", targets: tuple[float, ...] = (0.5, 0.8)
) -> Result:
    """{label: [[(time_s, accuracy), ...] for each seed]}: for tests whose answer is worked out on paper."""
    trajectories = []
    for label, seeds in runs.items():
        for seed, points in enumerate(seeds):
            times_s, accuracies = (np.array(column, dtype=float) for column in zip(*points, strict=True))
            metrics = {
                "round": np.arange(len(points)),
                "time_s": times_s,
                "ready": np.ones(len(points), dtype=int),
                "test_accuracy": accuracies,
                "test_loss": 1 - accuracies,
                "train_loss": 1 - accuracies,
            }
            trajectories.append(
                Trajectory(
                    label=label,
                    algorithm="paota",
                    seed=seed,
                    metrics=metrics,
                    devices={"round": np.array([], dtype=int)},
                    model=np.zeros(1),
                )
            )
    table = {
        "name": name,
        "targets": list(targets),
        "algorithms": [{"name": "paota", "label": label} for label in runs],
    }
    return Result(experiment=Experiment.from_dict(table), trajectories=trajectories)


def _periodic(rng: np.random.Generator, rounds: int, devices: int, period_s: float) -> list[Event]:
    start_s, version = np.zeros(devices), np.zeros(devices, dtype=int)
    finish_s = rng.uniform(5, 15, devices)
    events = []
    for round_ in range(rounds):
        time_s = (round_ + 1) * period_s
        ids = np.flatnonzero(finish_s <= time_s)
        events.append((time_s, ids, version[ids].copy(), start_s[ids].copy(), finish_s[ids].copy()))
        start_s[ids], version[ids] = time_s, round_ + 1
        finish_s[ids] = time_s + rng.uniform(5, 15, len(ids))
    return events


def _synchronous(rng: np.random.Generator, rounds: int, devices: int, period_s: float) -> list[Event]:
    del period_s
    now_s = 0.0
    events = []
    for round_ in range(rounds):
        ids = np.sort(rng.choice(devices, max(1, round(0.59 * devices)), replace=False))
        finish_s = now_s + rng.uniform(5, 15, len(ids))
        events.append((finish_s.max(), ids, np.full(len(ids), round_), np.full(len(ids), now_s), finish_s))
        now_s = float(finish_s.max())
    return events


def _tables(
    rng: np.random.Generator,
    kind: str,
    events: list[Event],
    speed: float,
    broken_from: int | None,
    evaluate_every: int,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    first = {"round": 0, "time_s": 0.0, "ready": 0, "test_accuracy": 0.1, "test_loss": 2.3, "train_loss": 2.3}
    metrics: list[dict[str, Any]] = [first | dict.fromkeys(("staleness_mean", "staleness_max", *AIR), np.nan)]
    records: list[dict[str, np.ndarray]] = []
    tempo = SPEED[kind] / speed * rng.uniform(0.9, 1.1)
    for round_, (time_s, ids, versions, starts_s, finishes_s) in enumerate(events, start=1):
        staleness = round_ - 1 - versions
        accuracy = CEILING[kind] - 0.74 * np.exp(-round_ / tempo) + rng.normal(0, 0.006)
        if broken_from is not None and round_ >= broken_from:
            accuracy = 0.1
        evaluated = round_ % evaluate_every == 0 or round_ == len(events)
        air = _air(rng, len(ids)) if kind != "local-sgd" else dict.fromkeys(("power", "transmit_power_w"), None)
        row = {
            "round": round_,
            "time_s": time_s,
            "ready": len(ids),
            "test_accuracy": accuracy if evaluated else np.nan,
            "test_loss": 2.3 * (1 - accuracy) if evaluated and accuracy > 0.1 else np.nan,
            "train_loss": 2.2 * (1 - accuracy) if accuracy > 0.1 else np.inf,
            "staleness_mean": staleness.mean() if len(ids) else np.nan,
            "staleness_max": staleness.max() if len(ids) else np.nan,
        }
        metrics.append(row | _air_columns(air["power"], air["transmit_power_w"]))
        nothing = np.full(len(ids), np.nan)
        power = nothing if air["power"] is None else air["power"]
        records.append(
            {
                "round": np.full(len(ids), round_),
                "device": ids,
                "version": versions,
                "staleness": staleness,
                "start_s": starts_s,
                "finish_s": finishes_s,
                "time_s": np.full(len(ids), time_s),
                "amplitude": power,
                "weight": power / power.sum() if air["power"] is not None else nothing + 1 / max(len(ids), 1),
                "similarity": rng.beta(8, 6, len(ids)) if air["power"] is not None else nothing,
                "transmit_power_w": nothing if air["transmit_power_w"] is None else air["transmit_power_w"],
            }
        )
    columns = {key: np.array([row[key] for row in metrics]) for key in metrics[0]}
    return columns, {key: np.concatenate([part[key] for part in records]) for key in records[0]}


def _air(rng: np.random.Generator, count: int) -> dict[str, Any]:
    power = rng.uniform(10.5, 11.5, count)
    return {"power": power, "transmit_power_w": power**2 * 60 / np.maximum(rng.exponential(1, count), 1e-3)}


def _air_columns(power: np.ndarray | None, transmit_power_w: np.ndarray | None) -> dict[str, float]:
    if power is None or transmit_power_w is None or not len(power):
        return dict.fromkeys(AIR, np.nan)
    total = float(power.sum())
    return {
        "amplitude_sum": total,
        "weight_square_sum": float(((power / total) ** 2).sum()),
        "noise_std": float(np.sqrt(7.96e-14 / 2) / total),
        "transmit_power_w_mean": float(transmit_power_w.mean()),
        "transmit_power_w_max": float(transmit_power_w.max()),
        "over_budget": float((transmit_power_w > 15).mean()),
    }
