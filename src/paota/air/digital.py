"""Digital uplinks: each device sends its own bits on a share of the band, at Shannon's rate.

The shares are fixed, so the duration of an upload depends on (device, n-th upload) alone, as a computing latency does. It
is added to the latency, so every scheme (synchronous, periodic, asynchronous, ...) includes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.rng import Purpose, pick_draws
from ..base.settings import setting
from ..base.units import db_to_ratio, dbm_to_w
from ..timing.latency import Latencies
from .settings import Air

if TYPE_CHECKING:
    from collections.abc import Callable

    import jax
    from jaxtyping import Float, Int

    from ..timing.fleet import Attendance
    from .downlink import Downloads

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Ideal:
    """Uploads are lossless, take no time and cost nothing, as for the paper's Local SGD."""


@dataclass(frozen=True, kw_only=True)
class Digital:
    """An uplink over which the weights travel as bits."""

    bits_per_weight: int = setting(
        32,
        low=1,
        high=64,
        doc="Bits that one weight of the model takes.",
        aliases=("bits", "quantisation", "quantization"),
    )


@dataclass(frozen=True, kw_only=True)
class Shares(Digital):
    """The band has `subchannels` equal shares, by default one for each device that may be uploading.

    A device sends min(log2(1 + SNR/gap), `max_bits_per_symbol`) bits per symbol at the SNR that P_max gives. It uses no
    more power than that rate needs.
    """

    subchannels: int | None = setting(None, low=1, doc="Equal shares of the band; absent: one per device.")
    snr_gap_db: float = setting(0.0, low=0, high=60, doc="Gap between the code in use and Shannon's limit.")
    max_bits_per_symbol: float = setting(8.0, above=0, high=64, doc="Largest constellation; 8 is 256-QAM.")
    by_time: ClassVar[bool]


@dataclass(frozen=True, kw_only=True)
class Ofdma(Shares):
    """A share is a sub-band, on which one device sends all the time."""

    by_time: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Tdma(Shares):
    """A share is a slot of a frame, in which one device has the whole band for 1/`subchannels` of the time."""

    by_time: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Rated(Digital):
    """Every device uploads over a network outside the band B, at the rate in the fleet's file or at a common rate."""

    up_mbit_per_s: float = setting(
        10.0,
        above=0,
        doc="Rate of an upload in 10^6 bits per second, for devices without a rate in the fleet's file.",
        aliases=("upload",),
    )
    radio_power_w: float = setting(1.0, low=0, doc="Power that an upload draws, for the energy account only.")


class Cost(NamedTuple):
    """Costs of uploads, one entry per upload."""

    wait_s: Float[Floats, " n"]  # from the end of the training to the last bit
    on_air_s: Float[Floats, " n"]  # time with the transmitter on
    band_s: Float[Floats, " n"]  # occupied seconds of the whole band B
    energy_j: Float[Floats, " n"]  # radiated energy


