"""The candidates for a deployment, and their estimates from the latencies alone: nothing is learned.

A training with latency L takes m = ceil(L / dT) periods of a device that waits for deadlines every dT. By the renewal theorem
it is ready at a share 1 / E[m] of the deadlines. So `sum_k 1 / E[m_k]` devices are ready on average, and an update is m - 1
versions old. The mean staleness over all updates is K / ready - 1, which is Little's law: K trainings are in progress, and
`ready` of them end at an event, so each lasts K / ready events. A device that comes and goes counts by the share of the time
in which it is available. Other schemes are read from their timelines.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import NDArray

from ...air.channel import mean_gain, small_scale
from ...air.uplink import noise_power_w
from ...base.errors import UserError, unknown_name
from ...base.registry import ALGORITHMS
from ...base.rng import Purpose, device_key, draw_key
from ...base.types import Settings, Table
from ...experiment.experiment import DEFAULT_ALGORITHMS, AlgorithmConfig, Experiment
from ...results.result import Trajectory
from ...simulate import prepare as prepare_run
from ...simulate.conditions import attendance_of
from ...simulate.preparation import PreparedRun
from ...timing.fleet import Attendance
from ...timing.schemes import Periodic, Synchronous
from ...timing.timeline import Timeline
from ..sweep.grid import PERIOD, Axis, show, unused_periods
from ..sweep.sweep import timelines_of

SHORTLIST = ("paota", "paota-plus", "threshold")  # one rule for each way to wait, all over the air
PERIODS = (0.4, 0.6, 0.8, 1.0, 1.3)  # of the mean latency
FIRST = (0.1, 0.2, 0.3)  # of the devices: all start, and the first ones to finish count
# No update of such a round is stale, so a longer step pays. docs/field.md has the tuned ones of 17 settings.
LONGER_STEP = {"server.optimiser": "momentum", "server.learning_rate": 1.5, "server.momentum": 0.6}
MOST_CANDIDATES = 2_000
WORDS = {
    "payload": "{}", PERIOD: "dT {} s", "data.devices": "{} devices", "power.max_power_w": "{} W",
    "server.learning_rate": "server step {}",
}  # fmt: skip
MOST_UPDATES = 100_000  # of devices, in a run
TRIALS = 3  # trainings of every device that measure their latency
CURVE_POINTS = 40


@dataclass(frozen=True)
class Candidate:
    """A possible deployment. `choices` are the settings that differ between candidates; `experiment` has one algorithm."""

    index: int
    choices: Settings
    experiment: Experiment

    @property
    def config(self) -> AlgorithmConfig:
        """The algorithm with all its settings."""
        return self.experiment.algorithms[0]

    @property
    def algorithm(self) -> str:
        """The label of the algorithm."""
        return self.config.label

    @property
    def has_deadlines(self) -> bool:
        """True if the renewal theorem gives the estimate; other schemes are read from their timelines."""
        return isinstance(self.config.algorithm.scheme, Periodic)

    @property
    def name(self) -> str:
        """`paota, update, dT 8 s`, `threshold, 30 of 100`; settings without a short word appear with their key."""
        choices = dict(self.choices)
        said = [self.algorithm]
        if (count := choices.pop("participants", None)) is not None:
            selected = choices.pop("selected", None)
            said.append(f"{show(count)} of {show(selected)}" if selected else f"{show(count)} a round")
        if "server.learning_rate" in choices:
            choices.pop("server.optimiser", None)
        for key, value in choices.items():
            word = WORDS.get(key, f"{key.rpartition('.')[2]} {{}}")
            said.append(word.format(show(value)))
        return ", ".join(said)


def base_of(experiment: Experiment, target: float, stop_at: float) -> Experiment:
    """Return what all candidates share: the experiment's time, an end at the target, and no other evaluations."""
    horizon = experiment.horizon
    duration_s = horizon.duration_s or (horizon.rounds or 0) * experiment.timing.period_s
    return experiment.override(
        {
            "duration_s": float(duration_s), "targets": [target], "evaluation.stop_at": stop_at,
            "evaluation.train_loss": "batches",
        }
    )  # fmt: skip


