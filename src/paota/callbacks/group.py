"""Several callbacks as one: all are told, any may stop, and what one of them raises is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import UserError
from ..base.registry import CALLBACKS
from .base import Callback, CallbackError, EveryRound, Round, Start

if TYPE_CHECKING:
    from ..results.result import Result, Trajectory


@dataclass(frozen=True)
class CallbackReply:
    """How telling some rounds ended: after which one, and why there: a wish to stop the unit, or an error."""

    round: int
    stop: bool = False
    error: CallbackError | None = None


class Group:
    """Calls the hooks of all its callbacks, in order. `rules` are those that the settings ask for."""

    def __init__(self, callbacks: Iterable[Any], *, rules: Sequence[Callback] = ()) -> None:
        if isinstance(callbacks, str) or not isinstance(callbacks, Iterable):
            raise UserError(f"callbacks must be a list, e.g. callbacks=[...], not {callbacks!r}")
        self._callbacks = [*rules, *(as_callback(given) for given in callbacks)]
        self._rules = rules
        self._started: list[Callback] = []
        self.models = any(callback.models for callback in self._callbacks)

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def start(self, run: Start) -> None:
        """Tell all; when one raises, nobody after it is told."""
        for callback in self._callbacks:
            self._started.append(callback)
            _call(callback, callback.start, run)

    def compile(self, label: str, seconds: float | None) -> None:
        for callback in self._callbacks:
            _call(callback, callback.compile, label, seconds)

    def rounds(self, rounds: Sequence[Round]) -> CallbackReply:
        """Tell rounds of one unit until somebody asks to stop it, or raises; everybody hears of that round."""
        for round in rounds:
            wishes, errors = [], []
            for callback in self._callbacks:
                try:
                    wishes.append(self._wish(callback, _call(callback, callback.round, round)))
                except CallbackError as error:
                    errors.append(error)
            if errors or any(wishes):
                return CallbackReply(round.round, any(wishes), errors[0] if errors else None)
        return CallbackReply(rounds[-1].round)

    def finish(self, trajectory: Trajectory) -> None:
        for callback in self._callbacks:
            _call(callback, callback.finish, trajectory)

    def end(self, result: Result | None) -> None:
        """Everybody who has heard of the start is told, once, whatever the others do; then the first error is raised."""
        errors = []
        while self._started:
            callback = self._started.pop(0)
            try:
                _call(callback, callback.end, result)
            except CallbackError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _wish(self, callback: Callback, answer: Any) -> bool:
        if answer is not None and not isinstance(answer, bool | np.bool_):
            raise CallbackError(
                f"the callback {_name(callback)} must return True (stop), False or None for a round, not {answer!r}"
            )
        if answer and callback not in self._rules and _processes() > 1:
            raise CallbackError(
                f"the callback {_name(callback)} cannot stop a run that several processes share: "
                "set evaluation.stop_at or evaluation.patience"
            )
        return bool(answer)


def as_callback(given: Any) -> Callback:
    """A callback, a class that makes one, a function that is called once a round, or a name as `named` takes it."""
    if isinstance(given, str):
        given = named(given)
    if isinstance(given, type) and issubclass(given, Callback):
        given = given()
    if isinstance(given, Callback):
        return given
    if callable(given):
        return EveryRound(given)
    raise UserError(f"a callback must be a paota.Callback, a function or a name, not {given!r}")


def named(text: str) -> Any:
    """`tensorboard`, or `tensorboard=DIR`: a registered callback, and where it writes (its first argument)."""
    name, equals, where = text.partition("=")
    made = CALLBACKS[name.strip()]
    return made(where.strip()) if equals else made()


def _call(callback: Callback, hook: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return hook(*arguments)
    except Exception as error:
        raise CallbackError(f"the callback {_name(callback)} failed in {hook.__name__}: {_sentence(error)}") from error


def _name(callback: Callback) -> str:
    return getattr(callback, "name", type(callback).__name__)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".rstrip(": ")


def _processes() -> int:
    import jax

    return jax.process_count()
