"""The protocol of the peers: JSON lines, so that a runner can let them work in turn. It needs only NumPy.

The runner starts a peer once and writes the size of a block (`20`) to its standard input; the peer computes that many
rounds and answers `{"rounds": 20, "ms_per_round": 17.3, "processor_ms_per_round": 30.1, "accuracy": 0.81}`. Between
blocks it waits, so that the peers never compute at the same time. Processor time is that of the peer's own process.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

LEARNT_AFTER = 50  # rounds; the accuracy that shows that a peer learns


@dataclass(frozen=True)
class Work:
    """The same for all: what each device holds, and who takes part in which round."""

    x: np.ndarray  # float32 [N, 784], in [0, 1]
    y: np.ndarray  # int64 [N]
    x_test: np.ndarray
    y_test: np.ndarray
    indices: list[np.ndarray]  # of each device, into x
    participants: np.ndarray  # [rounds, 59]
    steps: int = 5
    batch: int = 32
    learning_rate: float = 0.1
    widths: tuple[int, ...] = (784, 10, 10, 10)

    @property
    def devices(self) -> int:
        return len(self.indices)

    @property
    def per_round(self) -> int:
        return int(self.participants.shape[1])

    def shard(self, device: int) -> tuple[np.ndarray, np.ndarray]:
        return self.x[self.indices[device]], self.y[self.indices[device]]


def load_work(path: str | Path | None = None) -> Work:
    """The workload that `workload.py` wrote, by default the one named on the command line."""
    with np.load(path or sys.argv[1]) as file:
        return Work(
            x=file["x_train"].reshape(len(file["x_train"]), -1).astype(np.float32) / 255,
            y=file["y_train"].astype(np.int64),
            x_test=file["x_test"].reshape(len(file["x_test"]), -1).astype(np.float32) / 255,
            y_test=file["y_test"].astype(np.int64),
            indices=np.split(file["indices"], file["offsets"][1:-1]),
            participants=file["participants"],
        )


def draw_batches(rng: np.random.Generator, work: Work, devices: np.ndarray) -> np.ndarray:
    """Samples of every step of these devices, as indices into `x`: [devices, steps, batch]."""
    shape = (work.steps, work.batch)
    return np.stack([work.indices[k][rng.integers(len(work.indices[k]), size=shape)] for k in devices])


def he_normal(widths: tuple[int, ...], seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """(weight [out, in], bias [out]) of each layer."""
    rng = np.random.default_rng(seed)
    layers = []
    for fan_in, fan_out in itertools.pairwise(widths):
        weight = rng.normal(0, np.sqrt(2 / fan_in), (fan_out, fan_in)).astype(np.float32)
        layers.append((weight, np.zeros(fan_out, np.float32)))
    return layers


class Pacer:
    """Makes a peer work block by block; a framework that owns its loop calls `round_done` from inside it."""

    def __init__(self) -> None:
        # Frameworks print what they like: the real standard output is ours alone.
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.round = 0
        self._size = self._left = 0
        self._began = self._processor_began = 0.0

    def ready(self, *packages: str, **settings: object) -> None:
        """Everything is loaded; say what runs here, and wait for the first block."""
        self._say({"ready": True, "versions": {name: version(name) for name in packages}, "settings": settings})
        self._wait()

    def round_done(self, accuracy: float, rounds: int = 1) -> None:
        self.round += rounds
        self._left -= rounds
        if self.round == LEARNT_AFTER:
            self._say({"learnt": float(accuracy)})
        if self._left <= 0:
            done = self._size - self._left  # more than asked for, where several rounds are one call
            ms = 1e3 * (time.perf_counter() - self._began) / done
            processor_ms = 1e3 * (time.process_time() - self._processor_began) / done
            answer = {"rounds": done, "ms_per_round": ms, "processor_ms_per_round": processor_ms}
            self._say({**answer, "accuracy": float(accuracy)})
            self._wait()

    def _wait(self) -> None:
        line = sys.stdin.readline().strip()
        if not line:
            self._out.flush()
            os._exit(0)  # the runner is done; frameworks with processes of their own might linger otherwise
        self._size = self._left = int(line)
        self._began, self._processor_began = time.perf_counter(), time.process_time()

    def _say(self, message: dict[str, object]) -> None:
        print(json.dumps(message), file=self._out, flush=True)