def affordable(base: Experiment) -> Experiment:
    """Return the experiment with a shorter time in which devices that never wait make at most `MOST_UPDATES` updates.

    Where trainings take milliseconds, the minutes of an experiment hold millions of them, far more than a comparison of
    candidates needs. The period is shortened until it fits.
    """
    devices = base.data.devices
    trial = base.override({"rounds": TRIALS, "algorithms": [{"name": "cotaf", "participants": devices}]})
    mean_s = law_of(trial).mean_s
    longest_s = _rounded(MOST_UPDATES / devices * mean_s)
    if (base.horizon.duration_s or 0.0) <= longest_s:
        return base
    period_s = min(base.timing.period_s, _rounded(PERIODS[2] * mean_s))
    return base.override({"duration_s": longest_s, PERIOD: period_s})


def entries_of(experiment: Experiment, algorithms: Sequence[str]) -> list[Table]:
    """Return the algorithms to choose from: the named ones, else the experiment's, or the shortlist for the paper's three."""
    given = {config.label: config.to_dict() for config in experiment.algorithms}
    paper = [entry["name"] for entry in DEFAULT_ALGORITHMS]
    default = list(given) == paper and not any(c.overrides for c in experiment.algorithms)
    wanted = list(algorithms) or (list(SHORTLIST) if default else list(given))
    for name in wanted:
        if name not in given and name not in ALGORITHMS:
            raise unknown_name("algorithm", name, [*given, *ALGORITHMS])
    return [given.get(name, {"name": name}) for name in wanted]


def candidates_of(base: Experiment, entries: Sequence[Settings], axes: Sequence[Axis]) -> tuple[Candidate, ...]:
    """Return all candidates, each checked: over the axes, or without axes over the usual choices of each algorithm."""
    labels = [str(entry.get("label", entry["name"])) for entry in entries]
    for axis in axes:
        if axis.key.startswith("algorithms.") and axis.key.split(".")[1] not in labels:
            raise unknown_name("algorithm label", axis.key.split(".")[1], labels)
    made: list[Candidate] = []
    for entry in entries:
        alone = base.override({"algorithms": [_with_participants(base, entry)]})
        for own, changes in _asked(alone, axes) if axes else _usual(alone):
            algorithms = [_merged(alone.algorithms[0].to_dict(), own)]
            made.append(Candidate(len(made), own | changes, alone.override(changes | {"algorithms": algorithms})))
            if len(made) > MOST_CANDIDATES:
                raise UserError(f"more than {MOST_CANDIDATES:,} candidates: name fewer values, or fewer algorithms")
    return tuple(made)


Choice = tuple[Table, Table]  # settings of the algorithm's own entry, and of the whole experiment


def _asked(alone: Experiment, axes: Sequence[Axis]) -> Iterator[Choice]:
    """Yield the combinations of the axes that concern this algorithm, without periods that it does not have."""
    config = alone.algorithms[0]
    prefix = f"algorithms.{config.label}."
    mine = [axis for axis in axes if axis.key.startswith(prefix) or not axis.key.startswith("algorithms.")]
    unused = unused_periods(config, mine)
    keys = [axis.key for axis in mine if axis.key not in unused]
    for values in itertools.product(*(axis.values for axis in mine if axis.key not in unused)):
        choices = dict(zip(keys, values, strict=True))
        own = {key.removeprefix(prefix): value for key, value in choices.items() if key.startswith(prefix)}
        yield own, {key: value for key, value in choices.items() if not key.startswith(prefix)}


def _usual(alone: Experiment) -> Iterator[Choice]:
    """Yield what usually matters: the payload, and how often or for how many devices the scheme waits."""
    algorithm, devices = alone.algorithms[0].algorithm, alone.data.devices
    has_payload = "payload" in alone.algorithms[0].to_dict()
    payloads: list[Table] = [{"payload": value} for value in ("model", "update")] if has_payload else [{}]
    scheme = algorithm.scheme
    ways: list[Choice] = [({}, {})]
    if scheme.uses_period:
        mean_s = law_of(alone).mean_s
        ways = [({}, {PERIOD: _rounded(share * mean_s)}) for share in PERIODS]
    elif isinstance(scheme, Synchronous):
        counts = [max(1, round(share * devices)) for share in FIRST]
        first: list[Table] = [{"participants": count, "selected": devices, **LONGER_STEP} for count in counts]
        ways = [(own, {}) for own in ({"participants": scheme.participants}, *first)]
    for payload in payloads:
        for own, changes in ways:
            yield payload | own, changes


