"""The grid of a sweep: which settings vary, over which values, the experiment of each combination, and their names."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeGuard

import numpy as np

from ...base.errors import UserError
from ...experiment.experiment import AlgorithmConfig, Experiment
from ...experiment.files import parse_assignment, parse_toml
from ...experiment.reference import UNITS

MOST_POINTS = 100_000
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER}):({_NUMBER}):({_NUMBER})\s*")
PERIOD = "timing.period_s"
# Where the key alone says too little; with the paper's symbols.
NAMES = {
    "seed": "first seed",
    "data.devices": "number of devices K",
    "model.name": "model",
    "model.hidden": "hidden layers",
    "training.local_steps": "local steps M",
    "training.learning_rate": "learning rate η",
    "training.optimiser": "local optimiser",
    PERIOD: "period ΔT",
    "timing.low_s": "shortest latency",
    "timing.high_s": "longest latency",
    "server.optimiser": "server optimiser",
    "air.n0_dbm_per_hz": "noise density N₀",
    "air.bandwidth_hz": "bandwidth B",
    "power.max_power_w": "power limit",
    "power.method": "power control",
    "power.omega": "staleness constant Ω",
    "power.smoothness": "smoothness L",
    "evaluation.every": "rounds between evaluations",
}


@dataclass(frozen=True)
class Axis:
    """One setting and the values it takes."""

    key: str
    values: tuple[object, ...]

    @property
    def numbers(self) -> list[float]:
        """The values as numbers; empty if one of them is no number."""
        found = [float(value) for value in self.values if _is_number(value)]
        return found if len(found) == len(self.values) else []


@dataclass(frozen=True)
class Point:
    """One combination of values, one of each axis, and its experiment."""

    index: int
    values: tuple[object, ...]
    experiment: Experiment


def read_axes(over: Sequence[str], changes: Sequence[str]) -> list[Axis]:
    """Return the axes that `--over` gives; refuse a setting that `--set` (`changes`) fixes."""
    axes = [parse_axis(text) for text in over]
    if axes:
        combinations(axes)  # refuses axes that make no grid
    fixed = [parse_assignment(text)[0] for text in changes]
    for axis in axes:
        if axis.key in fixed:
            raise UserError(f"{axis.key} is given by --set and by --over: keep one of them")
    return axes


def parse_axis(text: str) -> Axis:
    """Parse `--over timing.period_s=4,6,8`. Values are TOML, bare words are texts, and 4:12:2 is a range."""
    key, equals, raw = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise UserError(f"--over needs section.key=value,value,..., not '{text}'")
    if not raw.strip():
        raise UserError(f"--over {key} names no value, e.g. --over {key}=1,2,3")
    try:
        values = parse_toml(f"values = [{raw}]")["values"]
    except (ValueError, RecursionError):
        parts = raw.split(",")
        if any(not part.strip() for part in parts):
            raise UserError(f"--over {key}: an empty value between commas in '{raw}'") from None
        values = []
        for part in parts:
            numbers = _RANGE.fullmatch(part)
            values += _range(key, *numbers.groups()) if numbers else [parse_assignment(f"{key}={part}")[1]]
    return Axis(key, tuple(values))


def _range(key: str, low: str, high: str, step: str) -> list[int | float]:
    """Return low, low + step, ... up to and with high; in decimals, so that 0.1:0.3:0.1 has three values."""
    first, last, by = Decimal(low), Decimal(high), Decimal(step)
    if by <= 0 or last < first:
        raise UserError(
            f"--over {key}: a range is low:high:step with low at most high and a step above 0, not {low}:{high}:{step}"
        )
    count = math.floor((last - first) / by) + 1
    if count > MOST_POINTS:
        raise UserError(f"--over {key}: {low}:{high}:{step} has {count:,} values, more than {MOST_POINTS:,}")
    values = [first + i * by for i in range(count)]
    whole = all(value == value.to_integral_value() for value in (first, by)) and "." not in low + step
    return [int(value) if whole else float(value) for value in values]


def make_axes(over: Mapping[str, Sequence[object]]) -> tuple[Axis, ...]:
    """Return the axes of a Python table such as {"timing.period_s": [4, 6, 8]}."""
    axes = []
    for key, values in over.items():
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            raise UserError(f"over['{key}'] must be a list of values, not {values!r}")
        for value in values:
            if not isinstance(value, bool | int | float | str | list | tuple | np.generic):
                raise UserError(
                    f"over['{key}'] holds {type(value).__name__}, and a file can hold only numbers, texts and lists: "
                    "register the thing, and name it"
                )
        # NumPy's numbers become Python's: settings and files know only those.
        axes.append(Axis(key, tuple(value.item() if hasattr(value, "item") else value for value in values)))
    return tuple(axes)


def make_points(base: Experiment, axes: Sequence[Axis]) -> tuple[Point, ...]:
    """Return all combinations, the last axis fastest; each experiment is checked."""
    points = []
    for index, values in enumerate(combinations(axes)):
        changes = {axis.key: value for axis, value in zip(axes, values, strict=True)}
        points.append(Point(index, values, base.override(changes)))
    return tuple(points)


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[object, ...]]:
    """Return the values of every point; refuse axes that make no grid."""
    if not axes:
        raise UserError("a sweep needs at least one --over, e.g. --over timing.period_s=4,6,8")
    keys = [axis.key for axis in axes]
    if {"rounds", "duration_s"} <= set(keys):
        raise UserError("rounds and duration_s replace each other: sweep over one of them")
    total = math.prod(len(axis.values) for axis in axes)
    if total > MOST_POINTS:
        raise UserError(f"the grid has {total:,} points, more than {MOST_POINTS:,}: name fewer values")
    for axis in axes:
        if keys.count(axis.key) > 1:
            raise UserError(f"--over {axis.key} is given twice: list all its values in one")
        if not axis.values:
            raise UserError(f"--over {axis.key} names no value")
        shown = [show(value) for value in axis.values]
        if twice := next((text for text, count in Counter(shown).items() if count > 1), None):
            raise UserError(f"--over {axis.key} names {twice} twice")
    return itertools.product(*(axis.values for axis in axes))


def beyond_the_end(tried: Sequence[float], value: object) -> str:
    """Return a hint if the best value is the end of the tried ones, where values beyond it may be better; else nothing."""
    if len(tried) < 3 or value not in (min(tried), max(tried)):
        return ""
    return f"{'smaller' if value == min(tried) else 'larger'} values may be better still."


def unused_periods(config: AlgorithmConfig, axes: Sequence[Axis]) -> tuple[str, ...]:
    """Return the axes over a period that an algorithm does not have.

    A synchronous rival takes its number of participants from PAOTA's period unless it is given. That is the fairness rule
    of a comparison, not a property of the rival.
    """
    own = (PERIOD, f"algorithms.{config.label}.{PERIOD}") if config.algorithm.scheme.uses_period else ()
    return tuple(axis.key for axis in axes if axis.key.endswith(PERIOD) and axis.key not in own)


def point_folder(point: int, points: int) -> str:
    """Return the run folder of a point within its sweep's folder."""
    return f"points/{point:0{max(3, len(str(points - 1)))}d}"


