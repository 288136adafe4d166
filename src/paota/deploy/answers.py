"""What may enter an aggregation: every answer of a device is looked at once, and refused with a reason or accepted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layout import Layout, Malformed
from .roster import Flight

MAX_SAMPLES = 2**40


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back for a message, taken out of its envelope but not yet believed."""

    message: str
    error: str | None = None
    error_kind: str = "error"
    arrays: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A finished local training that takes part in the next aggregation."""

    flight: Flight
    finish_s: float
    model: NDArray[np.float32]  # w_k [d]
    num_samples: float  # D_k
    loss: float  # mean over the mini-batches it has seen; NaN if the device does not say


class Refused(Exception):
    """An answer that cannot be used: `kind` in two words, `detail` in a sentence."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


def accept(answer: Answer, flight: Flight, layout: Layout, now_s: float) -> Arrival:
    """The arrival in `answer`, or `Refused`. How far an update may go is decided later, with all of them (`influence`)."""
    if answer.error is not None:
        raise Refused(answer.error_kind, answer.error)
    for key, told in (("version", flight.version), ("training", flight.training)):
        if answer.numbers.get(key, told) != told:
            raise Refused("other task", f"its {key} is {answer.numbers[key]!r}, not {told}")
    try:
        model = layout.join(answer.arrays)
    except Malformed as problem:
        raise Refused("wrong shape", str(problem)) from None
    bad = model.size - int(np.isfinite(model).sum())
    if bad:
        raise Refused("not finite", f"{bad} of {model.size} values are NaN or infinite")
    num_samples = _number(answer.numbers.get("num-examples", 1))
    if not 0 < num_samples <= MAX_SAMPLES:
        raise Refused("wrong numbers", f"num-examples is {answer.numbers.get('num-examples')!r}")
    loss = _number(answer.numbers.get("loss", math.nan))
    return Arrival(flight=flight, finish_s=now_s, model=model, num_samples=num_samples, loss=loss)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