def _merged(entry: Settings, own: Settings) -> Table:
    """Return an algorithm's entry with its own settings; a key with a dot belongs to a section."""
    made = dict(entry)
    for key, value in own.items():
        section, dot, name = key.partition(".")
        if dot:
            made[section] = {**made.get(section, {}), name: value}
        else:
            made[key] = value
    return made


def _with_participants(base: Experiment, entry: Settings) -> Settings:
    """Return a synchronous rule's entry with the number of participants that the given experiment implies."""
    alone = base.override({"algorithms": [entry]})
    if getattr(alone.algorithms[0].algorithm, "participants", 1) is not None:
        return entry
    (timeline,) = timelines_of(alone).values()
    return {**entry, "participants": int(timeline.ready.max())}


def _rounded(value: float) -> float:
    """Return a value with two digits."""
    digits = 1 - math.floor(math.log10(value))
    return round(value, digits)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Means over the events of a scheme.

    Args:
        round_s: seconds between two events.
        ready: devices in an event.
        staleness: versions of an update.
        noise_std: noise of a weight; NaN where it depends on more than the latencies.
        idle: share of its time in which a device waits for the next event.
    """

    round_s: float
    ready: float
    staleness: float
    noise_std: float = math.nan
    idle: float = math.nan


@dataclass(frozen=True)
class Law:
    """Latencies of n trainings of K devices.

    Args:
        device: the device of each training.
        seconds: its duration, without the time in which the device was away.
        present: the share of the time in which each device is available.
    """

    device: Int64[np.ndarray, " n"]
    seconds: Float64[np.ndarray, " n"]
    present: Float64[np.ndarray, " K"]

    @classmethod
    def of(cls, timeline: Timeline, devices: int, attendance: Attendance | None = None) -> Law:
        """Return the latencies of a timeline; the devices come and go as `attendance` says."""
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
        """Return the pace at a period by the renewal theorem."""
        periods = np.maximum(np.ceil(self.seconds / period_s - 1e-9), 1.0)
        mean_periods = self._by_device(periods)
        known = np.isfinite(mean_periods)
        often = np.full(len(self.present), (1.0 / mean_periods[known]).mean())  # for a device without a training
        often[known] = 1.0 / mean_periods[known]
        ready = float((self.present * often).sum())
        busy = float(np.nanmean(self._by_device(self.seconds) / (mean_periods * period_s)))
        staleness = float(self.present.sum()) / ready - 1
        return Pace(round_s=period_s, ready=ready, staleness=staleness, idle=max(0.0, 1 - busy))

    def mean_staleness_factor(self, period_s: float, omega: float) -> float:
        """Return the mean of rho = Omega / (s + Omega) over the updates at a period."""
        staleness = np.maximum(np.ceil(self.seconds / period_s - 1e-9), 1.0) - 1
        return float((omega / (staleness + omega)).mean())

    def _by_device(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of `values` [n] for each device, [K]; NaN for a device without a training."""
        count = np.bincount(self.device, minlength=len(self.present))
        total = np.bincount(self.device, values, minlength=len(self.present))
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def law_of(alone: Experiment, timeline: Timeline | None = None) -> Law:
    """Return the latencies of an experiment with one algorithm; `timeline` is its timeline, if it is known."""
    if timeline is None:
        (timeline,) = timelines_of(alone).values()
    return Law.of(timeline, alone.data.devices, attendance_of(alone.algorithms[0].timing))


