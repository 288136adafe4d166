"""How long a local training takes: models of computing latency, drawn afresh for every training."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng
from ..base.settings import setting

MAX_TRACE_BYTES = 256 * 2**20
MOST_DRAWS, FEWEST_ROWS = 2**22, 64  # that are kept, however long a run is


class LatencyModel(Protocol):
    def draw(
        self, rng: np.random.Generator, fixed: np.random.Generator, training: int, devices: int
    ) -> NDArray[np.float64]:
        """Seconds that the `training`-th local training (0-based) of each device takes, [devices].

        `rng` is new for every `training`; `fixed` is the same one each time (for what a device keeps for life).
        """
        ...


class Begun(NamedTuple):
    """When trainings really begin, and when they are done; inf: never. [n] each."""

    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    heard_s: NDArray[np.float64]  # when the device gets the model that it trains: later where it has to start over


class Latencies:
    """The draws of one seed: `latencies(device, training)` is the same whoever asks, in whatever order.

    Schemes ask `begin`, which also knows when devices are away. Here nobody ever is; a `Latencies` that wraps another
    one (uploads, faults, a fleet with its comings and goings) overrides what it changes.
    """

    def __init__(self, model: LatencyModel, *, devices: int, seed: int) -> None:
        self.model, self.devices, self.seed = model, devices, seed
        self._rows: dict[int, NDArray[np.float64]] = {}

    def _row(self, training: int) -> NDArray[np.float64]:
        """The draws of the `training`-th trainings, [K]. Some are kept; a draw is the same whenever it is made."""
        if training not in self._rows:
            if len(self._rows) >= max(FEWEST_ROWS, MOST_DRAWS // self.devices):
                del self._rows[next(iter(self._rows))]
            self._rows[training] = self._draw(training)
        return self._rows[training]

    def _draw(self, training: int) -> NDArray[np.float64]:
        rng = host_rng(self.seed, Purpose.LATENCY, 1, training)
        fixed = host_rng(self.seed, Purpose.LATENCY, 0)
        row = np.asarray(self.model.draw(rng, fixed, training, self.devices), dtype=np.float64)
        if row.shape != (self.devices,) or not np.all(row > 0) or not np.all(np.isfinite(row)):
            raise UserError("the latency model must give one finite latency above 0 s for each device")
        return row

    def __call__(
        self, device: NDArray[np.int64], training: NDArray[np.int64], start_s: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Seconds that these trainings take, [n].

        Args:
            device: [n].
            training: how many each of them has begun before, [n].
            start_s: when they begin, [n]; matters only where a trace says that speeds change. None: at 0 s.
        """
        out = np.empty(len(device))
        order = np.argsort(training, kind="stable")
        values, first = np.unique(training[order], return_index=True)
        edges = [*first.tolist(), len(order)]
        for value, begin, end in zip(values.tolist(), edges[:-1], edges[1:], strict=True):
            where = order[begin:end]
            out[where] = self._row(value)[device[where]]
        return out

    def begin(
        self, device: NDArray[np.int64], training: NDArray[np.int64], now_s: float | NDArray[np.float64]
    ) -> Begun:
        """Trainings of devices that may begin at `now_s` (one moment, or one for each): at once, or when they are back."""
        start_s = self.back_s(device, now_s)
        return Begun(start_s, now_s + self(device, training, start_s), start_s)

    def back_s(self, device: NDArray[np.int64], now_s: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """The first moment from `now_s` on at which each device is there, [n]; inf: never again."""
        return np.full(len(device), now_s, float)

    def can_send(self, device: NDArray[np.int64], time_s: float) -> NDArray[np.bool_]:
        """Which devices that have finished can take part in an aggregation at `time_s`, [n]."""
        return np.ones(len(device), bool)


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """U(low, high), redrawn for every local training: the paper's U(5, 15) s."""

    low_s: float = setting(5.0, above=0, doc="Shortest training.", aliases=("min_s",))
    high_s: float = setting(15.0, above=0, doc="Longest training.", aliases=("max_s",))

    def draw(
        self, rng: np.random.Generator, fixed: np.random.Generator, training: int, devices: int
    ) -> NDArray[np.float64]:
        _check_order(self.low_s, self.high_s)
        return rng.uniform(self.low_s, self.high_s, devices)


@dataclass(frozen=True, kw_only=True)
class LogNormal:
    """median * exp(spread * N(0,1)): mostly quick, with a heavy tail of stragglers."""

    median_s: float = setting(9.0, above=0, doc="Half of the trainings are shorter.")
    spread: float = setting(0.4, low=0, high=5, doc="Standard deviation of the logarithm; 0 makes all alike.")

    def draw(
        self, rng: np.random.Generator, fixed: np.random.Generator, training: int, devices: int
    ) -> NDArray[np.float64]:
        return rng.lognormal(math.log(self.median_s), self.spread, devices)


@dataclass(frozen=True, kw_only=True)
class PerDevice:
    """Every device has one latency for life: given as `seconds` (one value a device), else drawn once from U(low, high)."""

    low_s: float = setting(5.0, above=0, doc="Shortest latency that a device can draw.")
    high_s: float = setting(15.0, above=0, doc="Longest latency that a device can draw.")
    seconds: tuple[float, ...] = setting(
        (), above=0, doc="The latency of each device in seconds, in place of the draw."
    )

    def draw(
        self, rng: np.random.Generator, fixed: np.random.Generator, training: int, devices: int
    ) -> NDArray[np.float64]:
        if not self.seconds:
            _check_order(self.low_s, self.high_s)
            return fixed.uniform(self.low_s, self.high_s, devices)
        if len(self.seconds) != devices:
            raise UserError(f"timing.seconds has {len(self.seconds)} values for {devices} devices")
        return np.array(self.seconds)


@dataclass(frozen=True, kw_only=True)
class TwoSpeeds:
    """The first devices (`slow_share` of them all) take U(slow_low, slow_high), the others U(low, high), redrawn each time."""

    slow_share: float = setting(0.3, low=0, high=1, doc="Share of the devices that are slow.")
    slow_low_s: float = setting(12.0, above=0, doc="Shortest training of a slow device.")
    slow_high_s: float = setting(15.0, above=0, doc="Longest training of a slow device.")
    low_s: float = setting(5.0, above=0, doc="Shortest training of the others.")
    high_s: float = setting(9.0, above=0, doc="Longest training of the others.")

    def draw(
        self, rng: np.random.Generator, fixed: np.random.Generator, training: int, devices: int
    ) -> NDArray[np.float64]:
        _check_order(self.low_s, self.high_s)
        if self.slow_low_s > self.slow_high_s:
            raise UserError(f"timing.slow_low_s ({self.slow_low_s}) must not exceed slow_high_s ({self.slow_high_s})")
        slow = np.arange(devices) < round(self.slow_share * devices)
        return rng.uniform(np.where(slow, self.slow_low_s, self.low_s), np.where(slow, self.slow_high_s, self.high_s))


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Latencies measured elsewhere: a CSV with the columns `device` and `latency_s`, in order of time.

    A device's n-th training takes its n-th row, starting over at the end; device k uses the trace of the (k mod T)-th of T.
    """

    trace_file: str = setting(
        "",
        doc="A CSV with the columns `device` and `latency_s`; a path relative to the experiment file.",
        aliases=("trace",),
    )

    def draw(
        self, rng: np.random.Generator, fixed: np.random.Generator, training: int, devices: int
    ) -> NDArray[np.float64]:
        traces = _read_trace(self.trace_file)
        return np.array([(row := traces[k % len(traces)])[training % len(row)] for k in range(devices)])


def _check_order(low_s: float, high_s: float) -> None:
    if low_s > high_s:
        raise UserError(f"timing.low_s ({low_s}) must not exceed timing.high_s ({high_s})")


_TRACE_CACHE: dict[tuple[str, int], list[list[float]]] = {}


def _read_trace(path: str) -> list[list[float]]:
    if not path:
        raise UserError("latency 'trace' needs timing.trace_file, a CSV with the columns device and latency_s")
    file = Path(path)
    if not file.is_file():
        raise UserError(f"timing.trace_file: no such file '{path}'")
    if file.stat().st_size > MAX_TRACE_BYTES:
        raise UserError(f"timing.trace_file: '{path}' is larger than {MAX_TRACE_BYTES >> 20} MiB")
    cache_key = (str(file.resolve()), file.stat().st_mtime_ns)
    if cache_key not in _TRACE_CACHE:
        _TRACE_CACHE[cache_key] = _parse_trace(file)
    return _TRACE_CACHE[cache_key]


def _parse_trace(file: Path) -> list[list[float]]:
    rows: dict[str, list[float]] = {}
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            if not {"device", "latency_s"} <= set(reader.fieldnames or ()):
                raise UserError(f"timing.trace_file: '{file}' needs the columns device and latency_s in its first line")
            for line, row in enumerate(reader, start=2):
                value = _latency_value(row["latency_s"])
                if value is None or not row["device"]:
                    raise UserError(f"timing.trace_file: '{file}' line {line} needs a device and a latency above 0 s")
                rows.setdefault(row["device"], []).append(value)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"timing.trace_file: '{file}' is not a readable CSV file ({error})") from None
    if not rows:
        raise UserError(f"timing.trace_file: '{file}' holds no latencies")
    return [rows[device] for device in sorted(rows, key=lambda name: (len(name), name))]


def _latency_value(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
