"""The one exception that means "you can fix this": the command line prints its sentence and exits with code 2."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence


class UserError(Exception):
    """A mistake in what the user gave: a key, a value, a file. Its text is one sentence that says what to mend."""


class UnknownSetting(UserError):
    """A setting that does not exist: its dotted `name`, and those that do where it was looked for."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(str(unknown_name("setting", name, self.known)))


class Interrupted(Exception):
    """The user asked to stop; what was done so far is saved."""


def install_command(extra: str) -> str:
    """The pip command for what an extra of paota needs. It works everywhere, whether or not paota is on PyPI."""
    from importlib.metadata import requires  # start-up time: few commands ever need it

    wanted = [line.partition(";")[0].strip() for line in requires("paota") or () if line.endswith(f"'{extra}'")]
    return "pip install " + " ".join(f"'{requirement}'" for requirement in wanted)


def is_plain(text: str) -> bool:
    """Whether a text is safe to print: no control character, line break or change of direction that a terminal obeys."""
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in _DIRECTIONS for c in text)


def printable(text: str) -> str:
    """`text` with what `is_plain` refuses, line breaks excepted, written as escapes: `\\x1b`."""
    return "".join(c if c == "\n" or is_plain(c) else c.encode("unicode_escape").decode() for c in text)


def one_line(text: object, limit: int = 300) -> str:
    """A text from outside, such as a device's error, on one printable line of at most `limit` characters."""
    return printable(" ".join(str(text)[:limit].split()))[:limit]


_DIRECTIONS = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}


def unknown_name(kind: str, name: object, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> UserError:
    """The sentence for a name that does not exist, with the nearest one that does, or all if none is near.

    Args:
        kind: what the name should be a name of.
        name: as it was given.
        known: the names that exist.
        also: what other people say -> the name that is meant.
    """
    names = sorted(known)
    near = nearest(str(name), names, aliases or {})
    return UserError(f"unknown {kind} '{name}': {did_you_mean([near]) if near else listed(names)}")


def nearest(
    name: str, known: Sequence[str], aliases: Mapping[str, str] | None = None, cutoff: float = 0.6
) -> str | None:
    """The one of `known` that `name` says in other letters, that a synonym in `aliases` means, or that is spelled alike."""
    exact = {plain(word): word for word in known}
    meant = {plain(word): word_meant for word, word_meant in (aliases or {}).items() if word_meant in known}
    wanted = plain(name)
    if found := exact.get(wanted) or meant.get(wanted):
        return found
    close = difflib.get_close_matches(wanted, exact, n=1, cutoff=cutoff)
    return exact[close[0]] if close else None


def plain(name: str) -> str:
    """Without what people write differently: capitals, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")


def did_you_mean(names: Sequence[str]) -> str:
    """`did you mean 'a' or 'b'?`"""
    return f"did you mean {' or '.join(map(repr, names))}?"


def listed(names: Iterable[str]) -> str:
    """`known: a, b, c`."""
    return f"known: {', '.join(names) or 'none'}"
