"""Settings as frozen dataclasses: read from tables, checked once, written back, passed to compiled programs.

A section such as `[timing]` is one dataclass. A field made with `choice(...)` names a replaceable idea (`latency =
"uniform"`). The options of the chosen one (`low_s`, `high_s`) belong to the same section, and options of others are
refused there. No key is ever ignored silently.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .errors import UnknownSetting, UserError, unknown_name
from .registry import Registry
from .types import Settings, Table

T = TypeVar("T")

LARGEST_WHOLE = 2**31 - 1
LARGEST_FLOAT, SMALLEST_FLOAT = 3.4028234e38, 1.1754944e-38  # single precision; smaller floats become 0


def setting(
    default: object,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    options: tuple[str, ...] | None = None,
    instead_of: str | None = None,
    doc: str = "",
    aliases: tuple[str, ...] = (),
) -> Any:  # any type, as `dataclasses.field`
    """Return a field of a settings class with its range; a value outside raises a `UserError`.

    Args:
        default: value if the experiment does not set the field.
        low: smallest value.
        high: largest value.
        above: a bound that the value must exceed.
        options: allowed texts.
        instead_of: another field of the same class that this one replaces if it is given.
        doc: one sentence for `paota settings` and the reference page; the unit is part of the field's name.
        aliases: names in other frameworks or papers; an experiment that uses one gets this field's name as a hint.
    """
    facts = {"low": low, "high": high, "above": above, "options": options, "instead_of": instead_of}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    return dataclasses.field(default=default, metadata={**known, "doc": doc, "aliases": aliases})


def choice(
    registry: Registry,
    default: str,
    *,
    adapt: Callable[[object], object] | None = None,
    doc: str = "",
    aliases: tuple[str, ...] = (),
) -> Any:  # any type, as `dataclasses.field`
    """Return a field that holds one of the registry's dataclasses.

    Args:
        registry: the things to choose from.
        default: name of the default.
        adapt: a function that converts other objects given in Python; None: there are none.
        doc: as in `setting`.
        aliases: as in `setting`.
    """
    facts = {"registry": registry, "default_name": default, "adapt": adapt, "doc": doc, "aliases": aliases}
    return dataclasses.field(default=None, metadata=facts)


def fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    """Return the fields of a settings class."""
    if not dataclasses.is_dataclass(cls):
        raise UserError(f"{cls.__name__} must be a frozen dataclass whose fields are its settings")
    return dataclasses.fields(cls)


def parse(cls: type[T], table: Settings, where: str) -> T:
    """Return a `cls` from a table such as a TOML section; `where` is the name of the section in messages."""
    if not isinstance(table, Mapping):
        raise UserError(f"{where} must be a table of settings, not {_describe(table)}")
    values: Table = {}
    valid: list[str] = []
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        registry = field.metadata.get("registry")
        valid.append(field.name)
        if registry is None:
            if field.name in table:
                values[field.name] = _convert(table[field.name], hints[field.name], f"{where}.{field.name}")
            continue
        chosen = table.get(field.name, field.metadata["default_name"])
        if not isinstance(chosen, str):
            if field.metadata["adapt"] is not None:
                chosen = field.metadata["adapt"](chosen)
            if not _is_settings(chosen):  # a ready-made object, from Python
                raise UserError(f"{where}.{field.name} must be a name, one of: {', '.join(registry)}")
            values[field.name] = chosen
            continue
        variant = registry[chosen]
        names = [f.name for f in fields(variant)]
        options = {name: table[name] for name in names if name in table}
        values[field.name] = parse(variant, options, where)
        valid.extend(names)
    for key in table:
        if key not in valid:
            raise UnknownSetting(f"{where}.{key}", [f"{where}.{name}" for name in valid])
    for one, other in _alternatives(cls):
        if one in table and other in table:
            raise UserError(f"give {where}.{other} or {where}.{one}, not both")
    made = cls(**values)
    check(made, where)
    return made


def merge(cls: type, base: Settings, own: Settings) -> Table:
    """Return the table `base` updated by `own`. If `own` makes another choice, the options of the old one are dropped."""
    replaced = {name for pair in _alternatives(cls) for name in pair if (set(pair) - {name}) & set(own)} - set(own)
    merged = {key: value for key, value in base.items() if key not in replaced} | {**own}
    orphaned = _option_names(cls, base) - _option_names(cls, merged) - set(own)
    return {key: value for key, value in merged.items() if key not in orphaned}


def _option_names(cls: type, table: Settings) -> set[str]:
    """Return the options of the variants that a table chooses."""
    names: set[str] = set()
    for field in fields(cls):
        registry = field.metadata.get("registry")
        if registry is None:
            continue
        chosen = table.get(field.name, field.metadata["default_name"])
        if isinstance(chosen, str) and chosen in registry:  # `parse` refuses an unknown name
            names.update(option.name for option in fields(registry[chosen]))
    return names


def _alternatives(cls: type) -> list[tuple[str, str]]:
    """Return all pairs (field, field that it replaces)."""
    return [(f.name, f.metadata["instead_of"]) for f in fields(cls) if "instead_of" in f.metadata]


def check(settings: object, where: str) -> None:
    """Raise a `UserError` for the first value out of its range; also for objects built in Python."""
    for field in fields(type(settings)):
        value = getattr(settings, field.name)
        name = f"{where}.{field.name}"
        if "registry" in field.metadata:
            if value is not None and dataclasses.is_dataclass(value):
                check(value, where)
            continue
        for item in value if isinstance(value, tuple) else (value,):
            _check_range(item, field.metadata, name)


def check_types(cls: type, table: Settings, where: str) -> None:
    """Raise a `UserError` for the first field of a wrong type, among the fields of `cls` itself."""
    if not isinstance(table, Mapping):
        raise UserError(f"{where} must be a table of settings, not {_describe(table)}")
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        if "registry" not in field.metadata and field.name in table:
            name = f"{where}.{field.name}"
            value = _convert(table[field.name], hints[field.name], name)
            for item in value if isinstance(value, tuple) else (value,):
                _check_range(item, {}, name)  # finite, and within single precision


def to_dict(settings: object) -> Table:
    """Return the table that `parse` converts back to `settings`; unset (None) and replaced fields are left out.

    A chosen object with a `written_name` came from Python: a file can only contain its name.
    """
    table: Table = {}
    replaced = {other for one, other in _alternatives(type(settings)) if getattr(settings, one) is not None}
    for field in fields(type(settings)):
        if field.name in replaced:
            continue
        value = getattr(settings, field.name)
        registry = field.metadata.get("registry")
        if registry is not None and hasattr(value, "written_name"):
            table[field.name] = value.written_name
        elif registry is not None:
            table[field.name] = registry.name_of(type(value))
            table.update(to_dict(value))
        elif value is not None and not callable(value):
            table[field.name] = list(value) if isinstance(value, tuple) else value
    return table


def defaults(cls: type[T]) -> T:
    """Return a `cls` with every choice at its default; plain `cls()` leaves choices unset."""
    return parse(cls, {}, cls.__name__.lower())


def as_tree(settings: T) -> T:
    """Return `settings`, after registering its class and those inside it as JAX pytrees whose leaves are the floats.

    All other fields (names, integers, switches, absent values) are structure. Settings can thus be arguments of compiled
    programs, and experiments that differ only in floats (noise, learning rate, power) share one compilation.
    """
    if type(settings) not in _TREES:
        from jax.tree_util import register_dataclass  # start-up time

        cls = type(settings)
        hints = typing.get_type_hints(cls)
        data = [f.name for f in fields(cls) if "registry" in f.metadata or hints[f.name] in (float, float | None)]
        register_dataclass(cls, data, [f.name for f in fields(cls) if f.name not in data])
        _TREES.add(cls)
    for field in fields(type(settings)):
        if _is_settings(value := getattr(settings, field.name)):
            as_tree(value)
    return settings


_TREES: set[type] = set()


def _is_settings(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _convert(value: object, hint: object, name: str) -> object:
    """Return `value` as the annotated type; bool is never a number, and a fraction never a whole number."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _convert(value, next(a for a in arguments if a is not type(None)), name)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UserError(f"{name} must be a list, not {_describe(value)}")
        return tuple(_convert(item, arguments[0], f"{name}[{i}]") for i, item in enumerate(value))
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise UserError(f"{name} is too large for a number: {_describe(value)}") from None
    if hint is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if hint in (int, str, bool) and type(value) is hint:
        return value
    wanted = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}.get(hint)  # type: ignore[call-overload]
    if wanted is None:  # a type of a plug-in, whose class checks it
        return value
    raise UserError(f"{name} must be {wanted}, not {_describe(value)}")


