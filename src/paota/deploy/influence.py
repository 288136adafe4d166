"""No device moves the model much further than the others do: lengths of updates against those of the whole fleet.

A device that sends noise, or its update many times over, would otherwise undo in one round what all others have
learned. Each device has one vote, the length of its last update; the median of the votes stays honest as long as more
than half of the devices are. An update longer than `limit` medians is scaled down to that, a very much longer one is
refused. Directions are not judged: a device that turns its update round counts against one or two honest ones.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .answers import Arrival

REFUSED = 5.0  # times the limit
ENOUGH = 3  # votes that make a median
MANY_SAMPLES = 10.0  # times the fleet's median


class Influence:
    """What the fleet's updates have been like; `limit` in medians, 0 to let everything pass."""

    def __init__(self, limit: float, lengths: Mapping[int, float] | None = None) -> None:
        self.limit = limit
        self.lengths: dict[int, float] = dict(lengths or {})  # |dw_k| of each device's last answer, by device
        self._samples: dict[int, float] = {}

    def bounded(
        self, arrivals: Sequence[Arrival], starts: Mapping[int, NDArray[Any]]
    ) -> tuple[list[Arrival], list[tuple[int, str, str]]]:
        """The arrivals as they may enter an aggregation, and what happened: (device, kind, detail).

        `starts` holds the global model of every version that an arrival started from.
        """
        if not self.limit:
            return list(arrivals), []
        for arrival in arrivals:
            self.lengths[arrival.flight.device] = _length(arrival, starts)
            self._samples[arrival.flight.device] = arrival.num_samples
        kept, notes = [], []
        for arrival in arrivals:
            device, start = arrival.flight.device, starts[arrival.flight.version]
            length, limit = self.lengths[device], self._limit(start)
            if length > REFUSED * limit:
                notes.append((device, "huge update", f"it moved by {length:.3g}, and {limit:.3g} is allowed"))
                continue
            if length > limit:
                notes.append((device, "long update", f"it moved by {length:.3g} and was scaled down to {limit:.3g}"))
                shortened = start + (arrival.model.astype(np.float64) - start) * (limit / length)
                arrival = dataclasses.replace(arrival, model=shortened.astype(np.float32))
            most = MANY_SAMPLES * statistics.median(self._samples.values())
            if arrival.num_samples > most and len(self._samples) >= ENOUGH:
                notes.append((device, "many samples", f"it says {arrival.num_samples:.3g} and counts as {most:.3g}"))
                arrival = dataclasses.replace(arrival, num_samples=most)
            kept.append(arrival)
        return kept, notes

    def _limit(self, start: NDArray[Any]) -> float:
        """How far an update may go; before there is a median worth the name, as far as the model is long."""
        median = statistics.median(self.lengths.values()) if len(self.lengths) >= ENOUGH else 0.0
        return self.limit * median if median > 0 else max(1.0, float(np.linalg.norm(start)))


def _length(arrival: Arrival, starts: Mapping[int, NDArray[Any]]) -> float:
    return float(np.linalg.norm(arrival.model.astype(np.float64) - starts[arrival.flight.version]))
