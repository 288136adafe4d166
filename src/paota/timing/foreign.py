"""Traces that others have published, as fleets of ours: FedScale's and FLASH's.

FedScale's are pickles. They are never unpickled: their opcodes are read, and only those that make dictionaries, lists,
texts and numbers are understood. Anything else, such as a class or a call, is refused.
"""

from __future__ import annotations

import json
import pickletools
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import UserError
from .fleet import Fleet
from .synthetic_fleets import fleet_of_intervals

MAX_BYTES = 2**30
MAX_INTERVALS = 20_000_000
LARGEST = 1e12  # seconds, milliseconds or rates: what is larger was never measured


class Converted(NamedTuple):
    """A fleet, after how long it repeats, and what was left out."""

    fleet: Fleet
    repeat_s: float
    remarks: list[str]


def from_fedscale(behaviour: str | Path, capacity: str | Path | None = None, *, samples: float = 160.0) -> Converted:
    """FedScale's `client_behave_trace` and `client_device_capacity`, as pickles or as JSON.

    A client is there from `active[i]` to `inactive[i]`, and again after its `finish_time`. The i-th client has the i-th
    capacity, from the beginning again when they end: `computation` is milliseconds of inference a sample, of which
    FedScale takes 3 for training; `communication` is kbit/s, both ways.

    Args:
        behaviour: the file of the availability trace.
        capacity: the file of the capacities; None: only who is there is known.
        samples: that a local training goes through; steps x batch.
    """
    clients = _table(behaviour, "FedScale's availability trace")
    starts, ends, owners, spans, unusable = [], [], [], [], 0
    names: list[str] = []
    for name, client in clients.items():
        try:
            active, inactive = np.asarray(client["active"], float), np.asarray(client["inactive"], float)
            span = float(client["finish_time"])
            if active.ndim != 1 or inactive.ndim != 1:
                raise ValueError("no lists")
        except (KeyError, TypeError, ValueError, OverflowError):
            raise UserError(
                f"'{behaviour}': client '{name}' needs active and inactive, lists of seconds, and finish_time"
            ) from None
        n = min(len(active), len(inactive))
        known = np.isfinite(active[:n]) & np.isfinite(inactive[:n]) & (active[:n] >= 0) & (inactive[:n] > active[:n])
        if not 0 < span <= LARGEST or not known.any():
            unusable += 1
            continue
        owners.append(np.full(int(known.sum()), len(names)))
        starts.append(active[:n][known])
        ends.append(inactive[:n][known])
        spans.append(span)
        names.append(str(name))
    if not names:
        raise UserError(f"'{behaviour}' holds no client that is ever there")
    whole_s = max(spans)
    owner, start_s, end_s = _repeated(
        np.concatenate(owners), np.concatenate(starts), np.concatenate(ends), np.array(spans)
    )
    rates = {} if capacity is None else _fedscale_rates(capacity, len(names), samples)
    remarks = [f"{unusable:,} clients that are never there were left out"] if unusable else []
    return Converted(fleet_of_intervals(names, owner, start_s, end_s, whole_s, rates), whole_s, remarks)


def _repeated(owner: Any, start_s: Any, end_s: Any, span_s: Any) -> tuple[Any, Any, Any]:
    """Intervals of clients whose days are shorter than the longest, again and again until its end."""
    whole_s, mine_s = span_s.max(), span_s[owner]
    times = np.minimum(np.ceil(whole_s / mine_s), MAX_INTERVALS).astype(np.int64)
    if times.sum() > MAX_INTERVALS:
        raise UserError(f"the trace repeats itself too often: more than {MAX_INTERVALS:,} intervals would come of it")
    which = np.repeat(np.arange(len(owner)), times)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    shift = turn * mine_s[which]
    return owner[which], start_s[which] + shift, np.minimum(end_s[which], mine_s[which]) + shift


