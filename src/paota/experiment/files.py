"""Experiment files: TOML, the presets that come with the package, and `--set KEY=VALUE`."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from ..base.bounded import read_regular
from ..base.errors import UserError, nearest, plain, unknown_name
from ..base.registry import ALGORITHMS
from ..base.types import Json, Table

MAX_FILE_BYTES = 2**20
PRESETS = Path(__file__).parent / "presets"
_RANGE_OF_DOTS = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)")


def parse_assignment(text: str) -> tuple[str, Json]:
    """Return key and value of `--set section.key=value`. The value is TOML; a bare word is a text."""
    key, equals, raw = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise UserError(f"--set needs section.key=value, not '{text}'")
    if key.startswith("experiment."):
        raise UserError(f"unknown setting '{key}': did you mean '{key.removeprefix('experiment.')}'?")
    try:
        return key, parse_toml(f"value = {raw.strip()}")["value"]
    except (ValueError, RecursionError):
        if ends := _RANGE_OF_DOTS.fullmatch(raw.strip()):
            raise UserError(
                f"{key} takes one value, not '{raw.strip()}': paota sweep --over {key}={ends[1]}:{ends[2]}:STEP tries several"
            ) from None
        return key, raw.strip()


def read_toml(path: str | Path) -> Table:
    """Return the table in an experiment file."""
    file = Path(path)
    if not os.path.isfile(file):  # noqa: PTH113  also false for an invalid path
        raise UserError(f"no such experiment file: '{path}'{_hint(str(path))}")
    content = read_regular(file, most=MAX_FILE_BYTES)
    try:
        return parse_toml(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number with thousands of digits
        raise UserError(f"'{path}' is not a valid TOML file: {error}") from None


def _hint(name: str) -> str:
    """Return a hint for a name of a preset or of an algorithm in place of a file."""
    if name in preset_names():
        return f"; did you mean the preset, '--preset {name}'?"
    known = "." not in name and nearest(name, list(ALGORITHMS), ALGORITHMS.aliases, cutoff=0.85)
    return f"; did you mean the algorithm, {choosing([name])}?" if known else ""


def choosing(algorithms: Iterable[str]) -> str:
    """Return the command-line option that runs these algorithms; names in other frameworks are translated."""
    names = {given: nearest(given, list(ALGORITHMS), ALGORITHMS.aliases) or given for given in algorithms}
    more = {given: f", {ALGORITHMS.options[plain(given)]}" for given in names if plain(given) in ALGORITHMS.options}
    return "--set 'algorithms=[" + ", ".join(f'{{name="{n}"{more.get(g, "")}}}' for g, n in names.items()) + "]'"


# A key of many parts: parsing time grows with the square of their number.
_DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")


def parse_toml(text: str) -> Table:
    """Return the table in a TOML text; a ValueError says what is wrong with it."""
    if _DEEP_KEY.search(text):
        raise ValueError("a key has more than 64 parts")
    return tomllib.loads(text)


def preset_names() -> list[str]:
    """Return the names of the presets, sorted."""
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def read_preset(name: str) -> Table:
    """Return the table of a preset."""
    if name not in preset_names():
        raise unknown_name("preset", name, preset_names())
    return read_toml(PRESETS / f"{name}.toml")
