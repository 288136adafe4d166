"""What a run writes into its folder while it goes on, for anybody who can read the folder.

`rounds.csv` gets a line for every round (`paota.callbacks.CsvStream`). `live.json` is replaced about once a second: how far
every unit is, what is being compiled, how fast it goes, and who transmitted last, and how loud. Both are removed when
the run is finished: `metrics.csv` and `devices.npz` hold everything then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..callbacks.base import Callback, Round, Start
from ..callbacks.stream import CsvStream
from ..errors import UserError
from ..runs import files

if TYPE_CHECKING:
    from ..runs.results import Result, Trajectory

FILE = "live.json"
FORMAT = 1
WRITE_EVERY_S = 1.0
SPEED_OVER_S = 10.0
MOST_LOUD = 200  # devices of the newest round
MOST_DEVICES = 20  # of the time line
FEWEST_ROUNDS, FEWEST_CONTRIBUTIONS, MOST_ROUNDS = 8, 40, 120  # of the time line
LOUD_COLUMNS = ("device", "power", "weight", "staleness")
TIMELINE_COLUMNS = ("device", "round", "staleness", "start_s", "finish_s", "time_s", "version", "weight")


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
        self._newest: dict[str, deque[Round]] = {}  # by label
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
        if round.judged:
            unit["accuracy"] = round.test_accuracy
        if round.metrics["ready"]:
            newest = self._newest.setdefault(round.label, deque(maxlen=MOST_ROUNDS))
            if newest and newest[-1].seed != round.seed:
                newest.clear()
            newest.append(round)
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
            "loud": {label: _loud(rounds[-1]) for label, rounds in self._newest.items()},
            "timeline": {label: _timeline(rounds) for label, rounds in self._newest.items()},
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


def _loud(round: Round) -> dict[str, Any]:
    """Who took part in a round, and how loud."""
    columns = {name: round.devices[name][:MOST_LOUD] for name in LOUD_COLUMNS}
    return {"seed": round.seed, "round": round.round, "time_s": round.time_s, **columns}


def _timeline(rounds: deque[Round]) -> dict[str, Any]:
    """The records of the newest rounds, for the first devices that take part in them."""
    shown: list[Round] = []
    contributions = 0
    for round in reversed(rounds):
        if len(shown) >= FEWEST_ROUNDS and contributions >= FEWEST_CONTRIBUTIONS:
            break
        shown.insert(0, round)
        contributions += len(round.devices["device"])
    columns = {name: np.concatenate([round.devices[name] for round in shown]) for name in TIMELINE_COLUMNS}
    kept = np.isin(columns["device"], np.unique(columns["device"])[:MOST_DEVICES])
    return {"seed": shown[-1].seed, **{name: column[kept] for name, column in columns.items()}}
