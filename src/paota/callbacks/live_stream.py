"""What a run writes into its folder while it goes on, for anybody who can read the folder.

`rounds.csv` gets a line for every round (`paota.callbacks.CsvStream`). `live.json` is replaced about once a second: how far
every unit is, what is being compiled, and how fast it goes. Both are removed when the run is finished: `metrics.csv` holds
everything then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base import files
from ..base.errors import UserError
from ..base.settings import LARGEST_FLOAT, LARGEST_WHOLE
from .base import Callback, Round, Start
from .stream import CsvStream

if TYPE_CHECKING:
    from ..results.result import Result, Trajectory

FILE = "live.json"
FORMAT = 1
WRITE_EVERY_S = 1.0
SPEED_OVER_S = 10.0
# What `live.json` holds: a float may be null, a key `...` stands for any label.
SHAPE: dict[str, Any] = {
    "title": str, "score": str, "began": float, "ended": bool, "rounds_per_second": float,
    "units": [{"label": str, "algorithm": str, "seed": int, "rounds": int, "done": int, "state": str, "accuracy": float}],
    "compiling": {...: float},
}  # fmt: skip


class LiveStream(Callback):
    """Writes both files into the run folder. Where that fails nobody can watch, and the run goes on."""

    def __init__(self) -> None:
        self._table, self._failed = CsvStream(), False

    def start(self, run: Start) -> None:
        assert run.folder is not None
        self._file = run.folder / FILE
        self._try(self._table.start, run)
        self._units: dict[tuple[str, int], dict[str, Any]] = {
            (u.label, u.seed): {
                "label": u.label, "algorithm": u.algorithm, "seed": u.seed, "rounds": u.rounds, "done": 0,
                "state": "waiting", "accuracy": None,
            }
            for u in run.units
        }  # fmt: skip
        self._title, self._score, self._began = run.title, run.score, time.time()
        self._compiling: dict[str, float] = {}
        self._pace: deque[tuple[float, int]] = deque()  # when, and how many rounds had been done
        self._written = 0.0
        self._write(ended=False)

    def compile(self, label: str, seconds: float | None) -> None:
        if seconds is None:
            self._compiling[label] = time.time()
        else:
            self._compiling.pop(label, None)
        self._write(ended=False)

    def round(self, round: Round) -> None:
        self._try(self._table.round, round)
        unit = self._units[round.label, round.seed]
        unit |= {"done": round.round, "state": "running"}
        if round.evaluated:
            unit["accuracy"] = round.test_accuracy
        if time.monotonic() - self._written >= WRITE_EVERY_S:
            self._write(ended=False)

    def finish(self, trajectory: Trajectory) -> None:
        t = trajectory
        ends = (("diverged", t.diverged_round), ("stopped", t.stopped_round))
        state = next((name for name, round in ends if round is not None), "finished")
        self._units[t.label, t.seed] |= {"done": int(t.metrics["round"][-1]), "state": state}

    def end(self, result: Result | None) -> None:
        self._table.end(result)
        self._write(ended=True)

    def _write(self, *, ended: bool) -> None:
        self._written = time.monotonic()
        content = {
            "format": FORMAT, "title": self._title, "score": self._score, "began": self._began, "ended": ended,
            "units": list(self._units.values()), "compiling": self._compiling,
            "rounds_per_second": self._speed(),
        }  # fmt: skip
        self._try(files.write_json, self._file, content)

    def _try(self, write: Callable[..., None], *arguments: Any) -> None:
        if self._failed:
            return
        try:
            write(*arguments)
        except UserError:
            self._failed = True

    def _speed(self) -> float | None:
        """Rounds a second of all units together, lately."""
        now, done = time.monotonic(), sum(unit["done"] for unit in self._units.values())
        self._pace.append((now, done))
        while now - self._pace[0][0] > SPEED_OVER_S and len(self._pace) > 2:
            self._pace.popleft()
        then, before = self._pace[0]
        return (done - before) / (now - then) if now > then and done > before else None


def check_state(state: Any) -> None:
    """Raise a ValueError that says what in a `live.json` is not as `LiveStream` writes it."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"it has not the format {FORMAT}")
    for name in SHAPE.keys() & state.keys():
        _check(state[name], SHAPE[name], name)


def _check(value: Any, shape: Any, where: str) -> None:
    """Raise a ValueError that names the first part of `value` that does not have its shape."""
    parts: list[tuple[Any, Any]] = []
    if isinstance(shape, dict):
        right = type(value) is dict and (... in shape or shape.keys() <= value.keys())
        parts = [(key, shape.get(key, shape.get(...))) for key in (value if ... in shape else shape)] if right else []
    elif isinstance(shape, list):
        right = type(value) is list
        parts = [(i, shape[0]) for i in range(len(value))] if right else []
    elif shape is float:
        right = value is None or (type(value) in (int, float) and abs(value) <= LARGEST_FLOAT)
    else:
        right = type(value) is shape and (shape is not int or 0 <= value <= LARGEST_WHOLE)
    if not right:
        raise ValueError(f"{where:.80} is {value!r:.80}")
    for key, part in parts:
        _check(value[key], part, f"{where}.{key}")
