"""The resolved settings as TOML: what the page shows is what `paota run` reads."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

BARE_KEY = re.compile(r"^[A-Za-z0-9_-]+$")


def to_toml(settings: Mapping[str, Any]) -> str:
    """Settings that are None are left out: TOML has no word for them, and absence means the default."""
    return "\n".join(_table(settings, ())).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines, below = [], []
    for key, value in table.items():
        here = (*path, str(key))
        if value is None:
            continue
        if isinstance(value, Mapping):
            below += ["", f"[{_dotted(here)}]", *_table(value, here)]
        elif _is_table_list(value):
            for item in value:
                below += ["", f"[[{_dotted(here)}]]", *_table(item, here)]
        else:
            lines.append(f"{_key(str(key))} = {_value(value)}")
    return lines + below


def _is_table_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(item, Mapping) for item in value)


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(_key(part) for part in path)


def _key(key: str) -> str:
    return key if BARE_KEY.match(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(key))} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
        return "[" + ", ".join(_value(item) for item in value if item is not None) + "]"
    return _string(str(value))


def _string(value: str) -> str:
    # JSON's escapes are TOML's, except that TOML wants DEL escaped and has no surrogates.
    clean = value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")
