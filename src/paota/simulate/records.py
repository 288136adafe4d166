"""Tidy tables from the engine's log: one row per round, one row per device and event.

They include the control channel. Over the air every ready device reports |payload_k| and its algorithm's report; the
server sends it an amplitude. A report that needs a global step that stale devices do not have costs a broadcast of that
step. An announcement of an algorithm (which weights to send) is broadcast, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Shaped
from numpy.typing import ArrayLike

from ..air.privacy import account
from ..air.settings import Air
from ..air.spending import Costs, device_spending, event_spending
from ..air.uplink import noise_power_w
from ..algorithms.base import Algorithm, DeviceResult
from ..base.files import Columns
from ..callbacks.base import Round, RoundMetrics
from ..experiment.experiment import AlgorithmConfig
from ..results.device_scores import device_score_records
from ..results.result import Trajectory
from ..timing.timeline import Timeline
from .preparation import PreparedRun

Log: TypeAlias = Any  # an `engine.Log` of NumPy arrays

MAX_RECORDS = 2_000_000  # rows of device records in a trajectory: about 200 MB


def trajectory_of(
    prepared: PreparedRun, entry: AlgorithmConfig, seed: int, timeline: Timeline, log: Log, initial: Sequence[float], *,
    model: Float[np.ndarray, " d"], diverged_round: int | None, compute_s: float, stopped_round: int | None = None,
    costs: Costs | None = None, own: Mapping[int, Mapping[str, float]] | None = None,
) -> Trajectory:  # fmt: skip
    """Return the tables of one algorithm and seed, from a simulation or a deployment.

    Args:
        prepared: the run.
        entry: the algorithm.
        seed: the seed.
        timeline: its timeline.
        log: the columns of `engine.Log` as NumPy arrays, [events] and [events, places].
        initial: accuracy, loss and training loss of w^0.
        model: the last global model.
        diverged_round: round of the first model that is not finite, or None.
        compute_s: seconds of computing.
        stopped_round: round at which a callback stopped the run, or None.
        costs: costs of trainings and transfers; None: those of the simulator.
        own: metrics that callbacks added, by round.
    """
    own = own or {}
    names = dict.fromkeys(name for added in own.values() for name in added)
    costs = prepared.costs[entry.label, seed] if costs is None else costs
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
            **{
                name: np.array([own.get(r, {}).get(name, math.nan) for r in range(len(log.finite) + 1)])
                for name in names
            },
        },
        devices=device_records_of(timeline, log, spent),
        device_scores=device_scores_of(prepared, seed, log),
        model=model,
        diverged_round=diverged_round,
        stopped_round=stopped_round,
        compute_s=compute_s,
    )


def metrics_of(
    timeline: Timeline, log: Log, initial: Sequence[float], entry: AlgorithmConfig, spent: Columns
) -> Columns:
    """Return one row per version: row 0 is the initial model, row r the model after r aggregations.

    For a part of a timeline, row 0 holds `initial`, and the other rows keep their round numbers.
    """
    max_power_w = entry.power.max_power_w
    events = len(log.finite)
    ready = timeline.ready[:events]
    mask = _mask(timeline, log)
    staleness = np.zeros(mask.shape)
    staleness[mask] = timeline.staleness[: ready.sum()]
    over = np.where(np.isnan(log.transmit_power_w), np.nan, log.transmit_power_w > max_power_w * (1 + 1e-5))

    def column(first: float, rest: ArrayLike) -> Float[np.ndarray, " R+1"]:
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
        **({} if log.left_out is None else {"left_out": column(math.nan, _over_ready(log.left_out, mask, "sum"))}),
        **event_spending(timeline, spent, events, shared=entry.algorithm.over_the_air),
        **{name: column(math.nan, values) for name, values in log.own.items()},
    }


def rounds_of(
    entry: AlgorithmConfig, seed: int, timeline: Timeline, log: Log, initial: Sequence[float] | None = None, *,
    rounds: int, num_parameters: int, costs: Costs, model: Float[np.ndarray, " d"] | None = None,
) -> Iterator[Round]:  # fmt: skip
    """Yield the rounds of a part of a unit's timeline in the form of the callbacks.

    Args:
        entry: the algorithm.
        seed: the seed.
        timeline: the part of the timeline.
        log: the columns of `engine.Log` of this part, as NumPy arrays.
        initial: accuracy, loss and training loss of w^0, for a round 0 in front.
        rounds: number of rounds of the whole timeline.
        num_parameters: d.
        costs: costs of trainings and transfers.
        model: the newest model, for the last of these rounds.
    """
    spent = spending_of(entry, timeline, log, num_parameters, costs)
    metrics = metrics_of(timeline, log, initial or [math.nan] * 3, entry, spent)
    columns = {"lost": np.zeros(len(metrics["round"])), "silent": np.zeros(len(metrics["round"])), **metrics}
    if costs.uploads is None and not entry.algorithm.over_the_air:  # not accounted, also without participants
        columns |= dict.fromkeys(("energy_j", "airtime_s"), np.full(len(metrics["round"]), np.nan))
    records: list[Columns] = []  # made for all rounds at once, at the first use

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
            metrics=RoundMetrics(values), model=model if row is rows[-1] else None, records=functools.partial(devices_of, number),
        )  # fmt: skip


def device_scores_of(prepared: PreparedRun, seed: int, log: Log) -> Columns:
    """Return the score of the model on each device's own kind of data; empty if the log has no scores."""
    if not log.score_by_label.shape[1]:
        return {}
    evaluated = np.flatnonzero(~np.isnan(log.test_accuracy))
    every = prepared.experiment.evaluation.devices_every
    return device_score_records(
        evaluated + 1, log.score_by_label[evaluated], prepared.dataset, prepared.shards[seed], every=every
    )


