"""What has happened so far: the events of a deployment in the simulator's own terms, and their checkpoint."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import Log
from ..errors import UserError
from ..experiment import Contestant
from ..runs import files
from ..runs.results import Trajectory
from ..simulate import Plan
from ..simulate.records import trajectory_of
from ..timing.timeline import Participants, Timeline
from .aggregation import Concluded
from .answers import Arrival
from .roster import Incident

TIMELINE = ("time_s", "offsets", "device", "version", "training", "start_s", "finish_s")
PER_DEVICE = ("weight", "amplitude", "similarity", "transmit_power_w")


@dataclass
class History:
    """One entry an aggregation."""

    initial: tuple[float, float, float] = (math.nan,) * 3  # judgement of version 0
    time_s: list[float] = field(default_factory=list)
    participants: list[Participants] = field(default_factory=list)
    judged: list[tuple[float, float, float]] = field(default_factory=list)  # accuracy, loss, F; NaN: not looked at
    noise_std: list[float] = field(default_factory=list)
    per_device: list[NDArray[Any]] = field(default_factory=list)  # [4, n]: PER_DEVICE
    diverged_round: int | None = None

    def __len__(self) -> int:
        return len(self.time_s)

    def append(self, time_s: float, arrivals: Sequence[Arrival], concluded: Concluded) -> None:
        flights = [arrival.flight for arrival in arrivals]
        self.time_s.append(time_s)
        self.participants.append(
            Participants(
                np.array([f.device for f in flights], np.int64),
                np.array([f.version for f in flights], np.int64),
                np.array([f.training for f in flights], np.int64),
                np.array([f.start_s for f in flights]),
                np.array([a.finish_s for a in arrivals]),
            )
        )
        self.judged.append((math.nan,) * 3)
        self.noise_std.append(concluded.noise_std)
        self.per_device.append(np.array([getattr(concluded, name) for name in PER_DEVICE], float))
        if not np.isfinite(concluded.model).all():
            self.diverged_round = len(self)

    def timeline(self) -> Timeline:
        return Timeline.build(zip(self.time_s, self.participants, strict=True))

    def trajectory(
        self, plan: Plan, contestant: Contestant, seed: int, model: NDArray[Any], compute_s: float
    ) -> Trajectory:
        """The same columns as the simulator's, made by the simulator's functions."""
        return trajectory_of(
            plan, contestant, seed, self.timeline(), self._log(), self.initial,
            model=model, diverged_round=self.diverged_round, compute_s=compute_s,
        )  # fmt: skip

    def _log(self) -> Log:
        width = max(1, *(block.shape[1] for block in self.per_device), 1)
        padded = np.full((len(PER_DEVICE), len(self), width), np.nan)
        for event, block in enumerate(self.per_device):
            padded[:, event, : block.shape[1]] = block
        accuracy, loss, train_loss = np.array(self.judged, float).reshape(-1, 3).T
        finite = np.ones(len(self), bool)
        if self.diverged_round is not None:
            finite[self.diverged_round - 1 :] = False
        columns: dict[str, Any] = {
            "test_accuracy": accuracy, "test_loss": loss, "train_loss": train_loss,
            "noise_std": np.array(self.noise_std), "finite": finite, **dict(zip(PER_DEVICE, padded, strict=True)),
        }  # fmt: skip
        return Log(**columns)


@dataclass(kw_only=True)
class Checkpoint:
    """Everything that the server needs to go on with the same model version; what was in flight is lost."""

    label: str
    history: History
    model: NDArray[Any]  # w^r
    previous_model: NDArray[Any]  # w^(r-1)
    state: list[NDArray[Any]]  # leaves of the algorithm's own state
    trainings: list[int]
    incidents: list[Incident]
    in_flight: int  # trainings nobody will wait for after a restart
    lost: int = 0  # trainings lost by restarts so far
    restarts: int = 0
    compute_s: float = 0.0
    finished: bool = False

    def save(self, path: Path) -> None:
        h = self.history
        timeline = h.timeline()
        facts = {
            "label": self.label, "in_flight": self.in_flight, "lost": self.lost, "restarts": self.restarts,
            "finished": self.finished, "diverged_round": h.diverged_round, "compute_s": self.compute_s,
            "incidents": [dataclasses.asdict(i) for i in self.incidents], "state": len(self.state),
        }  # fmt: skip
        arrays = {
            "facts": np.frombuffer(json.dumps(facts).encode(), np.uint8),
            "model": self.model, "previous_model": self.previous_model, "trainings": np.array(self.trainings, np.int64),
            "initial": np.array(h.initial), "judged": np.array(h.judged, float).reshape(-1, 3),
            "noise_std": np.array(h.noise_std, float),
            "per_device": np.concatenate([*h.per_device, np.zeros((len(PER_DEVICE), 0))], axis=1),
            **{f"timeline.{name}": getattr(timeline, name) for name in TIMELINE},
            **{f"state.{i}": leaf for i, leaf in enumerate(self.state)},
        }  # fmt: skip
        files.write_npz(path, arrays)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        arrays = files.read_npz(path)
        try:
            facts = json.loads(arrays["facts"].tobytes())
            t = Timeline(**{name: arrays[f"timeline.{name}"] for name in TIMELINE})
            slices = [slice(a, b) for a, b in zip(t.offsets[:-1], t.offsets[1:], strict=True)]
            history = History(
                initial=tuple(arrays["initial"].tolist()),
                time_s=t.time_s.tolist(),
                participants=[
                    Participants(t.device[s], t.version[s], t.training[s], t.start_s[s], t.finish_s[s]) for s in slices
                ],
                judged=[tuple(row) for row in arrays["judged"].tolist()],
                noise_std=arrays["noise_std"].tolist(),
                per_device=[arrays["per_device"][:, s] for s in slices],
                diverged_round=facts["diverged_round"],
            )
            return cls(
                label=facts["label"], history=history, model=arrays["model"], previous_model=arrays["previous_model"],
                state=[arrays[f"state.{i}"] for i in range(facts["state"])], trainings=arrays["trainings"].tolist(),
                incidents=[Incident(**i) for i in facts["incidents"]], in_flight=facts["in_flight"],
                lost=facts["lost"], restarts=facts["restarts"], compute_s=facts["compute_s"],
                finished=facts["finished"],
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise UserError(f"'{path}' is not a checkpoint of this version of paota ({error!r})") from None
