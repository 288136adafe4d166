"""What has happened so far: the events of a deployment in the simulator's own terms, and their checkpoint."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import PER_DEVICE, Log, RoundOutcome
from ..experiment.experiment import AlgorithmConfig
from ..results import checkpoint as codec
from ..results.result import Trajectory
from ..simulate import PreparedRun
from ..simulate.records import trajectory_of
from ..timing.timeline import COLUMNS, Timeline, Trainings
from .answers import Arrival
from .roster import Incident

STATE = "state.npz"


@dataclass
class History:
    """One entry an aggregation."""

    initial: tuple[float, float, float] = (math.nan,) * 3  # judgement of version 0
    time_s: list[float] = field(default_factory=list)
    participants: list[Trainings] = field(default_factory=list)
    evaluations: list[tuple[float, float, float]] = field(default_factory=list)  # accuracy, loss, F; NaN: not looked at
    noise_std: list[float] = field(default_factory=list)
    per_device: list[NDArray[Any]] = field(default_factory=list)  # [columns, n]: PER_DEVICE
    diverged_round: int | None = None
    stopped_round: int | None = None  # by `evaluation.stop_at` or `patience`

    def __len__(self) -> int:
        return len(self.time_s)

    def append(self, time_s: float, arrivals: Sequence[Arrival], outcome: RoundOutcome) -> None:
        flights = [arrival.flight for arrival in arrivals]
        self.time_s.append(time_s)
        self.participants.append(
            Trainings(
                np.array([f.device for f in flights], np.int64),
                np.array([f.version for f in flights], np.int64),
                np.array([f.training for f in flights], np.int64),
                np.array([f.start_s for f in flights]),
                np.array([a.finish_s for a in arrivals]),
            )
        )
        self.evaluations.append((math.nan,) * 3)
        self.noise_std.append(float(outcome.noise_std))
        self.per_device.append(np.array([getattr(outcome, name) for name in PER_DEVICE], float))
        if not np.isfinite(outcome.model).all():
            self.diverged_round = len(self)

    def event(self, index: int) -> dict[str, NDArray[Any]]:
        """One aggregation as arrays: `add` takes them back."""
        scalars = {"time_s": self.time_s[index], "judged": self.evaluations[index], "noise_std": self.noise_std[index]}
        arrays = {name: np.array(value, float) for name, value in scalars.items()}
        return {
            **arrays,
            "per_device": self.per_device[index],
            **{name: getattr(self.participants[index], name) for name in COLUMNS},
        }

    def add(self, event: Mapping[str, NDArray[Any]]) -> None:
        self.time_s.append(float(event["time_s"]))
        self.evaluations.append(tuple(event["judged"].tolist()))
        self.noise_std.append(float(event["noise_std"]))
        self.per_device.append(event["per_device"])
        self.participants.append(Trainings._make([*(event[name] for name in COLUMNS), 0]))

    def timeline(self) -> Timeline:
        return Timeline.build(zip(self.time_s, self.participants, strict=True))

    def trajectory(
        self, prepared: PreparedRun, entry: AlgorithmConfig, seed: int, model: NDArray[Any], compute_s: float
    ) -> Trajectory:
        """The same columns as the simulator's, made by the simulator's functions."""
        return trajectory_of(
            prepared, entry, seed, self.timeline(), self._log(), self.initial,
            model=model, diverged_round=self.diverged_round, compute_s=compute_s, stopped_round=self.stopped_round,
            # Real devices were as long at work as they were; what the simulator imagines beside that is not theirs.
            costs=replace(prepared.costs[entry.label, seed], attendance=None, downloads=None, block_s=0.0),
        )  # fmt: skip

    def _log(self) -> Log:
        width = max(1, *(block.shape[1] for block in self.per_device), 1)
        padded = np.full((len(PER_DEVICE), len(self), width), np.nan)
        for event, block in enumerate(self.per_device):
            padded[:, event, : block.shape[1]] = block
        accuracy, loss, train_loss = np.array(self.evaluations, float).reshape(-1, 3).T
        finite = np.ones(len(self), bool)
        if self.diverged_round is not None:
            finite[self.diverged_round - 1 :] = False
        columns: dict[str, Any] = {
            "test_accuracy": accuracy, "test_loss": loss, "train_loss": train_loss,
            "noise_std": np.array(self.noise_std), "finite": finite,
            "score_by_label": np.full((len(self), 0), np.nan),  # what devices hold stays with them
            **dict(zip(PER_DEVICE, padded, strict=True)),
        }  # fmt: skip
        return Log(**columns)


@dataclass(kw_only=True)
class Checkpoint:
    """Everything that the server needs to go on with the same model version; what was in flight is lost."""

    label: str
    history: History
    model: NDArray[Any]  # w^r, [d]
    previous_model: NDArray[Any]  # w^(r-1), [d]
    state: list[NDArray[Any]]  # leaves of the algorithm's own state
    trainings: list[int]  # begun so far, by device
    incidents: list[Incident]
    in_flight: int  # trainings nobody will wait for after a restart
    lost: int = 0  # trainings lost by restarts so far
    restarts: int = 0
    compute_s: float = 0.0
    finished: bool = False
    lengths: dict[int, float] = field(default_factory=dict)  # of each device's last update
    first_s: dict[int, float] = field(default_factory=dict)  # of each device's first training, in order of arrival


class CheckpointFolder:
    """A checkpoint on disk. Saving costs as much in the last round as in the first.

    `round-000001.npz`, ... hold one aggregation each and are written once (the newest again when it is judged).
    `state.npz` holds the rest; it is written last, and says how many rounds count.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rounds = 0  # written so far
        self._evaluated: tuple[float, ...] = ()  # of the newest of them

    def save(self, checkpoint: Checkpoint) -> None:
        c, h = checkpoint, checkpoint.history
        self.path.mkdir(exist_ok=True)
        newest_changed = self._rounds > 0 and not np.array_equal(
            h.evaluations[self._rounds - 1], self._evaluated, equal_nan=True
        )
        for event in range(self._rounds - newest_changed, len(h)):
            codec.write(self._round(event), {"round": event + 1}, h.event(event))
        self._rounds, self._evaluated = len(h), h.evaluations[-1] if h.evaluations else ()
        facts = {
            "rounds": len(h), "diverged_round": h.diverged_round, "stopped_round": h.stopped_round,
            "label": c.label, "in_flight": c.in_flight,
            "lost": c.lost, "restarts": c.restarts, "compute_s": c.compute_s, "finished": c.finished,
            "incidents": [dataclasses.asdict(incident) for incident in c.incidents],
            "lengths": {str(device): length for device, length in c.lengths.items()},
            "first_s": {str(device): first_s for device, first_s in c.first_s.items()},
        }  # fmt: skip
        arrays = {
            "initial": np.array(h.initial), "model": c.model, "previous_model": c.previous_model,
            "trainings": np.array(c.trainings, np.int64), **{f"state.{i}": leaf for i, leaf in enumerate(c.state)},
        }  # fmt: skip
        codec.write(self.path / STATE, facts, arrays)

    def load(self) -> Checkpoint | None:
        """What was saved, or None if nothing was."""
        if not (self.path / STATE).exists():
            return None
        facts, arrays = codec.read(self.path / STATE)
        try:
            ends = {name: facts.pop(name) for name in ("diverged_round", "stopped_round")}
            history = History(initial=tuple(arrays.pop("initial").tolist()), **ends)
            for event in range(facts.pop("rounds")):
                history.add(codec.read(self._round(event))[1])
            state = codec.numbered(arrays, "state")
            made = Checkpoint(
                history=history, model=arrays["model"], previous_model=arrays["previous_model"], state=state,
                trainings=arrays["trainings"].tolist(),
                lengths={int(device): float(length) for device, length in facts.pop("lengths").items()},
                first_s={int(device): float(first_s) for device, first_s in facts.pop("first_s").items()},
                incidents=[Incident(**i) for i in facts.pop("incidents")],
                **facts,
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise codec.not_ours(self.path / STATE, error) from None
        self._rounds, self._evaluated = len(history), history.evaluations[-1] if history.evaluations else ()
        return made

    def remove(self) -> None:
        shutil.rmtree(self.path)

    def _round(self, event: int) -> Path:
        return self.path / f"round-{event + 1:06d}.npz"
