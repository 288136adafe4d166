"""Settings as frozen dataclasses: read from tables, checked once, written back, handed to compiled programs.

A section such as `[timing]` is one dataclass. A field made with `choice(...)` names a replaceable idea
(`latency = "uniform"`); the options of the chosen one (`low_s`, `high_s`) stand in the same section, and only they are
accepted there. Nothing is ever ignored silently.
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

T = TypeVar("T")

LARGEST_WHOLE = 2**31 - 1
LARGEST_FLOAT, SMALLEST_FLOAT = 3.4028234e38, 1.1754944e-38  # of single precision; smaller ones are flushed to 0


def setting(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    options: tuple[str, ...] | None = None,
    instead_of: str | None = None,
    doc: str = "",
    aliases: tuple[str, ...] = (),
) -> Any:
    """A field of a settings class, with its range: values outside are refused in a sentence.

    Args:
        default: its value where the experiment does not say.
        low: the least value.
        high: the largest value.
        above: a bound that the value must exceed.
        options: the texts to choose from.
        instead_of: another field of the same class that this one replaces where it is given.
        doc: one sentence for `paota settings` and the reference page; the unit stands in the field's name.
        aliases: what other people call it; whoever writes that is told this name.
    """
    facts = {"low": low, "high": high, "above": above, "options": options, "instead_of": instead_of}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    return dataclasses.field(default=default, metadata={**known, "doc": doc, "aliases": aliases})


def choice(
    registry: Registry,
    default: str,
    *,
    adapt: Callable[[Any], Any] | None = None,
    doc: str = "",
    aliases: tuple[str, ...] = (),
) -> Any:
    """A field that holds one of the registry's dataclasses; `default` is its name.

    `adapt` makes such an object of whatever else is given in Python; `doc` and `aliases` as in `setting`.
    """
    facts = {"registry": registry, "default_name": default, "adapt": adapt, "doc": doc, "aliases": aliases}
    return dataclasses.field(default=None, metadata=facts)


def fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    if not dataclasses.is_dataclass(cls):
        raise UserError(f"{cls.__name__} must be a frozen dataclass whose fields are its settings")
    return dataclasses.fields(cls)


def parse(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """A `cls` from a table such as a TOML section; `where` names the section in messages."""
    if not isinstance(table, Mapping):
        raise UserError(f"{where} must be a table of settings, not {_describe(table)}")
    values: dict[str, Any] = {}
    used: set[str] = set()
    valid: list[str] = []
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        registry = field.metadata.get("registry")
        valid.append(field.name)
        used.add(field.name)
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
        used.update(names)
        valid.extend(names)
    for key in table:
        if key not in used:
            raise UnknownSetting(f"{where}.{key}", [f"{where}.{name}" for name in valid])
    for one, other in _alternatives(cls):
        if one in table and other in table:
            raise UserError(f"give {where}.{other} or {where}.{one}, not both")
    made = cls(**values)
    check(made, where)
    return made


def merge(cls: type, base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The table `base` with `own` on top. Where `own` makes another choice, the options of the old one go with it."""
    replaced = {name for pair in _alternatives(cls) for name in pair if (set(pair) - {name}) & set(own)} - set(own)
    merged = {key: value for key, value in base.items() if key not in replaced} | {**own}
    orphaned = _option_names(cls, base) - _option_names(cls, merged) - set(own)
    return {key: value for key, value in merged.items() if key not in orphaned}


def _option_names(cls: type, table: Mapping[str, Any]) -> set[str]:
    """The options of the variants that a table chooses."""
    names: set[str] = set()
    for field in fields(cls):
        registry = field.metadata.get("registry")
        if registry is None:
            continue
        chosen = table.get(field.name, field.metadata["default_name"])
        if isinstance(chosen, str) and chosen in registry:  # an unknown name is for `parse` to refuse
            names.update(option.name for option in fields(registry[chosen]))
    return names


def _alternatives(cls: type) -> list[tuple[str, str]]:
    """(field, the other one that it replaces)."""
    return [(f.name, f.metadata["instead_of"]) for f in fields(cls) if "instead_of" in f.metadata]


def check(settings: Any, where: str) -> None:
    """Raise a `UserError` for the first value that is out of its range; also for objects built in Python."""
    for field in fields(type(settings)):
        value = getattr(settings, field.name)
        name = f"{where}.{field.name}"
        if "registry" in field.metadata:
            if value is not None and dataclasses.is_dataclass(value):
                check(value, where)
            continue
        for item in value if isinstance(value, tuple) else (value,):
            _check_range(item, field.metadata, name)


def check_types(cls: type, table: Mapping[str, Any], where: str) -> None:
    """Raise a `UserError` for the first setting of a wrong type, of those that `cls` has whatever is chosen."""
    if not isinstance(table, Mapping):
        raise UserError(f"{where} must be a table of settings, not {_describe(table)}")
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        if "registry" not in field.metadata and field.name in table:
            name = f"{where}.{field.name}"
            value = _convert(table[field.name], hints[field.name], name)
            for item in value if isinstance(value, tuple) else (value,):
                _check_range(item, {}, name)  # finite, and not beyond what can be computed


def to_dict(settings: Any) -> dict[str, Any]:
    """The table that `parse` would turn back into `settings`; unset (None) and replaced ones are left out.

    A chosen object with a `written_name` came from Python: the name is all that a file can say of it.
    """
    table: dict[str, Any] = {}
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
    """`cls` with every choice at its default; plain `cls()` leaves choices unset."""
    return parse(cls, {}, cls.__name__.lower())


def as_tree(settings: T) -> T:
    """`settings`, its class and those of everything inside it known to JAX as pytrees whose leaves are the floats.

    The rest (names, whole numbers, switches, what is absent) is structure. So settings are arguments of compiled
    programs, and two experiments that differ only in floats (noise, learning rate, power) share one compilation.
    """
    if type(settings) not in _TREES:
        from jax.tree_util import register_dataclass

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


def _is_settings(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _convert(value: Any, hint: Any, name: str) -> Any:
    """`value` as the annotated type; bool is never a number and a fraction never a whole number."""
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
        return _to_float(value, name)
    if hint is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if hint in (int, str, bool) and type(value) is hint:
        return value
    wanted = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}.get(hint)
    if wanted is None:  # a plug-in's own type: its class checks it
        return value
    raise UserError(f"{name} must be {wanted}, not {_describe(value)}")


def _to_float(value: int | float, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"{name} is too large for a number: {_describe(value)}") from None


def _check_range(value: Any, limits: Mapping[str, Any], name: str) -> None:
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
    """Programs compute with whole numbers of 32 bits and floats of single precision: what would become another is refused."""
    if isinstance(value, int):
        if abs(value) > LARGEST_WHOLE:
            raise UserError(f"{name} must be at most {LARGEST_WHOLE}, not {_describe(value)}")
    elif abs(value) > LARGEST_FLOAT:
        raise UserError(f"{name} must be at most {LARGEST_FLOAT:.3g} in size, not {value}")
    elif 0 < abs(value) < SMALLEST_FLOAT:
        raise UserError(f"{name} must be 0 or at least {SMALLEST_FLOAT:.3g} in size, not {value}")


def _describe(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print very long ones
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