def upload_cost(
    scheme: Shares, gain: Float[Floats, " n"], *, bits: float, shares: int, air: Air, max_power_w: float
) -> Cost:
    """Return the costs of uploads, each on one of the equal shares of the band.

    rate = W log2(1 + P |h|^2 / (gap N0 W)), at most c W. W is B/shares (OFDMA), or B for 1/shares of the time (TDMA).

    Args:
        scheme: the sharing of the band.
        gain: power gains |h|^2, [n].
        bits: size of an upload.
        shares: number of equal shares.
        air: bandwidth and noise density.
        max_power_w: P_max in W.
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
    """The uploads of one seed; the result of `uploads(device, training)` does not depend on the order of calls.

    Devices have the same positions as for the analog uplink. Every upload draws new fading, even if the analog channel is
    correlated in time ("jakes"), because the start time of an upload is not known when its duration is needed.
    """

    def __init__(
        self, air: Air, *, max_power_w: float, num_parameters: int, devices: int, seed: int, at_once: int | None = None
    ) -> None:
        self.air, self.max_power_w, self.devices, self.seed = air, max_power_w, devices, seed
        self.shares = air.digital.subchannels or at_once or devices
        self.bits = float(num_parameters) * air.digital.bits_per_weight
        self._rows: dict[int, Floats] = {}
        self._draw: Callable[[np.int32], jax.Array] | None = None

    def __call__(self, device: Int[Whole, " n"], training: Int[Whole, " n"], start_s: Floats | None = None) -> Cost:
        """Return the costs of the uploads after these trainings, [n]; their start times have no effect."""
        return Cost(*pick_draws(device, training, self._row, (len(Cost._fields),)))

    def _row(self, training: int) -> Floats:
        """The costs of all devices, [4, K] in the order of `Cost`."""
        if training not in self._rows:
            scheme = self.air.digital
            cost = upload_cost(
                scheme, self._gains(training), bits=self.bits, shares=self.shares,
                air=self.air, max_power_w=self.max_power_w,
            )  # fmt: skip
            self._rows[training] = np.stack(cost)
        return self._rows[training]

    def _gains(self, training: int) -> Float[Floats, " K"]:
        """Return |h|^2 of every device, summed over the receive antennas (maximum-ratio combining of one sender)."""
        import jax  # start-up time
        import jax.numpy as jnp  # start-up time

        from ..base.rng import draw_key  # start-up time
        from .channel import mean_gain, small_scale  # start-up time

        if self._draw is None:

            def draw(training: jax.Array) -> jax.Array:
                root, devices = jax.random.key(self.seed), jnp.arange(self.devices)
                key = draw_key(root, Purpose.UPLOAD, training)
                h = small_scale(self.air, key, training, jnp.zeros(()), devices)
                return mean_gain(self.air, root, devices) * jnp.sum(jnp.abs(h) ** 2, axis=1)

            self._draw = jax.jit(draw)
        return np.asarray(self._draw(np.int32(training)), dtype=np.float64)


class RatedUploads:
    """Uploads at the rate in the fleet's file when the training begins, or at a common rate; devices share nothing."""

    def __init__(self, scheme: Rated, *, num_parameters: int, attendance: Attendance | None) -> None:
        self.scheme, self.attendance = scheme, attendance
        self.bits = float(num_parameters) * scheme.bits_per_weight

    def __call__(self, device: Int[Whole, " n"], training: Int[Whole, " n"], start_s: Floats | None = None) -> Cost:
        """Return the costs of the uploads after these trainings, [n]; `band_s` is NaN, because the band B is not used."""
        rate = rate_of(self.attendance, "up_mbit_per_s", self.scheme.up_mbit_per_s, device, start_s)
        wait_s = self.bits / (1e6 * rate)
        return Cost(wait_s, wait_s, np.full(len(device), np.nan), self.scheme.radio_power_w * wait_s)


def rate_of(
    attendance: Attendance | None, column: str, otherwise: float, device: Int[Whole, " n"], start_s: Floats | None
) -> Float[Floats, " n"]:
    """Return the rates in a column of the fleet's file at `start_s`, or `otherwise` without such a column."""
    known = None if attendance is None else attendance.rate(column, device, start_s)
    return np.full(len(device), otherwise) if known is None else known


class WithTransfers(Latencies):
    """Computing latencies plus the download before and the transmission after each training."""

    def __init__(
        self, computing: Latencies, *, uploads: Uploads | RatedUploads | None = None, downloads: Downloads | None = None,
        block_s: float = 0.0,
    ) -> None:  # fmt: skip
        """Combine latencies and transfers.

        Args:
            computing: latencies of the trainings alone.
            uploads: digital uploads; None: free.
            downloads: digital downloads; None: free.
            block_s: duration of an analog block in s, if it counts.
        """
        super().__init__(computing.model, devices=computing.devices, seed=computing.seed)
        self.computing, self.uploads, self.downloads, self.block_s = computing, uploads, downloads, block_s

    def __call__(
        self, device: Int[Whole, " n"], training: Int[Whole, " n"], start_s: Floats | None = None
    ) -> Float[Floats, " n"]:
        """Return the seconds from the start of each training to its last bit, [n]."""
        seconds = self.computing(device, training, start_s)
        if self.uploads is not None:
            seconds = seconds + self.uploads(device, training, start_s).wait_s
        if self.downloads is not None:
            seconds = seconds + self.downloads(device, start_s)
        return seconds + self.block_s
