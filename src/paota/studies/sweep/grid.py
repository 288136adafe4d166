"""The grid: which settings vary, over which values, the experiment of each combination, and their names."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ...base.errors import UserError
from ...experiment.experiment import Experiment
from ...experiment.files import parse_assignment, parse_toml
from ...experiment.reference import UNITS

MOST_POINTS = 100_000
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER}):({_NUMBER}):({_NUMBER})\s*")


@dataclass(frozen=True)
class Axis:
    """One setting and the values it takes."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """One combination of values, and the experiment that it makes."""

    index: int
    values: tuple[Any, ...]  # one of each axis
    experiment: Experiment


def parse_axis(text: str) -> Axis:
    """`--over timing.period_s=4,6,8` -> an axis; the values are TOML, a bare word is a text, and 4:12:2 is a range."""
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
    """low, low + step, ... up to and with high; in decimals, so that 0.1:0.3:0.1 has three values."""
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


def make_axes(over: Mapping[str, Sequence[Any]]) -> tuple[Axis, ...]:
    """From Python: {"timing.period_s": [4, 6, 8]}."""
    axes = []
    for key, values in over.items():
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            raise UserError(f"over['{key}'] must be a list of values, not {values!r}")
        # NumPy's numbers become Python's: settings and files know only those.
        axes.append(Axis(key, tuple(value.item() if hasattr(value, "item") else value for value in values)))
    return tuple(axes)


def make_points(base: Experiment, axes: Sequence[Axis]) -> tuple[Point, ...]:
    """All combinations, the last axis fastest, each checked."""
    points = []
    for index, values in enumerate(combinations(axes)):
        changes = {axis.key: value for axis, value in zip(axes, values, strict=True)}
        points.append(Point(index, values, base.override(changes)))
    return tuple(points)


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[Any, ...]]:
    """The values of every point; axes that make no grid are refused."""
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


def place(axes: Sequence[Axis], values: Sequence[Any]) -> str:
    """`timing.period_s = 6, power.omega = 3`: one combination in words."""
    return ", ".join(f"{axis.key} = {show(value)}" for axis, value in zip(axes, values, strict=True))


def show(value: Any) -> str:
    """A value as a person would type it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    return str(value)


# Where the key alone says too little; the paper's symbols with them.
NAMES = {
    "seed": "first seed",
    "data.devices": "number of devices K",
    "model.name": "model",
    "model.hidden": "hidden layers",
    "training.local_steps": "local steps M",
    "training.learning_rate": "learning rate η",
    "training.optimiser": "local optimiser",
    "timing.period_s": "period ΔT",
    "timing.low_s": "shortest latency",
    "timing.high_s": "longest latency",
    "server.optimiser": "server optimiser",
    "air.n0_dbm_per_hz": "noise density N₀",
    "air.bandwidth_hz": "bandwidth B",
    "power.max_power_w": "power limit",
    "power.method": "power control",
    "power.omega": "staleness constant Ω",
    "power.smoothness": "smoothness L",
    "evaluation.every": "rounds between looks",
}


def setting_name(key: str) -> str:
    """`timing.period_s` -> `period ΔT`; of one algorithm, with its label before it: `mine: payload`."""
    if key.startswith("algorithms."):
        _, label, own = key.split(".", 2)
        return f"{label}: {setting_name(own)}"
    last = key.rpartition(".")[2]
    return NAMES.get(key) or last.removesuffix(_suffix(last)).replace("_", " ")


def setting_unit(key: str) -> str:
    """`s`, `dBm/Hz`, ...; empty if it has none."""
    return UNITS.get(_suffix(key), "")


def titled(key: str) -> str:
    """For an axis or a column: `period ΔT (s)`."""
    unit = setting_unit(key)
    return f"{setting_name(key)} ({unit})" if unit else setting_name(key)


def named_place(axes: Sequence[Axis], values: Sequence[Any]) -> str:
    """`period ΔT = 6 s, seed = 3`: one combination in words."""
    units = (setting_unit(axis.key) for axis in axes)
    parts = zip(axes, values, units, strict=True)
    return ", ".join(
        f"{setting_name(axis.key)} = {show(value)}{f' {unit}' if unit else ''}" for axis, value, unit in parts
    )


def _suffix(key: str) -> str:
    """How the key ends, if that is a unit: `_s`, `_dbm_per_hz`, ..."""
    return next((end for end in UNITS if key.endswith(end)), "")
