"""The rounds of a deployment so far, in the simulator's terms, and their checkpoint."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..engine import PER_DEVICE, Log, RoundOutcome
from ..results import checkpoint as codec
from ..timing.timeline import COLUMNS, Timeline, Trainings
from .answers import Arrival, trainings_of
from .roster import Incident

STATE = "state.npz"
COLUMNS_OF_DEVICES = (*PER_DEVICE, "left_out")
NOT_EVALUATED = (math.nan, math.nan, math.nan)

Evaluation = tuple[float, float, float]  # accuracy, loss, F(w); NaN where the model was not evaluated


@dataclass(kw_only=True)
class PlayedRound:
    """One aggregation: when, of which trainings, and its outcome."""

    time_s: float
    trainings: Trainings
    evaluation: Evaluation
    noise_std: float
    per_device: Float[np.ndarray, "columns n"]  # COLUMNS_OF_DEVICES, without the last one if all parameters are sent

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the round as arrays for a file; `of` takes them back."""
        return {
            "time_s": np.array(self.time_s, float), "judged": np.array(self.evaluation, float),
            "noise_std": np.array(self.noise_std, float), "per_device": self.per_device,
            **{name: getattr(self.trainings, name) for name in COLUMNS},
        }  # fmt: skip

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> PlayedRound:
        return cls(
            time_s=float(arrays["time_s"]), evaluation=tuple(arrays["judged"].tolist()),
            noise_std=float(arrays["noise_std"]), per_device=arrays["per_device"],
            trainings=Trainings._make([*(arrays[name] for name in COLUMNS), 0]),
        )  # fmt: skip


@dataclass
class History:
    """All rounds, and how the run ended."""

    initial: Evaluation = NOT_EVALUATED  # of version 0
    rounds: list[PlayedRound] = field(default_factory=list)
    diverged_round: int | None = None
    stopped_round: int | None = None  # by `evaluation.stop_at`, `evaluation.patience` or a callback

    def __len__(self) -> int:
        return len(self.rounds)

    def append(self, time_s: float, arrivals: Sequence[Arrival], outcome: RoundOutcome, train_loss: float) -> None:
        """Add the round that has turned `arrivals` into `outcome`."""
        self.rounds.append(
            PlayedRound(
                time_s=time_s, evaluation=(math.nan, math.nan, train_loss), noise_std=float(outcome.noise_std),
                trainings=trainings_of([a.flight for a in arrivals], [a.finish_s for a in arrivals]),
                per_device=np.array([column for name in COLUMNS_OF_DEVICES if (column := getattr(outcome, name)) is not None]),
            )
        )  # fmt: skip
        if not np.isfinite(outcome.model).all():
            self.diverged_round = len(self)

    def timeline(self, first: int = 0) -> Timeline:
        """Return the rounds after the first `first` as the events of a timeline."""
        events = ((played.time_s, played.trainings) for played in self.rounds[first:])
        return dataclasses.replace(Timeline.build(events), first=first)

    def log(self, first: int = 0) -> Log:
        """Return the same rounds as the engine would log them."""
        played = self.rounds[first:]
        width = max([1, *(one.per_device.shape[1] for one in played)])
        rows = max([len(PER_DEVICE), *(len(one.per_device) for one in played)])
        padded = np.full((rows, len(played), width), np.nan)
        for event, one in enumerate(played):
            padded[: len(one.per_device), event, : one.per_device.shape[1]] = one.per_device
        accuracy, loss, train_loss = np.array([one.evaluation for one in played], float).reshape(-1, 3).T
        finite = np.arange(first, len(self)) < (len(self) if self.diverged_round is None else self.diverged_round - 1)
        return Log(  # on the host a log holds NumPy arrays
            accuracy, loss, train_loss, np.array([one.noise_std for one in played]), finite,  # type: ignore[arg-type]
            np.full((len(played), 0), np.nan),  # type: ignore[arg-type]  # devices keep their scores to themselves
            **dict(zip(COLUMNS_OF_DEVICES, padded, strict=False)),
        )  # fmt: skip


