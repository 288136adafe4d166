"""Run folders and checkpoints with any damage: they are read, or refused in a sentence, and never ask for much memory."""

from __future__ import annotations

import contextlib
import io
import json
import random
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.live_state import STATE
from helpers.made_results import make_result

from paota.base import files
from paota.base.errors import UserError
from paota.deploy.history import CheckpointFolder
from paota.experiment.experiment import Experiment
from paota.pages.page import render_news
from paota.results.checkpoint import Checkpoints, Saved
from paota.results.folder import load, read_unfinished
from paota.studies.live.follow import Follower
from paota.studies.live.page import run_page
from paota.studies.plan import plan as planner
from paota.studies.report.report import render
from paota.studies.reproduce import archive
from paota.studies.sweep import sweep as sweep_folder

QUICK, LONG = 60, 10_000
COUNTS = [pytest.param(QUICK), pytest.param(LONG, marks=pytest.mark.slow)]
NASTY = [b"\x00", b"\xff" * 8, b"PK\x03\x04", b"9" * 400, b"-", b"nan", b"inf", b"1e999", b"[" * 300, b'"', b",", b"\n"]
EVIDENCE = {
    "optimum": 3, "targets": 2, **{f"quiet/paota/{name}": (3, 5) for name in archive.ARRAYS[:3]},
    "quiet/paota/diverged": 3, "quiet/paota/radiated": 2, "noise/cotaf/levels_dbm": 4, "noise/cotaf/accuracy": (4, 3),
}  # fmt: skip
WORDS = [None, -1, 2**40, 2**70, 1e308, "x", "\x1b[31m", [], {}, True, [[1]], "9" * 5000]


def look(folder: Path) -> None:
    assert render_news(run_page(Follower(folder).look()))


def spoilt(content: bytes, rng: random.Random) -> bytes:
    """Return the content with bytes replaced, inserted, cut or repeated at random places."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(content) + 1)
        value = rng.choice([rng.randbytes(rng.randint(1, 6)), rng.choice(NASTY)])
        how = rng.randrange(5)
        rest = content[at + (len(value) if how in (0, 2) else 0) :]
        content = content[:at] + (b"" if how == 2 else b"" if how == 4 else value) + (b"" if how == 4 else rest)
    return content


def bent(value: object, rng: random.Random) -> object:
    """JSON with something else somewhere, or without it."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: bent(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        i = rng.randrange(len(value))
        return [*value[:i], *([] if rng.random() < 0.1 else [bent(value[i], rng)]), *value[i + 1 :]]
    return rng.choice(WORDS)