def _fedscale_rates(file: str | Path, devices: int, samples: float) -> dict[str, Any]:
    rows = list(_table(file, "FedScale's device capacities").values())
    try:
        values = np.array([(row["computation"], row["communication"]) for row in rows], float).reshape(-1, 2)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UserError(f"'{file}': every device needs computation and communication, two numbers") from None
    values = values[((values > 0) & (values <= LARGEST)).all(axis=1)]
    if not len(values):
        raise UserError(f"'{file}' holds no device with a speed and a rate above 0")
    mine = values[np.arange(devices) % len(values)]
    mbit_per_s = mine[:, 1] / 1e3
    return {"latency_s": 3 * samples * mine[:, 0] / 1e3, "down_mbit_per_s": mbit_per_s, "up_mbit_per_s": mbit_per_s}


def from_flash(states: str | Path, speeds: str | Path | None = None) -> Converted:
    """FLASH's `state_traces.json` and `speed_distri.json`.

    A phone is there while it is locked, charging and on Wi-Fi, as FLASH has it. Time 0 is midnight before the first
    message of all. The i-th phone has the mean speeds of the i-th entry (kB/s), from the beginning again when they end.

    Args:
        states: the file of the users' states.
        speeds: the file of network speeds; None: not known.
    """
    users = _table(states, "FLASH's state traces")
    names: list[str] = []
    owner: list[int] = []
    start: list[float] = []
    end: list[float] = []
    last_s, unknown = [], 0
    for name, user in users.items():
        text = user.get("messages") if isinstance(user, Mapping) else None
        if not isinstance(text, str):
            raise UserError(f"'{states}': user '{name}' has no messages, lines of a time and a state")
        ready, ended_s, strange = _flash_intervals(states, str(name), text)
        unknown += strange
        if ready:
            owner += [len(names)] * len(ready)
            start += [one for one, _ in ready]
            end += [other for _, other in ready]
            last_s.append(ended_s)
            names.append(str(name))
    if not names:
        raise UserError(f"'{states}' holds no user that is ever locked, charging and on Wi-Fi")
    midnight_s = np.floor(min(start) / 86_400) * 86_400
    span_s = float(np.ceil((max(last_s) - midnight_s) / 86_400) * 86_400)
    rates = {} if speeds is None else _flash_rates(speeds, len(names))
    remarks = (
        [f"{len(users) - len(names):,} users that are never there were left out"] if len(users) > len(names) else []
    )
    if unknown:
        remarks.append(f"{unknown:,} messages with states that FLASH does not name were passed over")
    made = fleet_of_intervals(
        names, np.array(owner), np.array(start) - midnight_s, np.array(end) - midnight_s, span_s, rates
    )
    return Converted(made, span_s, remarks)


_FLASH = {  # message -> (what it is about, whether it holds from then on)
    "battery_charged_on": ("charged", True), "battery_charged_off": ("charged", False),
    "screen_lock": ("locked", True), "screen_unlock": ("locked", False),
    "wifi": ("wifi", True), "2g": ("wifi", False), "3g": ("wifi", False), "4g": ("wifi", False), "5g": ("wifi", False),
    "unknown": ("wifi", False),
}  # fmt: skip
_FLASH_IGNORED = ("screen_on", "screen_off", "battery_low", "battery_okay", "phone_on", "phone_off")
_EPOCH = datetime(1970, 1, 1)


def _flash_intervals(file: str | Path, name: str, text: str) -> tuple[list[tuple[float, float]], float, int]:
    """(intervals in which a phone is ready, its last moment, messages that nobody knows); seconds since 1970."""
    holds = {"charged": False, "locked": False, "wifi": False}
    ready: list[tuple[float, float]] = []
    since_s, now_s, strange = None, 0.0, 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        moment, _, word = line.partition("\t")
        try:
            now_s = (datetime.fromisoformat(moment.strip()).replace(tzinfo=None) - _EPOCH).total_seconds()
        except ValueError:
            raise UserError(f"'{file}': user '{name}' has a message without a time: '{line[:60]}'") from None
        word = word.strip().lower()
        if word in _FLASH:
            about, value = _FLASH[word]
            holds[about] = value
        elif not word.endswith("%") and word not in _FLASH_IGNORED:
            strange += 1
        if all(holds.values()):
            since_s = now_s if since_s is None else since_s
        elif since_s is not None:
            ready.append((since_s, now_s))
            since_s = None
    if since_s is not None:
        ready.append((since_s, now_s))
    return [(one, other) for one, other in ready if other > one], now_s, strange