def spending_of(entry: AlgorithmConfig, timeline: Timeline, log: Log, num_parameters: int, costs: Costs) -> Columns:
    """Return joules and airtime in seconds of every device in every event."""
    mask = _mask(timeline, log)
    return device_spending(
        timeline,
        log.transmit_power_w[mask],
        block_symbols=entry.algorithm.symbols(num_parameters, entry.air.packing == "complex"),
        air=entry.air,
        costs=costs,
    )


def _privacy_of(entry: AlgorithmConfig, timeline: Timeline, log: Log) -> Columns:
    """Return the largest privacy loss of a device so far; empty if updates are not clipped, or not sent over the air."""
    guards = entry.guards
    unequal = entry.air.subcarriers > 1 and (entry.air.precoding == "phase" or entry.air.csi_error is not None)
    if guards.max_update_norm is None or not entry.algorithm.over_the_air or unequal:
        return {}
    sensitivity = entry.algorithm.sensitivity(guards.max_update_norm)
    if sensitivity is None:
        return {}
    mask = _mask(timeline, log)
    noise_w = noise_power_w(entry.air.bandwidth_hz, entry.air.n0_dbm_per_hz)
    return account(
        timeline, log.amplitude[mask].astype(float), len(log.finite), clip_norm=sensitivity / 2, noise_power_w=noise_w,
        noise_multiplier=guards.noise_multiplier,
    )  # fmt: skip


def _spending_of_aborted(
    entry: AlgorithmConfig, timeline: Timeline, events: int, num_parameters: int, costs: Costs
) -> Columns:
    """Return the number and the costs of the trainings that each event aborted; empty if there are none."""
    aborted = timeline.aborted
    if aborted is None:
        return {}
    n = int(aborted.offsets[events])
    # Aborted trainings send nothing over the air; ideal uploads are not accounted.
    silence = np.full(n, 0.0 if entry.algorithm.over_the_air else math.nan)
    spent = device_spending(
        aborted, silence, block_symbols=0, air=entry.air, costs=costs,
        stopped_s=aborted.time_s[aborted.event[:n]],
    )  # fmt: skip
    counts = np.concatenate([[0], aborted.ready[:events]])
    return {"aborted": counts, **event_spending(aborted, spent, events, shared=entry.algorithm.over_the_air)}


def _mask(timeline: Timeline, log: Log) -> Bool[np.ndarray, "R n"]:
    """Return the places of each event that hold a device."""
    return np.arange(log.weight.shape[1]) < timeline.ready[: len(log.finite), None]


