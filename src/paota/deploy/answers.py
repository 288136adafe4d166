"""Checks of every answer before it enters an aggregation: one by one (`accept`), then against the fleet (`Influence`)."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..timing.timeline import Trainings
from .roster import Flight
from .transport import Answer, Layout, Malformed

MAX_SAMPLES = 2**40
REFUSED = 5.0  # times the limit: an update this long is refused
MIN_VOTES = 3  # devices from which a median is taken
MANY_SAMPLES = 10.0  # times the fleet's median

Versions = Mapping[int, Float[np.ndarray, " d"]]  # the global model w^v of every version v


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A finished local training that takes part in the next aggregation."""

    flight: Flight
    finish_s: float
    model: Float[np.ndarray, " d"]  # w_k
    num_samples: float  # D_k
    loss: float  # mean over the mini-batches of the training; NaN if the device does not report it


class Refused(Exception):
    """An answer that cannot be used: `kind` in two words, `detail` in a sentence."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


def accept(answer: Answer, flight: Flight, layout: Layout, now_s: float) -> Arrival:
    """Return the arrival in `answer`, or raise `Refused`. `Influence` limits the length of its update later."""
    if answer.error is not None:
        raise Refused(answer.error_kind, answer.error)
    for key, wanted in (("version", flight.version), ("training", flight.training)):
        if answer.numbers.get(key, wanted) != wanted:
            raise Refused("other task", f"its {key} is {answer.numbers[key]!r}, not {wanted}")
    try:
        model = layout.join(answer.arrays)
    except Malformed as problem:
        raise Refused("wrong shape", str(problem)) from None
    bad = model.size - int(np.isfinite(model).sum())
    if bad:
        raise Refused("not finite", f"{bad} of {model.size} values are NaN or infinite")
    num_samples = _number(answer.numbers.get("num-examples", 1))
    if not 1 <= num_samples <= MAX_SAMPLES:
        raise Refused("wrong numbers", f"num-examples is {answer.numbers.get('num-examples')!r}")
    loss = _number(answer.numbers.get("loss", math.nan))
    return Arrival(flight=flight, finish_s=now_s, model=model, num_samples=num_samples, loss=loss)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def trainings_of(flights: Sequence[Flight], finish_s: Sequence[float], group: int = 0) -> Trainings:
    """Return local trainings in the columns of the scheme and the timeline."""
    device, version, training = (
        np.array([getattr(f, name) for f in flights], np.int64) for name in ("device", "version", "training")
    )
    start_s = np.array([f.start_s for f in flights], float)
    return Trainings(device, version, training, start_s, np.array(finish_s, float), group)


class Influence:
    """A limit on how far one device moves the model, relative to the fleet's updates.

    Without it, a device that sends noise or a scaled update undoes the others' progress in one round. Each device has
    one vote: the length of its last update. The median of the votes is honest while more than half of the devices are.
    An update longer than `limit` medians is scaled down, a much longer one is refused. Directions are not checked: a
    device that sends its negated update cancels one or two honest ones.

    Args:
        limit: in medians; 0 accepts everything.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.lengths: dict[int, float] = {}  # |dw_k| of each device's last answer, by device
        self._samples: dict[int, float] = {}

    def bounded(
        self, arrivals: Sequence[Arrival], starts: Versions
    ) -> tuple[list[Arrival], list[tuple[int, str, str]]]:
        """Return the arrivals that may be aggregated, and an incident (device, kind, detail) for each change.

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
            if arrival.num_samples > most and len(self._samples) >= MIN_VOTES:
                notes.append((device, "many samples", f"it says {arrival.num_samples:.3g} and counts as {most:.3g}"))
                arrival = dataclasses.replace(arrival, num_samples=most)
            kept.append(arrival)
        return kept, notes

    def _limit(self, start: Float[np.ndarray, " d"]) -> float:
        """Return the longest update that is not scaled down. Before there is a median, it is the model's own length."""
        median = statistics.median(self.lengths.values()) if len(self.lengths) >= MIN_VOTES else 0.0
        return self.limit * median if median > 0 else max(1.0, float(np.linalg.norm(start)))


def _length(arrival: Arrival, starts: Versions) -> float:
    return float(np.linalg.norm(arrival.model.astype(np.float64) - starts[arrival.flight.version]))
