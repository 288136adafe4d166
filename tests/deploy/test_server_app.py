"""Callbacks of a deployment: they get the same rounds as from `paota.run`, and may stop an algorithm."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from helpers.deployment import make_grid, run

import paota

K = 3
TABLE: dict[str, Any] = {
    "name": "told",
    "rounds": 6,
    "data": {"dataset": "synthetic", "devices": K, "sizes": [40]},
    "model": {"name": "softmax"},
    "training": {"local_steps": 1, "batch_size": 8},
    "timing": {"latency": "per-device", "seconds": [5.0, 6.0, 7.0]},
    "evaluation": {"every": 2},
    "algorithms": [{"name": "paota", "payload": "update"}],
}


class Recorder(paota.Callback):
    """Keeps what it is told, and stops in round `last`."""

    def __init__(self, last: int = 100) -> None:
        self.rows: list[paota.Round] = []
        self.hooks: list[str] = []
        self.last = last

    def start(self, run: Any) -> None:
        self.hooks.append(f"start {[unit.label for unit in run.units]}")

    def round(self, round: paota.Round) -> bool:
        self.rows.append(round)
        return round.round == self.last

    def finish(self, trajectory: Any) -> None:
        self.hooks.append(f"finish {trajectory.label}")

    def end(self, result: paota.Result | None) -> None:
        self.hooks.append("end" if result is not None else "failed")


def deployed(folder: Path, recorder: Recorder, **config: Any) -> paota.Result:
    grid = make_grid(folder, TABLE, **config)
    for k in range(K):
        grid.connect(k, K)
    return run(grid, folder, [recorder])


def test_callbacks_are_told_every_round_as_it_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder()
    (t,) = deployed(tmp_path, recorder).trajectories
    assert recorder.hooks == ["start ['paota']", "finish paota", "end"]
    assert [row.round for row in recorder.rows] == list(range(7))
    for name in t.metrics:
        np.testing.assert_array_equal([row.metrics[name] for row in recorder.rows], t.metrics[name], err_msg=name)
    assert [math.isnan(row.test_accuracy) for row in recorder.rows] == [False, True] * 3 + [False]
    assert [row.devices["device"].tolist() for row in recorder.rows[1:]] == [list(range(K))] * 6


def test_a_callback_stops_an_algorithm_and_a_failing_one_leaves_a_checkpoint(tmp_path: Path) -> None:
    (t,) = deployed(tmp_path, Recorder(last=3)).trajectories
    assert (t.stopped_round, t.metrics["round"].tolist()) == (3, [0, 1, 2, 3])

    class Failing(Recorder):
        def round(self, round: paota.Round) -> bool:
            if round.round == 4:
                raise RuntimeError("torn")
            return super().round(round)

    folder = tmp_path / "again"
    folder.mkdir()
    failing, recorder = Failing(), Recorder()
    with pytest.raises(paota.CallbackError, match="Failing failed in round: RuntimeError: torn"):
        deployed(folder, failing)
    assert failing.hooks[-1] == "failed"
    resumed = deployed(folder, recorder, resume=True)
    assert [row.round for row in recorder.rows] == list(range(7))  # from the first one on
    assert resumed.metrics["round"].tolist() == list(range(7))
