"""How many are ready, how stale they are and how loud the noise is, from the latencies alone: nothing is learned.

A device that waits for deadlines every dT needs m = ceil(L / dT) of them for a training of L seconds. By the renewal theorem
it is ready at a share 1 / E[m] of the deadlines, so `sum_k 1 / E[m_k]` devices are ready on average, and its update is m - 1
versions old. Over all updates the mean staleness is K / ready - 1, which is Little's law: K trainings are under way, `ready` of
them end at an event, so each lasts K / ready events. A device that comes and goes counts by the share of the time that it is
there. Other schemes are read from their timeline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...air.uplink import noise_power_w
from ...experiment.experiment import AlgorithmConfig
from ...results.result import Trajectory
from ...simulate.preparation import PreparedRun
from ...timing.fleet import Attendance
from ...timing.timeline import Timeline

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Means over the events of a scheme: seconds between two, devices in one, staleness of an update, noise of a weight."""

    round_s: float
    ready: float
    staleness: float
    noise_std: float = math.nan  # NaN where it depends on more than the latencies
    idle: float = math.nan  # share of a device's time that it waits for the next event


@dataclass(frozen=True)
class Law:
    """Latencies as they were drawn, device by device: `seconds` [n] of trainings, by `device` [n].

    `present` [K]: the share of the time that each of all devices is there; seconds in which a device was away do not count.
    """

    device: NDArray[np.int64]
    seconds: Floats
    present: Floats

    @classmethod
    def of(cls, timeline: Timeline, devices: int, attendance: Attendance | None = None) -> Law:
        """The trainings of a timeline of so many devices, which come and go as `attendance` says."""
        if attendance is None:
            return cls(timeline.device, timeline.finish_s - timeline.start_s, np.ones(devices))
        seconds = attendance.busy_s(timeline.device, timeline.start_s, timeline.finish_s)
        end_s = np.full(devices, timeline.time_s[-1])
        return cls(timeline.device, seconds, attendance.busy_s(np.arange(devices), 0 * end_s, end_s) / end_s)

    @property
    def mean_s(self) -> float:
        """Mean over the devices of their mean latency."""
        return float(np.nanmean(self._by_device(self.seconds)))

    def periodic(self, period_s: float) -> Pace:
        """By the renewal theorem, for any period."""
        periods = np.maximum(np.ceil(self.seconds / period_s - 1e-9), 1.0)
        mean_periods = self._by_device(periods)
        known = np.isfinite(mean_periods)
        often = np.full(len(self.present), (1.0 / mean_periods[known]).mean())  # of a device that has ended none
        often[known] = 1.0 / mean_periods[known]
        ready = float((self.present * often).sum())
        busy = float(np.nanmean(self._by_device(self.seconds) / (mean_periods * period_s)))
        staleness = float(self.present.sum()) / ready - 1
        return Pace(round_s=period_s, ready=ready, staleness=staleness, idle=max(0.0, 1 - busy))

    def mean_staleness_factor(self, period_s: float, omega: float) -> float:
        """The mean of rho = Omega / (s + Omega) over the updates at this period."""
        staleness = np.maximum(np.ceil(self.seconds / period_s - 1e-9), 1.0) - 1
        return float((omega / (staleness + omega)).mean())

    def _by_device(self, values: Floats) -> Floats:
        """The mean of each device, [K]; NaN for one that has not ended a training."""
        count = np.bincount(self.device, minlength=len(self.present))
        total = np.bincount(self.device, values, minlength=len(self.present))
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def from_timeline(timeline: Timeline, until_s: float | None = None) -> Pace:
    """What a timeline is like from its beginning to `until_s`; else after its first third, when the common start is forgotten."""
    if until_s is None:
        begun, end = len(timeline) // 3, len(timeline)
    else:
        begun, end = 0, max(1, int(np.searchsorted(timeline.time_s, until_s, side="right")))
    later = timeline.part(begun, end - begun)
    start_s = 0.0 if begun == 0 else float(timeline.time_s[begun - 1])
    time_s = later.time_s[later.event - later.first]
    whole = np.maximum(time_s - later.start_s, 1e-12)
    return Pace(
        round_s=(float(later.time_s[-1]) - start_s) / len(later),
        ready=float(later.ready.mean()),
        staleness=float(later.staleness.mean()) if len(later.device) else 0.0,
        idle=float(np.maximum(time_s - later.finish_s, 0).sum() / whole.sum()) if len(later.device) else math.nan,
    )


