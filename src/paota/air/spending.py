"""Energy and airtime of a run: radiated joules, computing joules and seconds on the air of each device in each event.

An analog payload_k consists of symbols of 1/B seconds each: d of them, or ceil(d/2) packed. |phi_k payload_k|^2 (Eq.
individual_power) is the sum of the symbols' powers. Only then do signal and noise (sigma^2 = B N0 per symbol) have the same
unit in Eq. Global_receive. The mean power is |phi_k payload_k|^2 / symbols and the energy |phi_k payload_k|^2 / B. With
several subcarriers the symbols fill whole OFDM symbols, and a cyclic prefix raises time and energy by its share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.files import Columns
from .profiles import block_s, symbol_rate_hz
from .settings import Air

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from ..timing.fleet import Attendance
    from ..timing.timeline import Timeline
    from .digital import RatedUploads, Uploads
    from .downlink import Downloads

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of the trainings and transfers of one algorithm and seed; None: free, or not known."""

    compute_power_w: float | Float[Floats, " K"]  # power drawn while computing; of each device or one for all
    uploads: Uploads | RatedUploads | None = None
    downloads: Downloads | None = None
    block_s: float = 0.0  # seconds that an analog block adds to a training, if it counts
    attendance: Attendance | None = None

    def power_w(self, device: Int[Whole, " n"]) -> Float[Floats, " n"]:
        """Return the power of these devices while they compute."""
        given = np.asarray(self.compute_power_w, float)
        return given[device] if given.ndim else np.full(len(device), float(given))

    def busy_s(
        self, device: Int[Whole, " n"], start_s: Float[Floats, " n"], end_s: Float[Floats, " n"]
    ) -> Float[Floats, " n"]:
        """Return the seconds that devices worked from `start_s` to `end_s`, without their absences."""
        if self.attendance is None:
            return end_s - start_s
        finite = np.isfinite(end_s)
        known = self.attendance.busy_s(device, start_s, np.where(finite, end_s, start_s))
        return np.where(finite, known, np.inf)


def symbols(num_parameters: int, air: Air) -> int:
    """Return the number of symbols of a signal of d parameters."""
    return -(-num_parameters // 2) if air.packing == "complex" else num_parameters


def device_spending(
    timeline: Timeline, transmit_power_w: Float[Floats, " n"], *, block_symbols: int, air: Air, costs: Costs,
    stopped_s: Float[Floats, " n"] | None = None,
) -> Columns:  # fmt: skip
    """Return the costs of the first n participations of a timeline, one entry each.

    Args:
        timeline: the participations.
        transmit_power_w: |phi_k payload_k|^2 in W, [n]. NaN for algorithms that do not use the analog uplink; their
            cost is that of their uploads, or NaN ("not accounted") if these are ideal.
        block_symbols: symbols of an analog signal.
        air: the settings of `[air]`.
        costs: costs of trainings and transfers.
        stopped_s: times at which trainings were aborted, [n]; they cost what they had used until then. None: all of
            them were completed.
    """
    n = len(transmit_power_w)
    device, training = timeline.device[:n], timeline.training[:n]
    start_s, finish_s = timeline.start_s[:n], timeline.finish_s[:n]
    needed_s = costs.busy_s(device, start_s, finish_s)
    busy_s = needed_s
    if stopped_s is not None:
        busy_s = np.minimum(needed_s, costs.busy_s(device, start_s, np.minimum(finish_s, stopped_s)))
    before_s = 0.0 if costs.downloads is None else costs.downloads(device, start_s)
    if costs.uploads is not None:
        cost = costs.uploads(device, training, start_s)
        computing_s = needed_s - cost.wait_s - before_s
        sent = 1.0 if stopped_s is None else np.clip((busy_s - before_s - computing_s) / cost.wait_s, 0.0, 1.0)
        sent = np.where(np.isfinite(needed_s), sent, 0.0) if stopped_s is not None else sent
        return {
            "energy_j": sent * cost.energy_j,
            "airtime_s": sent * cost.on_air_s,
            "band_s": sent * cost.band_s,
            "compute_j": costs.power_w(device) * np.clip(busy_s - before_s, 0.0, np.maximum(computing_s, 0.0)),
        }
    computing_s = needed_s - before_s - costs.block_s
    power = np.asarray(transmit_power_w, dtype=float)
    on_air_s = np.where(
        np.isnan(power), np.nan, np.where(power > 0, block_s(block_symbols, air), 0.0)
    )  # no power: silent
    return {
        "energy_j": power / symbol_rate_hz(air),
        "airtime_s": on_air_s,
        "band_s": on_air_s,
        "compute_j": costs.power_w(device) * np.clip(busy_s - before_s, 0.0, np.maximum(computing_s, 0.0)),
    }


def event_spending(timeline: Timeline, spent: Columns, events: int, *, shared: bool) -> Columns:
    """Return the totals of each of the first `events` events, after a row of zeros for the initial model.

    Args:
        timeline: the participations.
        spent: costs from `device_spending`.
        events: number of events.
        shared: all devices of an event send in the same seconds of the band B, which `airtime_s` counts.
    """
    offsets = timeline.offsets[: events + 1]
    return {
        "energy_j": _over_events(np.add, spent["energy_j"], offsets),
        "compute_j": _over_events(np.add, spent["compute_j"], offsets),
        "airtime_s": _over_events(np.maximum if shared else np.add, spent["band_s"], offsets),
    }


def _over_events(how: np.ufunc, values: Floats, offsets: NDArray[np.int64]) -> Floats:
    """Return 0, then `how` over each slice offsets[e]:offsets[e+1]; all NaN if nothing is accounted."""
    if len(values) and np.isnan(values).all():
        return np.full(len(offsets), np.nan)
    out = np.zeros(len(offsets))
    filled = np.flatnonzero(np.diff(offsets) > 0)  # `reduceat` cannot do empty slices
    if len(filled):
        out[filled + 1] = how.reduceat(values, offsets[filled])
    return out
