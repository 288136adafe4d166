"""From the engine's log to tidy tables: one row a round, one row a device and event."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..air.privacy import account
from ..air.spending import Costs, device_spending, event_spending
from ..air.uplink import noise_power_w
from ..base.files import Columns
from ..callbacks.base import Round
from ..experiment.experiment import AlgorithmConfig
from ..results.device_scores import device_score_records
from ..results.result import Trajectory
from ..timing.timeline import Timeline
from .preparation import PreparedRun, costs_of
from .signalling import control_columns

MAX_RECORDS = 2_000_000  # rows of device records in a trajectory: some 200 MB


def trajectory_of(
    prepared: PreparedRun, entry: AlgorithmConfig, seed: int, timeline: Timeline, log: Any, initial: Sequence[float], *,
    model: NDArray[Any], diverged_round: int | None, compute_s: float, stopped_round: int | None = None,
    costs: Costs | None = None,
) -> Trajectory:  # fmt: skip
    """The tables of what has happened, in a simulation or a deployment.

    `log` has the columns of `engine.Log`, [events] and [events, places]; `initial` is the judgement of w^0; `model`
    the last global model [d]. `costs`: of a training and its transfers; None: as the simulator has them.
    """
    costs = costs_of(prepared, entry, seed) if costs is None else costs
    spent = spending_of(entry, timeline, log, len(model), costs)
    wasted = _spending_of_aborted(entry, timeline, len(log.finite), len(model), costs)
    return Trajectory(
        label=entry.label,
        algorithm=entry.algorithm_name,
        seed=seed,
        metrics={
            **_added(metrics_of(timeline, log, initial, entry, spent), wasted),
            **_privacy_of(entry, timeline, log),
            **control_columns(entry.algorithm, entry.air, timeline, len(log.finite), len(model)),
        },
        devices=device_records_of(timeline, log, spent),
        device_scores=device_scores_of(prepared, seed, log),
        model=model,
        diverged_round=diverged_round,
        stopped_round=stopped_round,
        compute_s=compute_s,
    )


def metrics_of(
    timeline: Timeline, log: Any, initial: Sequence[float], entry: AlgorithmConfig, spent: Columns
) -> Columns:
    """One row a version: row 0 is the initial model, row r the model after r aggregations.

    Of a part of a timeline: row 0 is whatever `initial` says, the others have their numbers.
    """
    max_power_w = entry.power.max_power_w
    events = len(log.finite)
    ready = timeline.ready[:events]
    mask = np.arange(log.weight.shape[1]) < ready[:, None]
    staleness = np.zeros(mask.shape)
    staleness[mask] = timeline.staleness[: ready.sum()]
    over = np.where(np.isnan(log.transmit_power_w), np.nan, log.transmit_power_w > max_power_w * (1 + 1e-5))

    def column(first: float, rest: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([[first], np.asarray(rest, dtype=float)])

    return {
        "round": timeline.first + np.arange(events + 1),
        "time_s": column(0.0, timeline.time_s[:events]),
        "ready": np.concatenate([[0], ready]),
        **_mishaps(timeline, log.weight == 0, mask),
        "test_accuracy": column(initial[0], log.test_accuracy),
        "test_loss": column(initial[1], log.test_loss),
        "train_loss": column(initial[2], log.train_loss),
        "staleness_mean": column(math.nan, _over_ready(staleness, mask, "mean")),
        "staleness_max": column(math.nan, _over_ready(staleness, mask, "max")),
        "amplitude_sum": column(math.nan, _over_ready(log.amplitude, mask, "sum")),
        "weight_square_sum": column(math.nan, _over_ready(log.weight.astype(float) ** 2, mask, "sum")),
        "noise_std": column(math.nan, log.noise_std),
        "transmit_power_w_mean": column(math.nan, _over_ready(log.transmit_power_w, mask, "mean")),
        "transmit_power_w_max": column(math.nan, _over_ready(log.transmit_power_w, mask, "max")),
        "over_budget": column(math.nan, _over_ready(over, mask, "mean")),
        **event_spending(timeline, spent, events, shared=entry.algorithm.over_the_air),
    }


def rounds_of(
    entry: AlgorithmConfig, seed: int, timeline: Timeline, log: Any, initial: Sequence[float] | None = None, *,
    rounds: int, num_parameters: int, costs: Costs, model: NDArray[Any] | None = None,
) -> Iterator[Round]:  # fmt: skip
    """The rounds of a part of a unit's timeline as callbacks get them; `log` has the columns of `engine.Log`.

    `initial`: the judgement of w^0, to be told first, as round 0. `rounds`: of the whole timeline. `costs`: as
    `costs_of` gives them. `model`: the newest one [d], for the last of these rounds.
    """
    spent = spending_of(entry, timeline, log, num_parameters, costs)
    metrics = metrics_of(timeline, log, initial or [math.nan] * 3, entry, spent)
    columns = {"lost": np.zeros(len(metrics["round"])), "silent": np.zeros(len(metrics["round"])), **metrics}
    if costs.uploads is None and not entry.algorithm.over_the_air:  # not accounted, also where nobody took part
        columns |= dict.fromkeys(("energy_j", "airtime_s"), np.full(len(metrics["round"]), np.nan))
    records: list[Columns] = []  # made for all rounds at once, when the first of them is asked for its devices

    def devices_of(round: int) -> Columns:
        if not records:
            records.append(device_records_of(timeline, log, spent))
        mine = records[0]["round"] == round
        return {name: column[mine] for name, column in records[0].items()}

    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    for row in rows if initial is not None else rows[1:]:
        values = dict(zip(columns, row, strict=True))
        number = int(values["round"])
        yield Round(
            label=entry.label, algorithm=entry.algorithm_name, seed=seed, round=number, rounds=rounds,
            metrics=values, model=model if row is rows[-1] else None, records=functools.partial(devices_of, number),
        )  # fmt: skip


def device_scores_of(prepared: PreparedRun, seed: int, log: Any) -> Columns:
    """How well the model does on each device's own kind of data; empty where the log does not know it."""
    if not log.score_by_label.shape[1]:
        return {}
    evaluated = np.flatnonzero(~np.isnan(log.test_accuracy))
    every = prepared.experiment.evaluation.devices_every
    return device_score_records(
        evaluated + 1, log.score_by_label[evaluated], prepared.dataset, prepared.shards[seed], every=every
    )


