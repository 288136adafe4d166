"""Runs made by hand for the report: the timelines are real ones, the learning curves follow a formula."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

TARGETS = (0.5, 0.6, 0.7, 0.8)
AIR = ("power_sum", "weight_square_sum", "noise_std", "transmit_w_mean", "transmit_w_max", "over_budget")
CEILING = {"paota": 0.84, "local-sgd": 0.86, "cotaf": 0.83}
SPEED = {"paota": 14.0, "local-sgd": 9.0, "cotaf": 10.0}


@dataclass(frozen=True)
class FakeExperiment:
    name: str
    settings: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self.settings


@dataclass
class FakeResult:
    experiment: FakeExperiment
    metrics: dict[str, np.ndarray]
    devices: dict[str, np.ndarray]
    summary: dict[str, Any]
    info: dict[str, Any] = field(
        default_factory=lambda: {
            "created": "2025-01-31T12:00:00",
            "paota": "0.1.0",
            "versions": {"jax": "0.10.2", "numpy": "2.0.0"},
            "machine": {"cores": 2, "memory_gb": 8},
        }
    )


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
    targets: tuple[float, ...] = TARGETS,
    records: bool = True,
    evaluate_every: int = 1,
) -> FakeResult:
    """Labels that contain `sgd` have no air; labels other than paota's are synchronous."""
    metrics: dict[str, list[Any]] = {}
    rows: dict[str, list[Any]] = {}
    for label in labels:
        for seed in range(seeds):
            rng = np.random.default_rng([seed, len(label)])
            timeline = _periodic if "paota" in label else _synchronous
            events = timeline(rng, rounds, devices, period_s)
            _add_rows(metrics, rows, label, seed, rng, events, speed, label in diverged, evaluate_every)
    columns = {key: np.array(values) for key, values in metrics.items()}
    records_ = {key: np.array(values) for key, values in rows.items()} if records else {}
    settings = {
        "name": name,
        "rounds": rounds,
        "targets": list(targets),
        "data": {"dataset": "mnist", "devices": devices, "sizes": [300, 600]},
        "timing": {"latency": "uniform", "low_s": 5.0, "high_s": 15.0, "period_s": period_s},
        "power": {"max_power_w": 15.0, "cap": "paper"},
        "algorithms": [{"name": label, "payload": None} for label in labels],
    }
    summary = summarise(name, columns, targets, diverged)
    return FakeResult(FakeExperiment(name, settings), columns, records_, summary)


Event = tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # time, ids, versions, starts, finishes


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
    now_s, events = 0.0, []
    for round_ in range(rounds):
        ids = np.sort(rng.choice(devices, max(1, round(0.59 * devices)), replace=False))
        finish_s = now_s + rng.uniform(5, 15, len(ids))
        events.append((finish_s.max(), ids, np.full(len(ids), round_), np.full(len(ids), now_s), finish_s))
        now_s = float(finish_s.max())
    return events


