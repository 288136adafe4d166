"""The reference of all settings: key, unit, default, range, alternatives and one sentence each. And suggestions.

`paota settings`, the reference page and the suggestions in error messages read the settings' dataclasses through it.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass

from ..base.errors import UnknownSetting, UserError, listed, nearest, plain
from ..base.registry import ALGORITHMS, Registry
from ..base.settings import fields
from ..base.types import Json, Settings
from .sections import OVERRIDABLE, SECTIONS, TopSettings

ALGORITHM = "algorithms.LABEL"  # section in the keys of an algorithm's options
MOST_SUGGESTIONS = 3
ALIKE = 0.72  # least difflib ratio of two similar words
UNITS = {  # by the ending of a name, the longest first
    "_dbm_per_hz": "dBm/Hz", "_mbit_per_s": "Mbit/s", "_gflop_per_s": "GFLOP/s", "_per_s": "1/s", "_symbols": "symbols",
    "_rounds": "rounds", "_samples": "samples", "_rad": "rad", "_ghz": "GHz", "_hz": "Hz",
    "_db": "dB", "_s": "s", "_w": "W", "_m": "m",
}  # fmt: skip
TYPES = {float: "number", int: "whole number", str: "text", bool: "true or false"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting.

    Args:
        section: table of the experiment file; "" for the top.
        name: key in the section.
        kind: type in words.
        default: value without an entry; the name of the alternative for a choice.
        range: allowed values, in words.
        doc: one sentence.
        aliases: names in other frameworks.
        choices: registry of the alternatives of a choice.
        under: (key of the choice, alternative) for an option that exists only with this alternative.
    """

    section: str
    name: str
    kind: str
    default: Json
    range: str
    doc: str
    aliases: tuple[str, ...]
    choices: Registry | None = None
    under: tuple[str, str] | None = None

    @property
    def key(self) -> str:
        """The key that `--set` takes."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def unit(self) -> str:
        """The unit in the ending of the name; "" without one."""
        return next((unit for end, unit in UNITS.items() if self.name.endswith(end)), "")

    def suggestion(self, given: str = "") -> str:
        """Return the text for `did you mean ...?`: the key, unless it equals `given`, and the choice that it needs."""
        if self.section == ALGORITHM:
            return f"'{self.key}', an option of some algorithms"
        if self.under is None:
            return f"'{self.key}'"
        needs = "{} = '{}'".format(*self.under)
        return f"it together with {needs}" if given == self.key else f"'{self.key}' with {needs}"


def sections() -> list[str]:
    """Return the tables of an experiment file; "" is the top of the file."""
    return ["", *SECTIONS, "algorithms"]


def settings_of(section: str) -> list[Setting]:
    """Return all settings of a section; the options of its alternatives follow each choice."""
    if section == "algorithms":
        return [one for name in ALGORITHMS for one in options_of(ALGORITHMS, name, ALGORITHM, "name")]
    found = []
    for one in _of_class(TopSettings if not section else SECTIONS[section], section, None):
        found.append(one)
        if one.choices is not None:
            for name in one.choices:
                found += options_of(one.choices, name, section, one.key)
    return found


def all_settings() -> list[Setting]:
    """Return the settings of every section."""
    return [one for section in sections() for one in settings_of(section)]


def options_of(registry: Registry, name: str, section: str, choice: str) -> list[Setting]:
    """Return the options of one alternative; none for objects without settings, such as data sets."""
    thing = registry[name]
    return list(_of_class(thing, section, (choice, name))) if isinstance(thing, type) and nameable(thing) else []


def nameable(thing: object) -> bool:
    """Return False for the placeholder of a model that was given in Python: files cannot select it."""
    return not hasattr(thing, "written_name")


def sentence_of(registry: Registry, name: str) -> str:
    """Return the first paragraph of an alternative's docstring."""
    text = inspect.getdoc(registry[name]) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def shown(default: Json) -> str:
    """Return a default in the notation of an experiment file; "absent" for None."""
    if default is None:
        return "absent"
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, tuple):
        return f"[{', '.join(map(shown, default))}]"
    return f"{default:g}" if isinstance(default, float) else str(default) if default != "" else '""'


