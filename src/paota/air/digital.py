"""A digital uplink: every device sends its own bits on a share of the band, at Shannon's rate, before it can take part.

The shares are fixed, so the time an upload takes is a function of (device, n-th upload) alone, just as a computing
latency is: it is added to the latency, and every scheme (synchronous, periodic, asynchronous, ...) includes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.rng import Purpose
from ..base.settings import setting
from ..base.units import db_to_ratio, dbm_to_w
from ..timing.latency import Latencies
from .settings import Air

if TYPE_CHECKING:
    from ..timing.fleet import Attendance
    from .downlink import Downloads

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Ideal:
    """Uploads are lossless, take no time and cost nothing: the paper's Local SGD."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The band is cut into `subchannels` equal shares, by default one for each device that may be uploading.

    A device sends min(log2(1 + SNR/gap), `max_bits_per_symbol`) bits a symbol, with the SNR that P_max gives, and no
    more power than that rate needs.
    """

    bits_per_weight: int = setting(
        32,
        low=1,
        high=64,
        doc="Bits that one weight of the model takes.",
        aliases=("bits", "quantisation", "quantization"),
    )
    subchannels: int | None = setting(None, low=1, doc="Equal shares of the band; absent: one for each device.")
    snr_gap_db: float = setting(0.0, low=0, high=60, doc="Distance of the code in use from Shannon's limit.")
    max_bits_per_symbol: float = setting(8.0, above=0, high=64, doc="Largest constellation; 8 is 256-QAM.")
    by_time: ClassVar[bool]


@dataclass(frozen=True, kw_only=True)
class Ofdma(Shares):
    """A share is a sub-band: a device sends on its own all the time."""

    by_time: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Tdma(Shares):
    """A share is a slot of a frame: a device has the whole band for 1/`subchannels` of the time."""

    by_time: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Rated:
    """Every device has a rate of its own, over some network outside the band B: the fleet's, or one for all."""

    bits_per_weight: int = setting(
        32,
        low=1,
        high=64,
        doc="Bits that one weight of the model takes.",
        aliases=("bits", "quantisation", "quantization"),
    )
    up_mbit_per_s: float = setting(
        10.0,
        above=0,
        doc="Rate of an upload, 10^6 bits a second, where the fleet's file does not say.",
        aliases=("upload",),
    )
    radio_power_w: float = setting(1.0, low=0, doc="That an upload draws; for the energy account only.")


class Cost(NamedTuple):
    """Of one upload each."""

    wait_s: Floats  # from the end of the training to the last bit
    on_air_s: Floats  # transmitter on
    band_s: Floats  # seconds of the whole band B used up
    energy_j: Floats  # radiated


def upload_cost(scheme: Shares, gain: Floats, *, bits: float, shares: int, air: Air, max_power_w: float) -> Cost:
    """What `bits` cost over channels with power gain |h|^2, each on one of `shares` equal shares of the band.

    rate = W log2(1 + P |h|^2 / (gap N0 W)), at most c W; W = B/shares (OFDMA), or B for 1/shares of the time (TDMA).
    """
    width_hz = air.bandwidth_hz if scheme.by_time else air.bandwidth_hz / shares
    noise_w = db_to_ratio(scheme.snr_gap_db) * width_hz * dbm_to_w(air.n0_dbm_per_hz)
    at_full_power = np.log1p(max_power_w * gain / noise_w) / np.log(2.0)
    bits_per_symbol = np.minimum(at_full_power, scheme.max_bits_per_symbol)
    power_w = np.expm1(bits_per_symbol * np.log(2.0)) * noise_w / gain
    on_air_s = bits / (width_hz * bits_per_symbol)
    wait_s = on_air_s * shares if scheme.by_time else on_air_s
    return Cost(wait_s, on_air_s, on_air_s * (width_hz / air.bandwidth_hz), power_w * on_air_s)


