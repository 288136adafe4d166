"""The one exception that means "you can fix this": the command line prints its sentence and exits with code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runs.results import Result


class UserError(Exception):
    """A mistake in what the user gave: a key, a value, a file. Its text is one sentence that says what to mend."""


class Interrupted(Exception):
    """The user asked to stop; what was done so far is saved."""


class CallbackError(Exception):
    """A callback raised, and the run ended there; its cause is what was raised. Nothing that was done is lost.

    `result` holds the units as far as they came, None if none had begun; a run folder can be resumed.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.result: Result | None = None


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UserError:
    """The sentence for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names) or 'none'}"
    return UserError(f"unknown {kind} '{name}': {hint}")
