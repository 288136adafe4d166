"""What a run tells while it goes on, and how somebody who listens may stop it.

A callback is an object with the hooks of `Callback`, or a plain function that is called once a round. Hooks are called by
the thread that called `paota.run`, one at a time, while the computation goes on beside them. They change no bit of any row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from ..base.files import Columns

if TYPE_CHECKING:
    from ..experiment.experiment import Experiment
    from ..results.result import Result, Trajectory


class CallbackError(Exception):
    """A callback raised, and the run ended there; its cause is what was raised. Nothing that was done is lost.

    `result` holds the units as far as they came, None if none had begun; a run folder can be resumed.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.result: Result | None = None


@dataclass(frozen=True, kw_only=True)
class RunUnit:
    """One algorithm with one seed: what a run is made of."""

    label: str
    algorithm: str
    seed: int
    rounds: int  # until the end of its timeline; it may stop or diverge sooner


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is about to be computed.

    `title` is the experiment's name; in a sweep, with the values of the point. `folder` is the run folder, None if the run
    keeps none. `score` names what the column `test_accuracy` holds.
    """

    experiment: Experiment
    title: str
    units: Sequence[RunUnit]
    folder: Path | None = None
    score: str = "accuracy"


@dataclass(frozen=True, kw_only=True)
class Round:
    """Everything that is known of one round of one unit; round 0 is the initial model.

    `metrics` is the row of `metrics.csv` by column name, NaN for what was not looked at in this round. `devices` has one
    entry for each device that took part, as in `Result.devices`: device, staleness, power, weight, similarity, ...
    `model` [d] is the newest global model, for callbacks with `models = True`; None otherwise.
    """

    label: str
    algorithm: str
    seed: int
    round: int
    rounds: int  # of this unit, if nobody stops it
    metrics: Mapping[str, float]
    model: NDArray[Any] | None = None
    records: Callable[[], Columns] = field(default=dict, repr=False, compare=False)  # makes `devices`

    @property
    def time_s(self) -> float:
        """Simulated seconds."""
        return self.metrics["time_s"]

    @property
    def test_accuracy(self) -> float:
        """Share of the test set, 0 to 1; NaN in a round in which nobody looked."""
        return self.metrics["test_accuracy"]

    @property
    def test_loss(self) -> float:
        """NaN in a round in which nobody looked."""
        return self.metrics["test_loss"]

    @property
    def train_loss(self) -> float:
        """F(w), or what `evaluation.train_loss` says; NaN in a round in which nobody looked."""
        return self.metrics["train_loss"]

    @property
    def evaluated(self) -> bool:
        """Whether the model was evaluated on the test set in this round."""
        return not math.isnan(self.test_accuracy)

    @cached_property
    def devices(self) -> Columns:
        """One entry for each device of this round, column by column."""
        return self.records()


class Callback:
    """Listens to a run; every hook may do nothing. A callback serves one run at a time.

    For every unit (label, seed) `round` is called once a round, in order, then `finish`; units may take turns. A run
    that is resumed tells its rounds from the first one on, so that a callback never misses any.
    """

    models: ClassVar[bool] = False  # True: `Round.model` is wanted, and the engine is called once for every round

    def start(self, run: Start) -> None:
        """The run begins."""

    def compile(self, label: str, seconds: float | None) -> None:
        """The program of an algorithm begins to be compiled (`seconds` is None), or has been, in so many seconds."""

    def round(self, round: Round) -> bool | None:
        """One round of one unit is over. True stops this unit here; the others go on."""

    def finish(self, trajectory: Trajectory) -> None:
        """One unit is over: its timeline ended, it was stopped, or it diverged."""

    def end(self, result: Result | None) -> None:
        """The run is over, last of all; None if it was interrupted or failed."""


class EveryRound(Callback):
    """A plain function as a callback."""

    def __init__(self, function: Callable[[Round], bool | None]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def round(self, round: Round) -> bool | None:
        return self._function(round)
