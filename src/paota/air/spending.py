"""What a run costs: joules radiated, joules computed, seconds on the air, for every device in every event.

Analog: payload_k is sent as symbols of 1/B seconds each, d of them, or ceil(d/2) packed. |phi_k payload_k|^2 (Eq.
individual_power) is the sum of the symbols' powers: only so do signal and noise (sigma^2 = B N0, a symbol) carry the
same unit in Eq. Global_receive. The mean power is then |phi_k payload_k|^2 / symbols and the energy
|phi_k payload_k|^2 / B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..runs.files import Columns
from .settings import Air

if TYPE_CHECKING:
    from ..timing.timeline import Timeline
    from .digital import Uploads

Floats = NDArray[np.float64]


def symbols(num_parameters: int, air: Air) -> int:
    return -(-num_parameters // 2) if air.packing == "complex" else num_parameters


def device_spending(
    timeline: Timeline,
    transmit_power_w: Floats,
    *,
    block_symbols: int,
    air: Air,
    compute_power_w: float,
    uploads: Uploads | None,
    stopped_s: Floats | None = None,
    download_s: float = 0.0,
) -> Columns:
    """One entry for each of the first n participations of a timeline; `transmit_power_w` [n] is |phi_k payload_k|^2.

    It is NaN for algorithms that do not use the analog uplink: their cost is that of their `uploads`, and NaN ("not
    accounted") where these are ideal. `stopped_s` [n]: when trainings were aborted, which cost what they had used up
    until then; None: all came to their end. `block_symbols`: that an analog signal takes. `download_s`: that devices
    wait for the model before they compute.
    """
    n = len(transmit_power_w)
    start_s = timeline.start_s[:n]
    needed_s = timeline.finish_s[:n] - start_s
    busy_s = needed_s if stopped_s is None else np.minimum(needed_s, stopped_s - start_s)
    if uploads is not None:
        cost = uploads(timeline.device[:n], timeline.training[:n])
        computing_s = needed_s - download_s - cost.wait_s
        sent = 1.0 if stopped_s is None else np.clip((busy_s - download_s - computing_s) / cost.wait_s, 0.0, 1.0)
        return {
            "energy_j": sent * cost.energy_j,
            "airtime_s": sent * cost.on_air_s,
            "band_s": sent * cost.band_s,
            "compute_j": compute_power_w * np.clip(busy_s - download_s, 0.0, computing_s),
        }
    power = np.asarray(transmit_power_w, dtype=float)
    block_s = block_symbols / air.bandwidth_hz
    on_air_s = np.where(np.isnan(power), np.nan, np.where(power > 0, block_s, 0.0))  # no power: silent
    return {
        "energy_j": power / air.bandwidth_hz,
        "airtime_s": on_air_s,
        "band_s": on_air_s,
        "compute_j": compute_power_w * np.maximum(busy_s - download_s, 0.0),
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