def _check_range(value: object, limits: Settings, name: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name} must be a finite number, not {value}")
    if "options" in limits and value is not None and value not in limits["options"]:
        raise unknown_name(f"value of {name}", value, limits["options"])
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "above" in limits and not value > limits["above"]:
            raise UserError(f"{name} must be greater than {limits['above']}, not {_describe(value)}")
        if "low" in limits and value < limits["low"]:
            raise UserError(f"{name} must be at least {limits['low']}, not {_describe(value)}")
        if "high" in limits and value > limits["high"]:
            share = f"; did you mean {value / 100:g}?" if limits["high"] == 1 and value <= 100 else ""
            shown = f"{value:g}" if share else _describe(value)
            raise UserError(f"{name} must be at most {limits['high']}, not {shown}{share}")
        _check_computable(value, name)


def _check_computable(value: int | float, name: str) -> None:
    """Refuse numbers that 32-bit integers and floats of compiled programs cannot represent."""
    if isinstance(value, int):
        if abs(value) > LARGEST_WHOLE:
            raise UserError(f"{name} must be at most {LARGEST_WHOLE}, not {_describe(value)}")
    elif abs(value) > LARGEST_FLOAT:
        raise UserError(f"{name} must be at most {LARGEST_FLOAT:.3g} in size, not {value}")
    elif 0 < abs(value) < SMALLEST_FLOAT:
        raise UserError(f"{name} must be 0 or at least {SMALLEST_FLOAT:.3g} in size, not {value}")


def _describe(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print very long integers
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