def _flash_rates(file: str | Path, devices: int) -> dict[str, Any]:
    rows = list(_table(file, "FLASH's network speeds").values())
    try:
        values = np.array([(row["down_u"], row["up_u"]) for row in rows], float).reshape(-1, 2)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UserError(f"'{file}': every entry needs down_u and up_u, two numbers") from None
    values = values[((values > 0) & (values <= LARGEST)).all(axis=1)]
    if not len(values):
        raise UserError(f"'{file}' holds no speeds above 0")
    mbit_per_s = values[np.arange(devices) % len(values)] * 8 * 1024 / 1e6
    return {"down_mbit_per_s": mbit_per_s[:, 0], "up_mbit_per_s": mbit_per_s[:, 1]}


def _table(path: str | Path, what: str) -> Mapping[Any, Any]:
    """The dictionary in a JSON file, or in a pickle that holds nothing but plain values."""
    file = Path(path)
    if not file.is_file():
        raise UserError(f"{what}: no such file '{path}'")
    if file.stat().st_size > MAX_BYTES:
        raise UserError(f"{what}: '{path}' is larger than {MAX_BYTES >> 20} MiB")
    content = file.read_bytes()
    try:
        value = plain_pickle(content) if content[:1] in (b"\x80", b"(", b"}") else json.loads(content)
    except (ValueError, RecursionError, UnicodeDecodeError, IndexError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{what}: '{path}' is neither JSON nor a pickle of plain values ({str(error)[:120]})") from None
    if not isinstance(value, Mapping) or not value:
        raise UserError(f"{what}: '{path}' holds no dictionary of devices")
    return value


_MARK = object()
_VALUES = (
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
)  # fmt: skip
_MADE = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUT = ("PUT", "BINPUT", "LONG_BINPUT")
_GET = ("GET", "BINGET", "LONG_BINGET")


def plain_pickle(content: bytes) -> Any:
    """What a pickle of dictionaries, lists, tuples, texts and numbers holds. Nothing in it is ever called or imported."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("a list without a beginning")
        items = stack[at + 1 :]
        del stack[at:]
        return items

    argument: Any
    for opcode, argument, _ in pickletools.genops(content):
        name = opcode.name
        if name in _VALUES:
            stack.append(argument)
        elif name in _GET:
            stack.append(memo[int(argument)])
        elif name in _PUT:
            memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in _MADE:
            stack.append(_MADE[name]())
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("SETITEMS", "DICT"):
            items = since_mark()
            if name == "DICT":
                stack.append({})
            _dictionary(stack[-1]).update(zip(items[::2], items[1::2], strict=True))
        elif name == "SETITEM":
            key, value = stack[-2:]
            del stack[-2:]
            _dictionary(stack[-1])[key] = value
        elif name in ("APPENDS", "LIST"):
            items = since_mark()
            if name == "LIST":
                stack.append([])
            _list(stack[-1]).extend(items)
        elif name == "APPEND":
            value = stack.pop()
            _list(stack[-1]).append(value)
        elif name == "TUPLE":
            stack.append(tuple(since_mark()))
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[-count:] = [tuple(stack[-count:])]
        elif name == "STOP":
            return stack.pop()
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"the opcode {name} makes no plain value; export the file as JSON")
    raise ValueError("it ends too early")


def _dictionary(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError("an item of no dictionary")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("an item of no list")
    return value