def simulated(runs: Sequence[Trajectory]) -> Pace:
    """The same from what was simulated: means over rounds and seeds."""

    def mean(name: str) -> float:
        parts = [np.asarray(run.metrics[name], float)[1:] for run in runs]
        known = np.concatenate(parts) if parts else np.zeros(0)
        known = known[np.isfinite(known)]
        return float(known.mean()) if len(known) else math.nan

    # A mean over updates, not over rounds: a round with many counts more.
    ready = np.concatenate([np.asarray(run.metrics["ready"], float)[1:] for run in runs])
    stale = np.concatenate([np.asarray(run.metrics["staleness_mean"], float)[1:] for run in runs])
    rounds = sum(len(run.metrics["round"]) - 1 for run in runs)
    ends_s = sum(float(run.metrics["time_s"][-1]) for run in runs)
    return Pace(
        round_s=ends_s / max(rounds, 1),
        ready=mean("ready"),
        staleness=float(np.nansum(ready * stale) / max(ready.sum(), 1e-12)),
        noise_std=mean("noise_std"),
    )


def noise_std(prepared: PreparedRun, entry: AlgorithmConfig, law: Law, pace: Pace) -> float:
    """Standard deviation of the noise in a weight of PAOTA's average: sqrt(sigma^2 / 2) / sum_k p_k.

    p_k is the cap times the mean staleness factor; `cap = "physical"` needs |payload|, which is the initial model's. What an
    update weighs is not known before there is one, nor how other rules divide: NaN.
    """
    if entry.algorithm_name != "paota":
        return math.nan
    sigma = math.sqrt(noise_power_w(entry.air.bandwidth_hz, entry.air.n0_dbm_per_hz) / 2)
    amplitude = entry.power.max_power_w
    if entry.power.cap == "physical":
        norm = _initial_norm(prepared) if entry.algorithm.payload == "model" else 0.0
        if norm == 0:
            return math.nan
        amplitude = mean_amplitude_gain(prepared, entry) * math.sqrt(amplitude) / norm
    rho = law.mean_staleness_factor(pace.round_s, entry.power.omega)
    return sigma / (pace.ready * amplitude * rho)


def mean_amplitude_gain(prepared: PreparedRun, entry: AlgorithmConfig) -> float:
    """E|h_k| over the devices and their fading, all antennas together."""
    import jax
    import jax.numpy as jnp

    from ...air.channel import mean_gain, small_scale
    from ...base.rng import Purpose, draw_key

    root, everyone = jax.random.key(prepared.seeds[0]), jnp.arange(prepared.experiment.data.devices)
    h = small_scale(entry.air, draw_key(root, Purpose.UPLOAD, 0), jnp.int32(0), jnp.zeros(()), everyone)
    gain = mean_gain(entry.air, root, everyone) * jnp.sum(jnp.abs(h) ** 2, axis=1)
    return float(jnp.sqrt(gain).mean())


def _initial_norm(prepared: PreparedRun) -> float:
    import jax
    import jax.numpy as jnp

    from ...base.rng import Purpose, device_key

    key = device_key(prepared.seeds[0], Purpose.INITIAL_MODEL)
    params = prepared.model.init(key, tuple(prepared.dataset.input_shape), prepared.dataset.num_classes)
    return float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))))
