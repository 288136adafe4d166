"""Pipes, devices, sockets, folders and endless files where a run folder should hold files: no reader waits or fills memory."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.made_results import make_result

import paota
from paota.base import files
from paota.base.errors import UserError
from paota.callbacks.base import Start
from paota.callbacks.stream import CsvStream
from paota.cli import main
from paota.experiment.experiment import Experiment
from paota.pages.page import render
from paota.results.checkpoint import Checkpoints, Saved, fingerprints
from paota.results.folder import begin_folder, read_unfinished
from paota.studies.live.server import LiveServer
from paota.studies.plan import plan as planner
from paota.studies.sweep import sweep as sweep_folder
from paota.studies.sweep.grid import Axis

SMALL = {
    "rounds": 2, "data": {"dataset": "synthetic", "devices": 4, "sizes": [20]}, "model": {"name": "softmax"},
    "training": {"local_steps": 1, "batch_size": 4}, "algorithms": [{"name": "paota"}],
}  # fmt: skip


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(2**40)


KINDS: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "socket": make_socket,
    "folder": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path.name),
    "sparse file": make_sparse,
}


def show(folder: Path) -> None:
    (folder / "sweep.json").unlink()  # else it is shown as one
    with LiveServer(folder) as server:
        page = server.page("")
        assert page is not None
        assert render(page)
        report = server.report()
        assert report is None or report


def report(folder: Path) -> None:
    assert main(["report", str(folder)]) in (0, 2)
    assert main(["report", str(folder), "--unchecked"]) in (0, 2)


READERS: dict[str, Callable[[Path], Any]] = {
    "run.json": report, "metrics.csv": report, "devices.npz": report, "device_scores.npz": report, "models.npz": report,
    "experiment.toml": report, "report.html": report, "live.json": show, "rounds.csv": show,
    "unfinished.json": read_unfinished, "sweep.json": sweep_folder.outline, "plan.json": planner.PLANS.read,
    "checkpoints/0.npz": lambda folder: Checkpoints(folder / "checkpoints", {}).load(0),
    "trace.csv": lambda folder: fingerprints(Experiment.from_dict({"name": str(folder / "trace.csv")})),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that some folder may hold, in one."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    make_result(labels=("paota",), seeds=1, rounds=3, devices=5, own={}).save(folder)
    (folder / "live.json").write_text('{"format": 1, "title": "t", "units": []}')
    (folder / "rounds.csv").write_text("label,algorithm,seed,round,time_s\npaota,paota,0,1,8.0\n")
    (folder / "unfinished.json").write_text('{"seeds": [0]}')
    (folder / "trace.csv").touch()
    experiment = Experiment.from_dict(SMALL)
    spec = sweep_folder.SweepSpec(experiment=experiment, axes=(Axis("seed", (1, 2)),), seeds=1, best="x")
    for made in (
        sweep_folder.SWEEPS.begin(folder / "sweep", spec),
        planner.PLANS.begin(folder / "plan", planner.prepare(experiment, target=0.5)),
    ):
        for file in made.iterdir():
            file.rename(folder / file.name)
        made.rmdir()
    Checkpoints(folder / "checkpoints", {}).save(0, Saved([np.ones(2)], {}, 1, 0.0))
    return folder


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """A signal ends a read that blocks forever, and the system one that fills the memory."""

    def give_up(*_: Any) -> None:
        raise AssertionError("it waits for ever")

    before, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, give_up)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, before[1]))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_reading(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    monkeypatch.chdir(folder)  # the path of a socket must be short
    (folder / name).unlink()
    KINDS[kind](Path(name))
    try:
        READERS[name](folder)
    except UserError as error:
        assert Path(name).name in str(error)


@pytest.mark.parametrize("kind", ["pipe", "endless device"])
@pytest.mark.parametrize("name", ["experiment.toml", "checkpoints/0.npz", "rounds.csv", "live.json"])
def test_going_on(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, kind: str) -> None:
    folder = begin_folder(tmp_path / "run", Experiment.from_dict(SMALL), [0])
    (folder / "checkpoints").mkdir()
    (folder / name).unlink(missing_ok=True)
    KINDS[kind](folder / name)
    told = name in ("rounds.csv", "live.json")  # written, never read
    assert main(["run", "--resume", str(folder), "--quiet"]) == (0 if told else 2)
    assert told or capfd.readouterr().err.count("\n") == 1
    assert not told or paota.load(folder)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """The temporary name beside a file, and the table of a running experiment, may be links to another file."""
    dear = tmp_path / "dear"
    dear.write_text("mine")
    (tmp_path / f".report.html.{os.getpid()}.part").symlink_to(dear)
    (tmp_path / "rounds.csv").symlink_to(dear)
    files.write_text(tmp_path / "report.html", "page")
    stream = CsvStream()
    stream.start(Start(experiment=Experiment.from_dict(SMALL), title="t", units=(), folder=tmp_path))
    stream.end(None)
    assert dear.read_text() == "mine"
    assert (tmp_path / "report.html").read_text() == "page"
