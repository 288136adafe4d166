"""A group of callbacks with the stopping rules: all hooks are called, any callback may stop, and errors name theirs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..base.errors import UserError
from ..base.registry import CALLBACKS, refuse_misspelt_hooks
from ..training.settings import Evaluation
from .base import Callback, CallbackError, Round, Start

if TYPE_CHECKING:
    from ..results.result import Result, Trajectory


class EveryRound(Callback):
    """A plain function as a callback."""

    def __init__(self, function: Callable[[Round], bool | None]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def round(self, round: Round) -> bool | None:
        return self._function(round)


class StopAt(Callback):
    """A rule that stops a unit in the first round whose test accuracy is at least `accuracy`.

    Args:
        accuracy: share of the test set, 0 to 1.
    """

    def __init__(self, accuracy: float) -> None:
        self.accuracy = accuracy

    def round(self, round: Round) -> bool:
        return round.test_accuracy >= self.accuracy  # False for NaN


class Patience(Callback):
    """A rule that stops a unit when its test accuracy did not exceed its best for `looks` evaluations in a row.

    Args:
        looks: number of evaluations.
    """

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self._best: dict[tuple[str, int], tuple[float, int]] = {}  # (best accuracy, evaluations since then)

    def round(self, round: Round) -> bool:
        if not round.evaluated:
            return False
        unit = round.label, round.seed
        best, since = self._best.get(unit, (-math.inf, 0))
        better = round.test_accuracy > best
        self._best[unit] = (round.test_accuracy, 0) if better else (best, since + 1)
        return self._best[unit][1] >= self.looks


def stopping_rules(evaluation: Evaluation) -> list[Callback]:
    """Return the rules that the settings `stop_at` and `patience` ask for."""
    rules: list[Callback] = [] if evaluation.stop_at is None else [StopAt(evaluation.stop_at)]
    return rules if evaluation.patience is None else [*rules, Patience(evaluation.patience)]


@dataclass(frozen=True)
class CallbackReply:
    """The reply of callbacks to some rounds.

    Args:
        round: the last round that was reported.
        stop: whether a callback stops the unit there.
        error: the first error of a callback there.
    """

    round: int
    stop: bool = False
    error: CallbackError | None = None


class Group:
    """Several callbacks as one; their hooks are called in order.

    Args:
        callbacks: as `as_callback` takes them.
        rules: stopping rules of the settings, called first.
    """

    def __init__(self, callbacks: Iterable[object], *, rules: Sequence[Callback] = ()) -> None:
        if isinstance(callbacks, str) or not isinstance(callbacks, Iterable):
            raise UserError(f"callbacks must be a list, e.g. callbacks=[...], not {callbacks!r}")
        self._callbacks = [*rules, *(as_callback(given) for given in callbacks)]
        self._rules = rules
        self._started: list[Callback] = []
        self.models = any(callback.models for callback in self._callbacks)

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def start(self, run: Start) -> None:
        """Call all `start` hooks; an error skips the remaining ones."""
        for callback in self._callbacks:
            self._started.append(callback)
            _call(callback, callback.start, run)

    def compile(self, label: str, seconds: float | None) -> None:
        """Call all `compile` hooks."""
        for callback in self._callbacks:
            _call(callback, callback.compile, label, seconds)

    def rounds(self, rounds: Sequence[Round]) -> CallbackReply:
        """Report rounds of one unit until a callback stops it or raises; all callbacks receive that round."""
        for round in rounds:
            stops, errors = [], []
            for callback in self._callbacks:
                try:
                    stops.append(self._stops(callback, _call(callback, callback.round, round)))
                except CallbackError as error:
                    errors.append(error)
            if errors or any(stops):
                return CallbackReply(round.round, any(stops), errors[0] if errors else None)
        return CallbackReply(rounds[-1].round)

    def finish(self, trajectory: Trajectory) -> None:
        """Call all `finish` hooks."""
        for callback in self._callbacks:
            _call(callback, callback.finish, trajectory)

    def end(self, result: Result | None) -> None:
        """Call `end` once for each callback that was started, despite errors; then raise the first error."""
        errors = []
        while self._started:
            callback = self._started.pop(0)
            try:
                _call(callback, callback.end, result)
            except CallbackError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _stops(self, callback: Callback, answer: object) -> bool:
        if answer is not None and not isinstance(answer, bool | np.bool_):
            raise CallbackError(
                f"the callback {_name(callback)} must return True (stop), False or None for a round, not {answer!r}"
            )
        if answer and callback not in self._rules:
            import jax  # start-up time

            if jax.process_count() > 1:
                raise CallbackError(
                    f"the callback {_name(callback)} cannot stop a run that several processes share: "
                    "set evaluation.stop_at or evaluation.patience"
                )
        return bool(answer)


def as_callback(given: object) -> Callback:
    """Return a callback from an instance, a class, a function to call once per round, or a name such as `csv=FILE`."""
    if isinstance(given, str):  # `tensorboard`, or `tensorboard=DIR`: a registered callback, and its first argument
        name, equals, target = given.partition("=")
        registered = CALLBACKS[name.strip()]
        given = registered(target.strip()) if equals else registered()
    if isinstance(given, type) and issubclass(given, Callback):
        given = given()
    if isinstance(given, Callback):
        refuse_misspelt_hooks(type(given), f"the callback {_name(given)}")
        return given
    if callable(given):
        return EveryRound(given)
    raise UserError(f"a callback must be a paota.Callback, a function or a name, not {given!r}")


def _call(callback: Callback, hook: Callable[..., object], *arguments: object) -> object:
    try:
        return hook(*arguments)
    except Exception as error:
        raise CallbackError(f"the callback {_name(callback)} failed in {hook.__name__}: {_sentence(error)}") from error


def _name(callback: Callback) -> str:
    return getattr(callback, "name", type(callback).__name__)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".rstrip(": ")
