"""What a run costs: joules radiated, joules computed, seconds on the air, for every device in every event.

Analog: payload_k is sent as symbols of 1/B seconds each, d of them, or ceil(d/2) packed. |phi_k payload_k|^2 (Eq.
individual_power) is the sum of the symbols' powers: only so do signal and noise (sigma^2 = B N0, a symbol) carry the
same unit in Eq. Global_receive. The mean power is then |phi_k payload_k|^2 / symbols and the energy
|phi_k payload_k|^2 / B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..base.files import Columns
from .settings import Air

if TYPE_CHECKING:
    from ..timing.fleet import Attendance
    from ..timing.timeline import Timeline
    from .digital import RatedUploads, Uploads
    from .downlink import Downloads

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What trainings and transfers of one algorithm and seed cost; None: nothing, or nothing that is known."""

    compute_power_w: float | Floats  # drawn while computing; of each device, [K], or one for all
    uploads: Uploads | RatedUploads | None = None
    downloads: Downloads | None = None
    block_s: float = 0.0  # that an analog block adds to a training, where it counts
    attendance: Attendance | None = None

    def power_w(self, device: NDArray[np.int64]) -> Floats:
        """Of these devices while they compute, [n]."""
        given = np.asarray(self.compute_power_w, float)
        return given[device] if given.ndim else np.full(len(device), float(given))

    def busy_s(self, device: NDArray[np.int64], start_s: Floats, end_s: Floats) -> Floats:
        """How long devices were at work from `start_s` to `end_s`, [n]; whoever is away is not."""
        if self.attendance is None:
            return end_s - start_s
        finite = np.isfinite(end_s)
        known = self.attendance.busy_s(device, start_s, np.where(finite, end_s, start_s))
        return np.where(finite, known, np.inf)


def symbols(num_parameters: int, air: Air) -> int:
    return -(-num_parameters // 2) if air.packing == "complex" else num_parameters


def device_spending(
    timeline: Timeline, transmit_power_w: Floats, *, block_symbols: int, air: Air, costs: Costs,
    stopped_s: Floats | None = None,
) -> Columns:  # fmt: skip
    """One entry for each of the first n participations of a timeline; `transmit_power_w` [n] is |phi_k payload_k|^2.

    It is NaN for algorithms that do not use the analog uplink: their cost is that of their uploads, and NaN ("not
    accounted") where these are ideal. `stopped_s` [n]: when trainings were aborted, which cost what they had used up
    until then; None: all came to their end. `block_symbols`: that an analog signal takes.
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
    block_s = block_symbols / air.bandwidth_hz
    on_air_s = np.where(np.isnan(power), np.nan, np.where(power > 0, block_s, 0.0))  # no power: silent
    return {
        "energy_j": power / air.bandwidth_hz,
        "airtime_s": on_air_s,
        "band_s": on_air_s,
        "compute_j": costs.power_w(device) * np.clip(busy_s - before_s, 0.0, np.maximum(computing_s, 0.0)),
    }


def event_spending(timeline: Timeline, spent: Columns, events: int, *, shared: bool) -> Columns:
    """Totals of each of the first `events` events, behind a row for the initial model, which cost nothing.

    `airtime_s` counts seconds of the whole band B. `shared`: all devices of an event send in the same ones.
    """
    offsets = timeline.offsets[: events + 1]
    return {
        "energy_j": _over_events(np.add, spent["energy_j"], offsets),
        "compute_j": _over_events(np.add, spent["compute_j"], offsets),
        "airtime_s": _over_events(np.maximum if shared else np.add, spent["band_s"], offsets),
    }


def _over_events(how: np.ufunc, values: Floats, offsets: NDArray[np.int64]) -> Floats:
    """0, then `how` over each slice offsets[e]:offsets[e+1], 0 for an empty one; all NaN where nothing is accounted."""
    if len(values) and np.isnan(values).all():
        return np.full(len(offsets), np.nan)
    out = np.zeros(len(offsets))
    filled = np.flatnonzero(np.diff(offsets) > 0)  # `reduceat` cannot do empty slices
    if len(filled):
        out[filled + 1] = how.reduceat(values, offsets[filled])
    return out
