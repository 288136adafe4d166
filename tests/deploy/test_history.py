"""The deployment's checkpoint: what is saved comes back, and saving a round does not write the earlier ones again."""

import math
from pathlib import Path

import numpy as np
import pytest

import paota
from paota.deploy.history import Checkpoint, CheckpointFolder, History, PlayedRound
from paota.deploy.roster import Incident
from paota.timing.timeline import Trainings


def played(number: int, ready: int) -> PlayedRound:
    devices = np.arange(ready)
    who = Trainings(devices, devices * 0 + number, devices + 7, devices * 0.5, devices + 8.0 * number)
    return PlayedRound(
        time_s=8.0 * number, trainings=who, evaluation=(math.nan, math.nan, 0.5), noise_std=1e-3,
        per_device=np.full((4, ready), 0.1 * number),
    )  # fmt: skip


def checkpoint(history: History) -> Checkpoint:
    return Checkpoint(
        label="paota", history=history, model=np.arange(5.0), previous_model=np.ones(5), state=[np.zeros((2, 3))],
        trainings=[3, 4], incidents=[Incident(device=1, kind="late", detail="asked in round 1", first_s=8.0)],
        in_flight=2, compute_s=1.5,
    )  # fmt: skip


def stamps(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_ino for file in path.glob("round-*")}  # a file that is replaced is another one


def same(one: History, other: History) -> None:
    assert len(one) == len(other)
    for mine, theirs in zip(one.rounds, other.rounds, strict=True):
        for name, array in mine.arrays().items():
            np.testing.assert_array_equal(array, theirs.arrays()[name], err_msg=name)
            assert array.dtype == theirs.arrays()[name].dtype


def test_a_round_is_written_once_and_once_more_when_it_is_judged(tmp_path: Path) -> None:
    folder, history = CheckpointFolder(tmp_path / "c"), History(initial=(0.1, 2.3, 2.3))
    folder.save(checkpoint(history))
    assert stamps(folder.path) == {}
    for number in range(1, 6):
        history.rounds.append(played(number, ready=number % 3))  # no device was ready in round 3
        folder.save(checkpoint(history))
        before = stamps(folder.path)
        folder.save(checkpoint(history))
        assert stamps(folder.path) == before  # nothing new
        history.rounds[-1].evaluation = (0.5, 1.0, 0.5)
        folder.save(checkpoint(history))
        changed = {name for name, stamp in stamps(folder.path).items() if stamp != before[name]}
        assert changed == {f"round-{number:06d}.npz"}
    state_bytes = (folder.path / "state.npz").stat().st_size
    history.rounds.append(played(6, ready=50))
    folder.save(checkpoint(history))
    assert abs((folder.path / "state.npz").stat().st_size - state_bytes) < 64  # does not grow with the history


def test_what_is_saved_comes_back_and_goes_on(tmp_path: Path) -> None:
    folder, history = CheckpointFolder(tmp_path / "c"), History(initial=(0.1, 2.3, math.nan))
    assert folder.load() is None
    for number in range(1, 4):
        history.rounds.append(played(number, ready=2))
    folder.save(checkpoint(history))
    (folder.path / "round-000004.npz").write_bytes(b"the server died between a round and its state")

    again = CheckpointFolder(folder.path)
    back = again.load()
    same(back.history, history)
    np.testing.assert_array_equal(back.history.initial, history.initial)
    assert (back.trainings, back.in_flight, back.compute_s, back.finished) == ([3, 4], 2, 1.5, False)
    assert back.incidents == checkpoint(history).incidents
    np.testing.assert_array_equal(back.state[0], np.zeros((2, 3)))
    before = stamps(again.path)
    back.history.rounds.append(played(4, ready=1))
    again.save(checkpoint(back.history))
    assert {name for name, stamp in stamps(again.path).items() if before[name] != stamp} == {"round-000004.npz"}
    same(CheckpointFolder(folder.path).load().history, back.history)


@pytest.mark.parametrize(
    ("name", "kept"), [("state.npz", slice(-30)), ("round-000002.npz", slice(-30)), ("round-000002.npz", None)]
)
def test_damage_is_one_sentence_with_the_file(tmp_path: Path, name: str, kept: slice | None) -> None:
    folder, history = CheckpointFolder(tmp_path / "c"), History()
    for number in range(1, 4):
        history.rounds.append(played(number, ready=2))
    folder.save(checkpoint(history))
    file = folder.path / name
    if kept is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[kept])
    with pytest.raises(paota.UserError, match=name):
        CheckpointFolder(folder.path).load()
