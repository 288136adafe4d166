"""Exceptions for mistakes of the user. The command line prints the sentence and exits with code 2."""

from __future__ import annotations

import difflib
import functools
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class UserError(Exception):
    """A mistake in a key, a value or a file that the user gave. Its text is one sentence that says what to change."""


class UnknownSetting(UserError):
    """A setting that does not exist: its dotted `name`, and the settings of its section that exist."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(str(unknown_name("setting", name, self.known)))


class Interrupted(Exception):
    """The user stopped the run; its results so far are saved, and in `result`."""

    result: object = None


def concise(function: Callable[P, T]) -> Callable[P, T]:
    """Return a public function whose `UserError` has no frames of this package in its traceback."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            raise error.with_traceback(None) from error.__cause__

    return call


def install_command(extra: str) -> str:
    """Return the pip command for the requirements of an extra of paota.

    It works in any folder, from a clone as from an installation: it names the packages, not paota.
    """
    from importlib.metadata import requires  # start-up time

    wanted = [line.partition(";")[0].strip() for line in requires("paota") or () if line.endswith(f"'{extra}'")]
    return "pip install " + " ".join(f"'{requirement}'" for requirement in wanted)


def is_plain(text: str) -> bool:
    """Return whether a text is safe to print: without control characters, line breaks and changes of text direction."""
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in _DIRECTIONS for c in text)


def printable(text: str) -> str:
    """Return `text` with all characters that `is_plain` refuses, except line breaks, as escapes such as `\\x1b`."""
    return "".join(c if c == "\n" or is_plain(c) else c.encode("unicode_escape").decode() for c in text)


def one_line(text: object, limit: int = 300) -> str:
    """Return a text from outside, such as a device's error, as a printable line of at most `limit` characters."""
    return printable(" ".join(str(text)[:limit].split()))[:limit]


_DIRECTIONS = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}


def unknown_name(kind: str, name: object, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> UserError:
    """Return the error for a name that does not exist, with the nearest existing name, or all names if none is near.

    Args:
        kind: kind of the thing with this name.
        name: the unknown name.
        known: the names that exist.
        aliases: names in other frameworks or papers -> existing names.
    """
    names = sorted(known)
    near = nearest(str(name), names, aliases or {})
    return UserError(f"unknown {kind} '{name}': {did_you_mean([near]) if near else listed(names)}")


def nearest(
    name: str, known: Sequence[str], aliases: Mapping[str, str] | None = None, cutoff: float = 0.6
) -> str | None:
    """Return the name in `known` that equals `name` up to case and hyphens, that an alias means, or that is spelled alike."""
    exact = {plain(word): word for word in known}
    meant = {plain(word): word_meant for word, word_meant in (aliases or {}).items() if word_meant in known}
    wanted = plain(name)
    if found := exact.get(wanted) or meant.get(wanted):
        return found
    close = difflib.get_close_matches(wanted, exact, n=1, cutoff=cutoff)
    return exact[close[0]] if close else None


def plain(name: str) -> str:
    """Return a name in lower case, without hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")


def did_you_mean(names: Sequence[str]) -> str:
    """Return `did you mean 'a' or 'b'?`."""
    return f"did you mean {' or '.join(map(repr, names))}?"


def listed(names: Iterable[str]) -> str:
    """Return `known: a, b, c`."""
    return f"known: {', '.join(names) or 'none'}"