def _add_rows(metrics, rows, label, seed, rng, events, speed, diverges, evaluate_every):  # type: ignore[no-untyped-def]
    kind = next((known for known in CEILING if known in label), "paota")
    air = "sgd" not in label

    def metric(**values: Any) -> None:
        for key, value in values.items():
            metrics.setdefault(key, []).append(value)

    nothing = dict.fromkeys(AIR, np.nan)
    base = {"label": label, "algorithm": kind, "seed": seed}
    metric(**base, round=0, time_s=0.0, ready=0, test_accuracy=0.1, test_loss=2.3, train_loss=np.nan,
           staleness_mean=np.nan, staleness_max=np.nan, **nothing)  # fmt: skip
    tempo = SPEED[kind] / speed * rng.uniform(0.9, 1.1)
    for position, (time_s, ids, versions, starts_s, finishes_s) in enumerate(events):
        staleness = position - versions
        accuracy = CEILING[kind] - 0.74 * np.exp(-(position + 1) / tempo) + rng.normal(0, 0.006)
        evaluated = (position + 1) % evaluate_every == 0 or position + 1 == len(events)
        broken = diverges and seed == 0 and position > len(events) // 2
        power = rng.uniform(10.5, 11.5, len(ids))
        transmit_w = power**2 * 60 / np.maximum(rng.exponential(1, len(ids)), 1e-3)
        total = power.sum() if len(ids) else np.nan
        weight = power / total if air else np.full(len(ids), 1 / max(len(ids), 1))
        values = nothing
        if air and len(ids):
            values = {
                "power_sum": total,
                "weight_square_sum": float((weight**2).sum()),
                "noise_std": np.sqrt(7.96e-14 / 2) / total,
                "transmit_w_mean": transmit_w.mean(),
                "transmit_w_max": transmit_w.max(),
                "over_budget": float((transmit_w > 15).mean()),
            }
        metric(
            **base,
            round=position + 1,
            time_s=time_s,
            ready=len(ids),
            test_accuracy=np.nan if not evaluated else 0.1 if broken else accuracy,
            test_loss=np.nan if broken or not evaluated else 2.3 * (1 - accuracy) + 0.1,
            train_loss=np.inf if broken else 2.2 * (1 - accuracy) + 0.12,
            staleness_mean=staleness.mean() if len(ids) else np.nan,
            staleness_max=staleness.max() if len(ids) else np.nan,
            **values,
        )
        columns = {
            "label": [label] * len(ids), "seed": [seed] * len(ids), "round": [position + 1] * len(ids), "device": ids,
            "version": versions, "staleness": staleness, "start_s": starts_s, "finish_s": finishes_s,
            "time_s": [time_s] * len(ids), "power": power if air else np.full(len(ids), np.nan), "weight": weight,
            "similarity": rng.beta(8, 6, len(ids)) if air else np.full(len(ids), np.nan),
            "transmit_w": transmit_w if air else np.full(len(ids), np.nan),
        }  # fmt: skip
        for key, column in columns.items():
            rows.setdefault(key, []).extend(column)


def summarise(
    name: str, metrics: dict[str, np.ndarray], targets: tuple[float, ...], diverged: tuple[str, ...]
) -> dict[str, Any]:
    labels = list(dict.fromkeys(metrics["label"].tolist()))
    seeds = sorted(set(metrics["seed"].tolist()))
    ends = [metrics["time_s"][(metrics["label"] == label) & (metrics["seed"] == seed)].max()
            for label in labels for seed in seeds]  # fmt: skip
    equal_time_s = float(min(ends))
    algorithms = {}
    for label in labels:
        of_seed = [(metrics["label"] == label) & (metrics["seed"] == seed) for seed in seeds]
        finals, equals = [], []
        for own in of_seed:
            known = own & np.isfinite(metrics["test_accuracy"])
            finals.append(float(metrics["test_accuracy"][known][-1]))
            equals.append(float(metrics["test_accuracy"][known & (metrics["time_s"] <= equal_time_s)][-1]))
        algorithms[label] = {
            "algorithm": label,
            "final_accuracy": _spread(finals),
            "accuracy_at_equal_time": _spread(equals),
            "rounds_to": {f"{t:g}": _times(metrics, of_seed, t, "round") for t in targets},
            "seconds_to": {f"{t:g}": _times(metrics, of_seed, t, "time_s") for t in targets},
            "rounds_per_second": 50.0,
            "diverged": [{"seed": 0, "round": int(metrics["round"].max()) // 2 + 1}] if label in diverged else [],
        }
    return {"name": name, "version": "0.1.0", "seeds": seeds, "targets": list(targets),
            "equal_time_s": equal_time_s, "algorithms": algorithms}  # fmt: skip


def _spread(values: list[float]) -> dict[str, Any]:
    return {"mean": float(np.mean(values)), "std": float(np.std(values)), "median": float(np.median(values)),
            "values": values}  # fmt: skip


def _times(metrics: dict[str, np.ndarray], of_seed: list[np.ndarray], target: float, axis: str) -> dict[str, Any]:
    values: list[float | None] = []
    for own in of_seed:
        hit = own & (np.nan_to_num(metrics["test_accuracy"]) >= target)
        values.append(float(metrics[axis][hit][0]) if hit.any() else None)
    reached = sorted(value for value in values if value is not None)
    if 2 * len(reached) <= len(values):
        return {"median": None, "q25": None, "q75": None, "reached": len(reached), "values": values}
    q25, median, q75 = np.quantile(reached, [0.25, 0.5, 0.75])
    return {"median": float(median), "q25": float(q25), "q75": float(q75), "reached": len(reached), "values": values}