class Uploads:
    """The uploads of one seed: `uploads(device, training)` is the same whoever asks, in whatever order.

    A device stands where it stands for the analog uplink too; its fading is a new draw for every upload, also where
    the analog channel remembers ("jakes"): an upload has no simulated time yet when its length is asked for.
    """

    def __init__(
        self, air: Air, *, max_power_w: float, num_parameters: int, devices: int, seed: int, at_once: int | None = None
    ) -> None:
        self.air, self.max_power_w, self.devices, self.seed = air, max_power_w, devices, seed
        self.shares = air.digital.subchannels or at_once or devices
        self.bits = float(num_parameters) * air.digital.bits_per_weight
        self._rows: dict[int, Cost] = {}
        self._draw: Any = None

    def __call__(self, device: NDArray[np.int64], training: NDArray[np.int64], start_s: Floats | None = None) -> Cost:
        """Of uploads behind these trainings; when they begin (`start_s`) does not matter."""
        out = Cost(*(np.empty(len(device)) for _ in Cost._fields))
        for value in np.unique(training):
            where = training == value
            for column, row in zip(out, self._row(int(value)), strict=True):
                column[where] = row[device[where]]
        return out

    def _row(self, training: int) -> Cost:
        if training not in self._rows:
            scheme = self.air.digital
            self._rows[training] = upload_cost(
                scheme, self._gains(training), bits=self.bits, shares=self.shares,
                air=self.air, max_power_w=self.max_power_w,
            )  # fmt: skip
        return self._rows[training]

    def _gains(self, training: int) -> Floats:
        """|h|^2 of every device, summed over the receive antennas (maximum-ratio combining: one sender a share)."""
        import jax
        import jax.numpy as jnp

        from ..base.rng import draw_key
        from .channel import mean_gain, small_scale

        if self._draw is None:

            def draw(training: Any) -> Any:
                root, everyone = jax.random.key(self.seed), jnp.arange(self.devices)
                key = draw_key(root, Purpose.UPLOAD, training)
                h = small_scale(self.air, key, training, jnp.zeros(()), everyone)
                return mean_gain(self.air, root, everyone) * jnp.sum(jnp.abs(h) ** 2, axis=1)

            self._draw = jax.jit(draw)
        return np.asarray(self._draw(np.int32(training)), dtype=np.float64)


class RatedUploads:
    """Uploads at the rate that a fleet's file gives when the training begins, else at one for all; nobody shares it."""

    def __init__(self, scheme: Rated, *, num_parameters: int, attendance: Attendance | None) -> None:
        self.scheme, self.attendance = scheme, attendance
        self.bits = float(num_parameters) * scheme.bits_per_weight

    def __call__(self, device: NDArray[np.int64], training: NDArray[np.int64], start_s: Floats | None = None) -> Cost:
        """The band B is not touched: seconds of it are not accounted (NaN)."""
        rate = rate_of(self.attendance, "up_mbit_per_s", self.scheme.up_mbit_per_s, device, start_s)
        wait_s = self.bits / (1e6 * rate)
        return Cost(wait_s, wait_s, np.full(len(device), np.nan), self.scheme.radio_power_w * wait_s)


def rate_of(
    attendance: Attendance | None, column: str, otherwise: float, device: NDArray[np.int64], start_s: Floats | None
) -> Floats:
    """What the fleet's file says in `column` at `start_s`, [n]; `otherwise` where there is none."""
    known = None if attendance is None else attendance.rate(column, device, start_s)
    return np.full(len(device), otherwise) if known is None else known


class WithTransfers(Latencies):
    """Computing latencies, with the download before and what is sent behind each of them."""

    def __init__(
        self, computing: Latencies, *, uploads: Uploads | RatedUploads | None = None, downloads: Downloads | None = None,
        block_s: float = 0.0,
    ) -> None:  # fmt: skip
        """`uploads` and `downloads`: None costs nothing; `block_s`: that an analog block lasts, where it counts."""
        super().__init__(computing.model, devices=computing.devices, seed=computing.seed)
        self.computing, self.uploads, self.downloads, self.block_s = computing, uploads, downloads, block_s

    def __call__(self, device: NDArray[np.int64], training: NDArray[np.int64], start_s: Floats | None = None) -> Floats:
        seconds = self.computing(device, training, start_s)
        if self.uploads is not None:
            seconds = seconds + self.uploads(device, training, start_s).wait_s
        if self.downloads is not None:
            seconds = seconds + self.downloads(device, start_s)
        return seconds + self.block_s