def _added(metrics: Columns, more: Columns) -> Columns:
    """Return the columns of `metrics` plus those of `more`; columns of `more` alone are kept."""
    return {**metrics, **{name: metrics.get(name, 0) + column for name, column in more.items()}}


def _mishaps(timeline: Timeline, silent: Bool[np.ndarray, "R n"], mask: Bool[np.ndarray, "R n"]) -> Columns:
    """Return `lost`, updates lost to faults or too stale to be sent, and `silent`, ready devices that sent nothing."""
    lost = np.zeros(len(mask), int) if timeline.lost is None else timeline.lost[: len(mask)]
    counts = {"lost": lost, "silent": (silent & mask).sum(axis=1)}
    return {name: np.concatenate([[0], count]) for name, count in counts.items() if count.any()}


def _over_ready(values: Shaped[np.ndarray, "R n"], mask: Bool[np.ndarray, "R n"], how: str) -> Float[np.ndarray, " R"]:
    """Return the sum, mean or maximum over the devices of each event; NaN if no device was ready."""
    count = mask.sum(axis=1)
    kept = np.where(mask, values, -np.inf if how == "max" else 0.0)
    total = kept.max(axis=1) if how == "max" else kept.sum(axis=1)
    total = total / np.maximum(count, 1) if how == "mean" else total
    return np.where(count > 0, total, np.nan)


def device_records_of(timeline: Timeline, log: Log, spent: Columns) -> Columns:
    """Return one row for every device in every event; a very large fleet has rows for its first devices only."""
    events = len(log.finite)
    ready = timeline.ready[:events]
    n = int(ready.sum())
    mask = _mask(timeline, log)
    kept = np.ones(n, bool) if n <= MAX_RECORDS else timeline.device[:n] < recorded_devices(timeline)
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
        **({} if log.left_out is None else {"left_out": log.left_out[mask][kept]}),
        **{name: spent[name][kept] for name in ("energy_j", "airtime_s", "compute_j")},
    }


def recorded_devices(timeline: Timeline) -> int:
    """Return the number of devices whose rows a trajectory keeps, so that it has at most about MAX_RECORDS rows."""
    devices = int(timeline.device.max(initial=0)) + 1
    return devices if len(timeline.device) <= MAX_RECORDS else max(1, devices * MAX_RECORDS // len(timeline.device))


def reported_scalars(algorithm: Algorithm) -> int:
    """Return the scalars that a device sends to the server in an event: its algorithm's report, and a norm."""
    import jax  # start-up time
    import jax.numpy as jnp  # start-up time

    def report() -> object:
        w, one = jnp.zeros(1), jnp.zeros(())
        state, memory = algorithm.init_for(w, 1), algorithm.memory(w)
        key = jax.random.key(0) if algorithm.draws else None
        return algorithm.report(DeviceResult(w, w, one, jnp.zeros((), int), one, w, w, memory, state, key))

    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(report))) + _server_scalars(algorithm)


def _server_scalars(algorithm: Algorithm) -> int:
    """Return the scalars that the server sends to a device: its amplitude."""
    return 1 if algorithm.over_the_air and algorithm.told_amplitudes else 0


def control_columns(algorithm: Algorithm, air: Air, timeline: Timeline, events: int, num_parameters: int) -> Columns:
    """Return bits and seconds of the control channel in the first `events` events, behind a row for the initial model.

    The result is empty if control is free. `num_parameters` (d) is the size of a broadcast step.
    """
    if air.control_mbit_per_s is None:
        return {}
    ready = timeline.ready[:events]
    stale = np.bincount(timeline.event, timeline.staleness > 0, minlength=len(timeline))[:events] > 0
    per_device = reported_scalars(algorithm) + _server_scalars(algorithm)
    scalars = ready * per_device + stale * algorithm.broadcast(num_parameters)
    announced = (ready > 0) * algorithm.announced_bits(num_parameters)
    bits = np.concatenate([[0.0], scalars * float(air.scalar_bits) + announced])
    return {"control_bits": bits, "control_s": bits / (1e6 * air.control_mbit_per_s)}