def paces_of(candidate: Candidate, until_s: float | None = None, points: int = 0) -> tuple[Pace, tuple[Pace, ...]]:
    """Return the expected pace of a candidate, and a curve of its pace over the period.

    With deadlines the latencies alone give both. Other schemes have no curve.

    Args:
        candidate: to be estimated.
        until_s: the end of a timeline that is read from its beginning; by default its long run is read.
        points: of the curve.
    """
    made, config = prepare_run(candidate.experiment, seeds=1), candidate.config
    (timeline,) = made.timelines.values()
    if not candidate.has_deadlines or not len(timeline.device):
        return from_timeline(timeline, until_s), ()
    law, amplitude = law_of(candidate.experiment, timeline), mean_amplitude(made, config)

    def at(period_s: float) -> Pace:
        pace = law.periodic(period_s)
        return replace(pace, noise_std=noise_std(config, law, pace, amplitude))

    periods = np.geomspace(0.2 * law.mean_s, 2 * law.mean_s, points) if points else ()
    return at(config.timing.period_s), tuple(at(float(period_s)) for period_s in periods)


def from_timeline(timeline: Timeline, until_s: float | None = None) -> Pace:
    """Return the pace of a timeline until `until_s`; by default after its first third, without the common start."""
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
    """Return the pace of simulated runs: means over rounds and seeds."""

    def column(name: str) -> NDArray[np.float64]:
        return np.concatenate([np.asarray(run.metrics[name], float)[1:] for run in runs])

    def mean(values: NDArray[np.float64]) -> float:
        known = values[np.isfinite(values)]
        return float(known.mean()) if len(known) else math.nan

    # The staleness is a mean over updates, not over rounds: a round with many updates counts more.
    ready, stale = column("ready"), column("staleness_mean")
    ends_s = sum(float(run.metrics["time_s"][-1]) for run in runs)
    return Pace(
        round_s=ends_s / max(len(ready), 1),
        ready=mean(ready),
        staleness=float(np.nansum(ready * stale) / max(ready.sum(), 1e-12)),
        noise_std=mean(column("noise_std")),
    )


def noise_std(config: AlgorithmConfig, law: Law, pace: Pace, amplitude: float) -> float:
    """Return the standard deviation of the noise in a weight of PAOTA's average: sqrt(sigma^2 / 2) / sum_k p_k.

    The amplitude p_k is `mean_amplitude` times the mean staleness factor.
    """
    sigma = math.sqrt(noise_power_w(config.air.bandwidth_hz, config.air.n0_dbm_per_hz) / 2)
    rho = law.mean_staleness_factor(pace.round_s, config.power.omega)
    return sigma / (pace.ready * amplitude * rho)


def mean_amplitude(prepared: PreparedRun, config: AlgorithmConfig) -> float:
    """Return the mean cap of PAOTA's amplitudes; NaN where it is not known in advance.

    `cap = "physical"` needs |payload|, which is that of the initial model. The norm of an update is not known before there
    is one, nor how other rules divide.
    """
    if config.algorithm_name != "paota" or config.air.subcarriers > 1 or hasattr(config.air.fading, "channel_file"):
        return math.nan
    if config.power.cap != "physical":
        return config.power.max_power_w
    norm = _initial_norm(prepared) if config.algorithm.payload == "model" else 0.0
    return math.nan if norm == 0 else _mean_gain(prepared, config) * math.sqrt(config.power.max_power_w) / norm


def _mean_gain(prepared: PreparedRun, config: AlgorithmConfig) -> float:
    """Return E|h_k| over the devices and their fading, all antennas together."""

    root, devices = jax.random.key(prepared.seeds[0]), jnp.arange(prepared.experiment.data.devices)
    h = small_scale(config.air, draw_key(root, Purpose.UPLOAD, 0), jnp.int32(0), jnp.zeros(()), devices)
    gain = mean_gain(config.air, root, devices) * jnp.sum(jnp.abs(h) ** 2, axis=1)
    return float(jnp.sqrt(gain).mean())


def _initial_norm(prepared: PreparedRun) -> float:

    key = device_key(prepared.seeds[0], Purpose.INITIAL_MODEL)
    params = prepared.model.init(key, tuple(prepared.dataset.input_shape), prepared.dataset.num_classes)
    return float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))))