def show(value: object) -> str:
    """Return a value as a person would type it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    return str(value)


def place(axes: Sequence[Axis], values: Sequence[object], *, named: bool = False) -> str:
    """Return one combination in words.

    By default in the words of an experiment file, `timing.period_s = 6, seed = 3`; with `named` in those of a page,
    `period ΔT = 6 s, first seed = 3`.
    """
    parts = []
    for axis, value in zip(axes, values, strict=True):
        shown = show_with_unit(axis.key, value) if named else show(value)
        parts.append(f"{setting_name(axis.key) if named else axis.key} = {shown}")
    return ", ".join(parts)


def setting_name(key: str) -> str:
    """Return `period ΔT` for `timing.period_s`; a setting of one algorithm has its label before it: `mine: payload`."""
    if key.startswith("algorithms."):
        _, label, own = key.split(".", 2)
        return f"{label}: {setting_name(own)}"
    last = key.rpartition(".")[2]
    return NAMES.get(key) or last.removesuffix(_suffix(last)).replace("_", " ")


def setting_unit(key: str) -> str:
    """Return `s`, `dBm/Hz`, ...; empty if the setting has no unit."""
    return UNITS.get(_suffix(key), "")


def titled(key: str) -> str:
    """Return the title of an axis or a column: `period ΔT (s)`."""
    unit = setting_unit(key)
    return f"{setting_name(key)} ({unit})" if unit else setting_name(key)


def show_with_unit(key: str, value: object) -> str:
    """Return a value of a setting with its unit: `6 s`."""
    return f"{show(value)} {setting_unit(key)}".rstrip()


def _suffix(key: str) -> str:
    """Return the end of a key that is a unit, `_s`, `_dbm_per_hz`, ...; empty if there is none."""
    return next((end for end in UNITS if key.endswith(end)), "")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