def spending_of(entry: AlgorithmConfig, timeline: Timeline, log: Any, num_parameters: int, costs: Costs) -> Columns:
    """Joules and seconds on the air of every device in every event."""
    mask = np.arange(log.weight.shape[1]) < timeline.ready[: len(log.finite), None]
    return device_spending(
        timeline,
        log.transmit_power_w[mask],
        block_symbols=entry.algorithm.symbols(num_parameters, entry.air.packing == "complex"),
        air=entry.air,
        costs=costs,
    )


def _privacy_of(entry: AlgorithmConfig, timeline: Timeline, log: Any) -> Columns:
    """The largest privacy loss of a device so far; nothing where updates are not clipped, or not sent over the air."""
    guards = entry.guards
    if guards.max_update_norm is None or not entry.algorithm.over_the_air:
        return {}
    sensitivity = entry.algorithm.sensitivity(guards.max_update_norm)
    if sensitivity is None:
        return {}
    mask = np.arange(log.weight.shape[1]) < timeline.ready[: len(log.finite), None]
    noise_w = noise_power_w(entry.air.bandwidth_hz, entry.air.n0_dbm_per_hz)
    return account(
        timeline, log.amplitude[mask].astype(float), len(log.finite), clip_norm=sensitivity / 2, noise_power_w=noise_w,
        noise_multiplier=guards.noise_multiplier,
    )  # fmt: skip


def _spending_of_aborted(
    entry: AlgorithmConfig, timeline: Timeline, events: int, num_parameters: int, costs: Costs
) -> Columns:
    """What each event cost through the trainings it aborted, and how many they were; nothing where there are none."""
    aborted = timeline.aborted
    if aborted is None:
        return {}
    n = int(aborted.offsets[events])
    # They send nothing over the air; ideal uploads are not accounted.
    silence = np.full(n, 0.0 if entry.algorithm.over_the_air else math.nan)
    spent = device_spending(
        aborted, silence, block_symbols=0, air=entry.air, costs=costs,
        stopped_s=aborted.time_s[aborted.event[:n]],
    )  # fmt: skip
    counts = np.concatenate([[0], aborted.ready[:events]])
    return {"aborted": counts, **event_spending(aborted, spent, events, shared=entry.algorithm.over_the_air)}


def _added(metrics: Columns, more: Columns) -> Columns:
    """The columns of `metrics` with those of `more` added to them, and the others of `more` beside them."""
    return {**metrics, **{name: metrics.get(name, 0) + column for name, column in more.items()}}


def _mishaps(timeline: Timeline, silent: NDArray[np.bool_], mask: NDArray[np.bool_]) -> Columns:
    """`lost`: updates that faults took or that were too stale to be sent; `silent`: devices ready that sent nothing."""
    lost = np.zeros(len(mask), int) if timeline.lost is None else timeline.lost[: len(mask)]
    counts = {"lost": lost, "silent": (silent & mask).sum(axis=1)}
    return {name: np.concatenate([[0], count]) for name, count in counts.items() if count.any()}


def _over_ready(values: NDArray[Any], mask: NDArray[np.bool_], how: str) -> NDArray[Any]:
    """Sum, mean or maximum over the devices of each event; NaN where nobody was ready."""
    count = mask.sum(axis=1)
    kept = np.where(mask, values, -np.inf if how == "max" else 0.0)
    total = kept.max(axis=1) if how == "max" else kept.sum(axis=1)
    total = total / np.maximum(count, 1) if how == "mean" else total
    return np.where(count > 0, total, np.nan)


def device_records_of(timeline: Timeline, log: Any, spent: Columns) -> Columns:
    """One row for every device in every event; of a very large fleet, only for its first devices."""
    events = len(log.finite)
    ready = timeline.ready[:events]
    n = int(ready.sum())
    mask = np.arange(log.weight.shape[1]) < ready[:, None]
    kept: Any = slice(None) if n <= MAX_RECORDS else timeline.device[:n] < recorded_devices(timeline)
    event = timeline.event[:n][kept]
    return {
        "round": event + 1,
        "device": timeline.device[:n][kept],
        "version": timeline.version[:n][kept],
        "staleness": event - timeline.version[:n][kept],
        "start_s": timeline.start_s[:n][kept],
        "finish_s": timeline.finish_s[:n][kept],
        "time_s": timeline.time_s[event - timeline.first],
        "amplitude": log.amplitude[mask][kept],
        "weight": log.weight[mask][kept],
        "similarity": log.similarity[mask][kept],
        "transmit_power_w": log.transmit_power_w[mask][kept],
        "channel_gain": log.channel_gain[mask][kept],
        **{name: spent[name][kept] for name in ("energy_j", "airtime_s", "compute_j")},
    }


def recorded_devices(timeline: Timeline) -> int:
    """How many devices' rows a trajectory keeps, so that there are about MAX_RECORDS of them at most."""
    devices = int(timeline.device.max(initial=0)) + 1
    return devices if len(timeline.device) <= MAX_RECORDS else max(1, devices * MAX_RECORDS // len(timeline.device))