@dataclass(kw_only=True)
class Checkpoint:
    """Everything the server needs to resume from the newest model. Trainings that were in flight are lost."""

    label: str
    history: History
    model: Float[np.ndarray, " d"]  # w^r
    previous_model: Float[np.ndarray, " d"]  # w^(r-1)
    state: list[np.ndarray]  # leaves of the algorithm's own state
    trainings: list[int]  # begun so far, by device
    incidents: list[Incident]
    in_flight: int  # trainings that a restart loses
    lost: int = 0  # trainings lost by restarts so far
    restarts: int = 0
    compute_s: float = 0.0
    finished: bool = False
    lengths: dict[int, float] = field(default_factory=dict)  # of each device's last update
    first_s: dict[int, float] = field(default_factory=dict)  # of each device's first training, in order of arrival


class CheckpointFolder:
    """A checkpoint on disk. Saving costs as much in the last round as in the first.

    `round-000001.npz`, ... hold one aggregation each and are written once (the newest again after its evaluation).
    `state.npz` holds the rest. It is written last, and says how many rounds count.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rounds = 0  # written so far
        self._evaluated = NOT_EVALUATED  # of the newest of them

    def save(self, checkpoint: Checkpoint) -> None:
        """Write what has changed since the last call."""
        c, rounds = checkpoint, checkpoint.history.rounds
        self.path.mkdir(exist_ok=True)
        newest_changed = self._rounds > 0 and not np.array_equal(
            rounds[self._rounds - 1].evaluation, self._evaluated, equal_nan=True
        )
        for event in range(self._rounds - newest_changed, len(rounds)):
            codec.write(self._round(event), {"round": event + 1}, rounds[event].arrays())
        self._wrote(rounds)
        facts = {
            "rounds": len(rounds), "diverged_round": c.history.diverged_round, "stopped_round": c.history.stopped_round,
            "incidents": [dataclasses.asdict(incident) for incident in c.incidents],
            **{name: {str(k): value for k, value in getattr(c, name).items()} for name in ("lengths", "first_s")},
            **{name: getattr(c, name) for name in ("label", "in_flight", "lost", "restarts", "compute_s", "finished")},
        }  # fmt: skip
        arrays = {
            "initial": np.array(c.history.initial), "model": c.model, "previous_model": c.previous_model,
            "trainings": np.array(c.trainings, np.int64), **{f"state.{i}": leaf for i, leaf in enumerate(c.state)},
        }  # fmt: skip
        codec.write(self.path / STATE, facts, arrays)

    def load(self) -> Checkpoint | None:
        """Return what was saved, None if there is nothing."""
        if not (self.path / STATE).exists():
            return None
        facts, arrays = codec.read(self.path / STATE)
        try:
            rounds = [PlayedRound.of(codec.read(self._round(event))[1]) for event in range(facts.pop("rounds"))]
            ends = {name: facts.pop(name) for name in ("diverged_round", "stopped_round")}
            for name in ("lengths", "first_s"):
                facts[name] = {int(device): float(value) for device, value in facts[name].items()}
            made = Checkpoint(
                history=History(tuple(arrays.pop("initial").tolist()), rounds, **ends),
                model=arrays["model"], previous_model=arrays["previous_model"], state=codec.numbered(arrays, "state"),
                trainings=arrays["trainings"].tolist(), incidents=[Incident(**i) for i in facts.pop("incidents")],
                **facts,
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise codec.not_ours(self.path / STATE, error) from None
        self._wrote(rounds)
        return made

    def remove(self) -> None:
        """Delete the checkpoint."""
        shutil.rmtree(self.path)

    def _wrote(self, rounds: Sequence[PlayedRound]) -> None:
        self._rounds, self._evaluated = len(rounds), rounds[-1].evaluation if rounds else NOT_EVALUATED

    def _round(self, event: int) -> Path:
        return self.path / f"round-{event + 1:06d}.npz"