def explained(error: UnknownSetting) -> UserError:
    """Return the error for an unknown setting, with the most similar settings of all sections."""
    section, _, name = error.name.rpartition(".")
    here = {known.rpartition(".")[2]: known for known in error.known}
    near = nearest(name, list(here), cutoff=1.0)
    elsewhere = _meant(name, section)
    if not near and not any(plain(name) in map(plain, (one.name, *one.aliases)) for one in elsewhere):
        near = nearest(name, list(here), cutoff=ALIKE)  # a similar word in the same section comes first
    meant = [f"'{here[near]}'"] if near else [one.suggestion(error.name) for one in elsewhere]
    hint = f"did you mean {' or '.join(meant)}?" if meant else listed(sorted(error.known))
    return UserError(f"unknown setting '{error.name}': {hint}")


def meant_by(name: str) -> list[Setting]:
    """Return the settings with a name or an alias equal to `name`, such as an unknown option of the command line."""
    return _exact(name, all_settings())[:MOST_SUGGESTIONS]


def _meant(name: str, section: str) -> list[Setting]:
    """Return the settings that `name` may mean: equal names or aliases, then similar ones; the own section first."""
    every = all_settings()
    home = ALGORITHM if section.startswith("algorithms") else section
    own = [one for one in every if one.section == home]
    if home == ALGORITHM:
        own += [one for one in every if one.section in OVERRIDABLE]
    for found in (_exact(name, own), _alike(name, own), _exact(name, every), _alike(name, every)):
        if found:
            return found[:MOST_SUGGESTIONS]
    return []


def _exact(name: str, among: list[Setting]) -> list[Setting]:
    wanted = plain(name)
    same = [one for one in among if plain(one.name) == wanted]
    return _once(same or [one for one in among if wanted in map(plain, one.aliases)])


def _alike(name: str, among: list[Setting]) -> list[Setting]:
    words = {plain(word): one for one in reversed(among) for word in (*one.aliases, one.name) if len(word) > 2}
    close = difflib.get_close_matches(plain(name), words, n=1, cutoff=ALIKE)
    return [words[close[0]]] if close else []


def _once(found: list[Setting]) -> list[Setting]:
    """Return each key once; alternatives may share an option."""
    return list({one.key: one for one in reversed(found)}.values())[::-1]


def _of_class(cls: type, section: str, under: tuple[str, str] | None) -> Iterator[Setting]:
    hints = _hints(cls)
    for field in fields(cls):
        if callable(field.default) or field.name.startswith("_"):
            continue
        facts = field.metadata
        registry = facts.get("registry")
        yield Setting(
            section=section,
            name=field.name,
            kind="choice" if registry is not None else _kind(hints[field.name]),
            default=facts["default_name"] if registry is not None else field.default,
            range=_range(facts, registry),
            doc=facts.get("doc", ""),
            aliases=facts.get("aliases", ()),
            choices=registry,
            under=under,
        )


_hints = functools.cache(typing.get_type_hints)  # slow; most of the time of a suggestion


def _kind(hint: object) -> str:
    """Return a type in words: `float | None` is a number, a tuple is a list."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _kind(next(argument for argument in arguments if argument is not type(None)))
    if origin is tuple:
        return f"list of {_kind(arguments[0])}s"
    return next((word for kind, word in TYPES.items() if kind is hint), "any")


def _range(facts: Settings, registry: Registry | None) -> str:
    """Return `0 < x <= 1`, or the names of the alternatives."""
    if registry is not None:
        return ", ".join(name for name in registry if nameable(registry[name]))
    if "options" in facts:
        return ", ".join(facts["options"])
    low = f"{facts['above']:,} < " if "above" in facts else f"{facts['low']:,} <= " if "low" in facts else ""
    high = f" <= {facts['high']:,}" if "high" in facts else ""
    if low and not high:
        return f"above {facts['above']:,}" if "above" in facts else f"at least {facts['low']:,}"
    return f"{low}x{high}" if low or high else ""
