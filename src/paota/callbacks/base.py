"""The protocol of callbacks: what a run reports while it computes, and how a callback stops it.

A callback is an object with the hooks of `Callback`, or a plain function that is called once per round. The thread that
called `paota.run` calls the hooks, one at a time, while the computation continues. Callbacks change no bit of any row.
"""

from __future__ import annotations

import math
import time
from collections import UserDict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..base.columns import refuse_recorded
from ..base.errors import UserError
from ..base.files import Columns

if TYPE_CHECKING:
    from jaxtyping import Float

    from ..experiment.experiment import Experiment
    from ..results.result import Result, Trajectory


class CallbackError(Exception):
    """A callback raised an error, and the run ended there. `__cause__` is that error; computed rounds are kept.

    `result` holds the computed part of the units, or None if no unit had started. A run folder can be resumed.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.result: Result | None = None


@dataclass(kw_only=True)
class RunUnit:
    """One algorithm with one seed.

    Args:
        label: of the algorithm in the experiment.
        algorithm: its registered name.
        seed: of the run.
        rounds: until the end of the timeline; a unit may stop or diverge earlier.
    """

    label: str
    algorithm: str
    seed: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Start:
    """The run that is about to start.

    Args:
        experiment: its settings.
        title: name of the experiment; in a sweep, with the values of the point.
        units: one per algorithm and seed.
        folder: the run folder, or None.
        score: name of the values in the column `test_accuracy`.
    """

    experiment: Experiment
    title: str
    units: Sequence[RunUnit]
    folder: Path | None = None
    score: str = "accuracy"


class RoundMetrics(UserDict[str, float]):
    """The columns of one round. Numbers that a callback adds under new names become columns of the results."""

    def __init__(self, recorded: Mapping[str, float]) -> None:
        self.data, self.own = dict(recorded), dict[str, float]()

    def __setitem__(self, name: str, value: float) -> None:
        refuse_recorded(name, "a callback")
        try:
            self.own[name] = self.data[name] = float(value)
        except (TypeError, ValueError):
            raise UserError(f"round.metrics['{name}'] must be a number, not {value!r:.80}") from None


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of one unit; round 0 is the initial model.

    Args:
        label: of the algorithm in the experiment.
        algorithm: its registered name.
        seed: of the run.
        round: number of the aggregation.
        rounds: of the unit, unless it stops early.
        metrics: the row of `metrics.csv` by column name; NaN for a value that this round does not have.
        model: weights of the newest global model, [d], for callbacks with `models = True`; otherwise None.
        records: makes `devices`.
    """

    label: str
    algorithm: str
    seed: int
    round: int
    rounds: int
    metrics: MutableMapping[str, float]
    model: Float[np.ndarray, " d"] | None = None
    records: Callable[[], Columns] = field(default=dict, repr=False, compare=False)

    @property
    def time_s(self) -> float:
        """The simulated seconds since the start."""
        return self.metrics["time_s"]

    @property
    def test_accuracy(self) -> float:
        """The share of correct answers on the test set, 0 to 1; NaN without an evaluation."""
        return self.metrics["test_accuracy"]

    @property
    def test_loss(self) -> float:
        """The loss on the test set; NaN without an evaluation."""
        return self.metrics["test_loss"]

    @property
    def train_loss(self) -> float:
        """The training loss that `evaluation.train_loss` selects; NaN without an evaluation."""
        return self.metrics["train_loss"]

    @property
    def evaluated(self) -> bool:
        """True if the model was evaluated on the test set in this round."""
        return not math.isnan(self.test_accuracy)

    @cached_property
    def devices(self) -> Columns:
        """The rows of `Result.devices` in this round: device, staleness, amplitude, weight, similarity, ..."""
        return self.records()


class Callback:
    """The base class of callbacks; each hook does nothing by default. A callback serves one run at a time.

    For every unit (label, seed), `round` is called once per round, in order, then `finish`. Rounds of different units may
    alternate. A resumed run repeats its earlier rounds, so a callback sees all of them.
    """

    models: ClassVar[bool] = False  # True asks for `Round.model`; the engine is then called once per round

    def start(self, run: Start) -> None:
        """Receive the start of the run.

        Args:
            run: its settings, units and folder.
        """

    def compile(self, label: str, seconds: float | None) -> None:
        """Receive the start or the end of compiling an algorithm's program.

        Args:
            label: of the algorithm.
            seconds: duration of the compilation; None at its start.
        """

    def round(self, round: Round) -> bool | None:
        """Receive one round of one unit.

        Args:
            round: with its metrics and devices.

        Returns:
            True stops this unit; other units continue.
        """

    def finish(self, trajectory: Trajectory) -> None:
        """Receive the end of one unit: its timeline ended, it stopped early, or it diverged.

        Args:
            trajectory: all that the unit recorded.
        """

    def end(self, result: Result | None) -> None:
        """Receive the end of the run; no other hook follows.

        Args:
            result: of the run; None after an interruption or an error.
        """


@dataclass(kw_only=True)
class UnitProgress(RunUnit):
    """The progress of one unit.

    Args:
        done: newest round.
        state: "waiting", "running", "finished", "stopped" or "diverged".
        accuracy: newest test accuracy, 0 to 1, or None.
    """

    done: int = 0
    state: str = "waiting"
    accuracy: float | None = None


class Progress(Callback):
    """A callback that keeps the progress of all units, for subclasses that show it."""

    def start(self, run: Start) -> None:
        self.run = run
        self.units = {(unit.label, unit.seed): UnitProgress(**vars(unit)) for unit in run.units}
        self.compiling: dict[str, float] = {}  # label -> start, seconds since 1970

    def compile(self, label: str, seconds: float | None) -> None:
        if seconds is None:
            self.compiling[label] = time.time()
        else:
            self.compiling.pop(label, None)

    def round(self, round: Round) -> None:
        unit = self.units[round.label, round.seed]
        unit.done, unit.state = round.round, "running"
        if round.evaluated:
            unit.accuracy = round.test_accuracy

    def finish(self, trajectory: Trajectory) -> None:
        t, unit = trajectory, self.units[trajectory.label, trajectory.seed]
        ends = (("diverged", t.diverged_round), ("stopped", t.stopped_round))
        unit.done, unit.state = int(t.metrics["round"][-1]), next((s for s, r in ends if r is not None), "finished")