def twisted(columns: dict[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    """Arrays of other types, shapes and values, or missing, under sound checksums of the archive."""
    name = rng.choice(list(columns))
    array = columns[name]
    changes = [
        lambda: array[: len(array) // 2], lambda: array.astype(np.float64) * np.nan, lambda: array[None],
        lambda: np.nan_to_num(array).astype(np.int64) + 2**40, lambda: 0 - array.astype(float),
        lambda: array.astype("S3"), lambda: np.array(7),
        lambda: np.array([], array.dtype), lambda: array.astype(np.complex64), lambda: array[::-1],
    ]  # fmt: skip
    if rng.random() < 0.15:
        return {key: value for key, value in columns.items() if key != name}
    return {**columns, name: rng.choice(changes)()}


def damaged(file: Path, rng: random.Random) -> None:
    if file.suffix == ".json" and rng.random() < 0.6:
        file.write_text(json.dumps(bent(json.loads(file.read_text()), rng)))
    elif file.suffix == ".npz" and rng.random() < 0.6:
        whole = io.BytesIO()  # without the care of `write_npz`, which waits for the disk
        np.savez(whole, **twisted(files.read_npz(file), rng))
        file.write_bytes(whole.getbuffer())
    elif rng.random() < 0.03:
        file.unlink()
    else:
        file.write_bytes(spoilt(file.read_bytes(), rng))


@pytest.fixture(autouse=True)
def little_memory():
    """Beyond what is in use now: an array that a lying file asks for is refused by the system."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("count", COUNTS)
def test_run_folders(tmp_path, count):
    whole, folder, rng = tmp_path / "whole", tmp_path / "damaged", random.Random(1)
    make_result(labels=("paota", "local-sgd"), seeds=2, rounds=4, devices=5, own={}).save(whole)
    names = ("run.json", "metrics.csv", "devices.npz", "device_scores.npz", "models.npz", "experiment.toml")
    read = 0
    shutil.copytree(whole, folder)
    for _ in range(count):
        name = rng.choice(names)
        damaged(folder / name, rng)
        for check in (False, True)[: 1 + (rng.random() < 0.1)]:  # checksums find the damage at once
            try:
                result = load(folder, check=check)
                assert result.summary["algorithms"]
                for label in result.labels:
                    result.by_device(label)
                assert render([result])
                read += not check
            except UserError as error:
                assert "damaged" in str(error)
        shutil.copy(whole / name, folder / name)
    assert 0 < read < count


@pytest.mark.parametrize("count", COUNTS)
def test_checkpoints(tmp_path, count):
    rng = random.Random(2)
    checkpoints = Checkpoints(tmp_path / "c", {"paota": "1", "experiment": {"timing": {"period_s": 8.0}}})
    checkpoints.save(0, Saved([np.arange(6.0)], {"finite": np.ones(3, bool)}, 3, 1.5))
    file = checkpoints.folder / "0.npz"
    whole = file.read_bytes()
    for _ in range(count):
        damaged(file, rng)
        try:
            back = checkpoints.load(0)
            assert back is None or (back.done, back.state[0].tolist()) == (3, list(range(6)))
        except UserError as error:
            assert "0.npz" in str(error)
        file.write_bytes(whole)


@pytest.mark.parametrize("count", COUNTS)
def test_what_says_how_to_go_on(tmp_path, count):
    """`unfinished.json`, `sweep.json`, `plan.json`, the live page's tables, a deployment's state, a reproduction's evidence."""
    rng = random.Random(3)
    (tmp_path / "unfinished.json").write_text('{"seeds": [1, 2, 3]}')
    sweep = {"format": 1, "axes": ["timing.period_s"], "over": {"timing.period_s": [4, 8]}, "seeds": 1, "best": "x"}
    (tmp_path / "sweep.json").write_text(json.dumps({**sweep, "equal": "time", "experiment": {"rounds": 3}}))
    plan = planner.prepare(Experiment.from_dict({"rounds": 3, "algorithms": [{"name": "paota"}]}), target=0.5)
    (tmp_path / "plan.json").write_text(json.dumps({**plan.identity(), "contents": {}}))
    files.write_npz(tmp_path / "evidence.npz", {name: np.ones(shape) for name, shape in EVIDENCE.items()})
    (tmp_path / "live.json").write_text(json.dumps(STATE))
    (tmp_path / "rounds.csv").write_text("label,algorithm,seed,round,time_s\npaota,paota,0,1,8.0\n")
    files.write_npz(tmp_path / "state.npz", {"model": np.zeros(3), "trainings": np.zeros(2, int)})
    readers = {
        "unfinished.json": lambda: read_unfinished(tmp_path), "sweep.json": lambda: sweep_folder.SWEEPS.read(tmp_path),
        "live.json": lambda: look(tmp_path), "rounds.csv": lambda: look(tmp_path),
        "state.npz": lambda: CheckpointFolder(tmp_path).load(), "plan.json": lambda: planner.PLANS.read(tmp_path),
        "evidence.npz": lambda: archive.read(tmp_path / "evidence.npz"),
    }  # fmt: skip
    for _ in range(count):
        name = rng.choice(list(readers))
        whole = (tmp_path / name).read_bytes()
        damaged(tmp_path / name, rng)
        with contextlib.suppress(UserError):
            readers[name]()
        (tmp_path / name).write_bytes(whole)
