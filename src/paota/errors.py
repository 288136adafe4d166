"""The one exception that means "you can fix this": the command line prints its sentence and exits with code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user gave: a key, a value, a file. Its text is one sentence that says what to mend."""


class Interrupted(Exception):
    """The user asked to stop; what was done so far is saved."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UserError:
    """The sentence for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names) or 'none'}"
    return UserError(f"unknown {kind} '{name}': {hint}")
