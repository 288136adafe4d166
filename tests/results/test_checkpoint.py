"""A run that is killed at any moment and then resumed ends with the same bytes as an uninterrupted one."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import paota
from paota import simulate
from paota.base import files
from paota.base.errors import Interrupted, UserError
from paota.cli import main
from paota.experiment.experiment import Experiment
from paota.results import checkpoint
from paota.results.checkpoint import Checkpoints, Saved, differences
from paota.studies.sweep import sweep as sweep_folder
from paota.studies.sweep import sweep as sweeps
from paota.studies.sweep.grid import Axis

TABLE = {
    "rounds": 24,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "timing": {"period_s": 6.0},  # stalenesses up to 2: the ring buffer matters
    "algorithms": [{"name": "paota"}, {"name": "local-sgd"}],
}


def plan():
    return simulate.prepare(Experiment.from_dict(TABLE), seeds=2)


def outcome(result):
    return [
        (t.label, t.seed, t.model.tobytes(), {k: v.tobytes() for k, v in t.metrics.items()})
        for t in result.trajectories
    ]


@pytest.fixture(scope="module")
def uninterrupted():
    return outcome(simulate.execute(plan(), events_per_call=4))


class OneCall(Checkpoints):
    """Save after every engine call; the first save requests `stop`."""

    def due(self, unit):
        return True

    def save(self, unit, saved):
        super().save(unit, saved)
        self.called = True

    def stop(self):
        return getattr(self, "called", False)


def test_interrupted_and_resumed_after_every_call(tmp_path, uninterrupted):
    """The hardest case: every unit that runs gets one engine call further each time."""
    prepared = plan()
    calls = 0
    while True:
        checkpoints = OneCall(tmp_path / "c", simulate.identity(prepared))
        try:
            result = simulate.execute(prepared, events_per_call=4, checkpoints=checkpoints, stop=checkpoints.stop)
            break
        except Interrupted:
            calls += 1
    assert 0 < calls <= 4 * 6
    assert outcome(result) == uninterrupted


def test_the_cut_may_fall_anywhere(tmp_path, uninterrupted):
    """Different chunk sizes before and after the cut."""
    prepared = plan()
    checkpoints = OneCall(tmp_path / "c", simulate.identity(prepared))
    with pytest.raises(Interrupted):
        simulate.execute(prepared, events_per_call=7, checkpoints=checkpoints, stop=checkpoints.stop)
    assert outcome(simulate.execute(prepared, events_per_call=4, checkpoints=checkpoints)) == uninterrupted


@pytest.fixture
def saved(tmp_path):
    checkpoints = Checkpoints(tmp_path / "c", {"paota": "1", "experiment": {"timing": {"period_s": 8.0}}})
    checkpoints.save(0, Saved([np.arange(6.0)], {"finite": np.ones(3, bool)}, 3, 1.5))
    return checkpoints


def test_what_is_saved_comes_back(saved):
    back = saved.load(0)
    assert back.state[0].tolist() == list(range(6))
    assert (back.done, back.compute_s) == (3, 1.5)
    assert back.log["finite"].all()
    assert saved.load(1) is None


@pytest.mark.parametrize(
    ("identity", "says"),
    [
        ({"paota": "2", "experiment": {"timing": {"period_s": 8.0}}}, "paota was 1 and is 2"),
        ({"paota": "1", "experiment": {"timing": {"period_s": 6.0}}}, "experiment.timing.period_s was 8.0 and is 6.0"),
    ],
)
def test_another_run_is_refused_with_what_differs(saved, identity, says):
    with pytest.raises(UserError, match=says):
        Checkpoints(saved.folder, identity).load(0)


def test_every_damage_is_noticed(saved):
    """Truncated anywhere, or one byte changed anywhere: refused in a sentence, or (in zip padding) harmless."""
    file = saved.folder / "0.npz"
    whole = file.read_bytes()
    reference = saved.load(0)
    rng = random.Random(1)
    for cut in [0, 1, 10, len(whole) // 2, len(whole) - 1]:
        file.write_bytes(whole[:cut])
        with pytest.raises(UserError, match=r"0\.npz"):
            saved.load(0)
    for _ in range(300):
        at = rng.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        try:
            again = saved.load(0)
        except UserError as error:
            assert "0.npz" in str(error)
        else:
            assert again.state[0].tobytes() == reference.state[0].tobytes()
            assert again.done == reference.done
    file.write_bytes(whole)
    file.rename(saved.folder / "1.npz")
    with pytest.raises(UserError, match="another unit"):
        saved.load(1)


def test_a_foreign_file_is_refused(saved):
    np.savez(saved.folder / "0.npz", x=np.arange(3))
    with pytest.raises(UserError, match="not a checkpoint"):
        saved.load(0)


def test_differences():
    assert list(differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})) == [("a[1].b", 2, 3)]
    assert list(differences({"a": 1}, {"a": 1, "b": 2})) == [("b", "absent", 2)]


def flags(rounds: int) -> list[str]:
    settings = [
        f"rounds={rounds}", "data.dataset=synthetic", "data.devices=8", "data.sizes=[30]", "timing.period_s=6",
        "model.name=softmax", 'algorithms=[{name="paota"}]', "evaluation.every=50",
    ]  # fmt: skip
    changes = [word for setting in settings for word in ("--set", setting)]
    return [*changes, "--seeds", "2", "--quiet", "--checkpoint-every", "0"]


def start(*arguments, cwd):
    return subprocess.Popen(
        [sys.executable, "-m", "paota", "run", *arguments],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def complete(*arguments):
    """Run in this process, which already loaded JAX: the bytes must not depend on the process."""
    assert main(["run", *arguments]) == 0


def kill(folder: Path, rounds: int, kills: int, seed: int) -> int:
    """Kill with SIGKILL at random moments, resume, and so on; returns how many kills hit a running process.

    Each strike waits for the next checkpoint, so that there is progress between two of them, and then for a random
    moment: during the computation, the next write, or the writing of the results.
    """
    rng = random.Random(seed)
    for hits in range(kills):
        resume = (folder / "unfinished.json").exists() or (folder / "run.json").exists()
        arguments = (
            ["--resume", str(folder), "--quiet", "--checkpoint-every", "0"]
            if resume
            else [*flags(rounds), "--out", str(folder)]
        )
        before = _stamp(folder)
        process = start(*arguments, cwd=folder.parent)
        deadline = time.monotonic() + 120
        while process.poll() is None and _stamp(folder) == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.random() ** 3 * 0.3)
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate(timeout=300)
        if process.returncode == 0:
            return hits
        assert process.returncode == -signal.SIGKILL, output
    return kills


def _stamp(folder: Path) -> object:
    checkpoints = folder / "checkpoints"
    try:
        return sorted((p.name, p.stat().st_mtime_ns) for p in checkpoints.iterdir())
    except OSError:
        return None


def assert_same_results(one: Path, other: Path) -> None:
    for name in ("metrics.csv", "models.npz", "devices.npz", "device_scores.npz", "experiment.toml"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    left = {p.name for p in other.iterdir()}
    assert left == {p.name for p in one.iterdir()}


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path, kills):
    rounds = 400 * kills  # long enough to be struck so often
    assert kill(tmp_path / "killed", rounds, kills, seed=kills) == kills
    complete("--resume", str(tmp_path / "killed"), "--quiet")
    complete(*flags(rounds), "--out", str(tmp_path / "whole"))
    assert_same_results(tmp_path / "whole", tmp_path / "killed")


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    process = start(*flags(400), "--out", "mine", cwd=tmp_path)
    while not (tmp_path / "mine" / "checkpoints").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "paota run --resume mine" in output
    complete("--resume", str(tmp_path / "mine"), "--quiet")
    assert (tmp_path / "mine" / "report.html").exists()
    assert not (tmp_path / "mine" / "checkpoints").exists()
    assert main(["run", "--resume", str(tmp_path / "mine")]) == 0  # finished already: shows it again


def test_an_edited_experiment_is_refused(tmp_path, capsys):
    prepared = plan()
    from paota.results.folder import begin_folder

    folder = begin_folder(tmp_path / "mine", prepared.experiment, prepared.seeds)
    checkpoints = Checkpoints(folder / "checkpoints", simulate.identity(prepared), every_s=0.0)
    with pytest.raises(Interrupted):
        simulate.execute(
            prepared, checkpoints=checkpoints, stop=lambda: any((folder / "checkpoints").glob("*.npz")), events_per_call=1,
            callbacks=[lambda told: None],
        )  # fmt: skip
    table = prepared.experiment.to_dict()
    table["timing"]["period_s"] = 7.0
    files.write_text(folder / "experiment.toml", files.to_toml(table))
    assert main(["run", "--resume", str(folder)]) == 2
    assert "experiment.timing.period_s was 6.0 and is 7.0" in capsys.readouterr().err
    assert (folder / "checkpoints" / "0.npz").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs a POSIX system")
def test_a_full_disk_is_a_sentence_and_earlier_results_stay(tmp_path):
    """A limit of the file size imitates a full disk: both raise an OSError."""
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); from paota.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "run", *flags(400), "--out", "mine"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    complete("--resume", str(tmp_path / "mine"), "--quiet")  # with room again, nothing is lost


def test_output_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["run", *flags(400), "--out", str(tmp_path / "file" / "inside")]) == 2
    assert "cannot" in capsys.readouterr().err


def write_data(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 255, (60, 4), dtype=np.uint8), np.arange(60) % 3
    np.savez(path, x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])


@pytest.fixture
def with_file(tmp_path: Path) -> paota.Experiment:
    write_data(tmp_path / "mine.npz", 0)
    (tmp_path / "e.toml").write_text(
        'rounds = 2\n[data]\ndataset = "mine.npz"\ndevices = 4\nsizes = [10]\n[[algorithms]]\nname = "paota"\n'
    )
    return paota.Experiment.from_file(tmp_path / "e.toml")


def test_a_checkpoint_does_not_go_on_with_other_data(with_file: paota.Experiment, tmp_path: Path) -> None:
    saved = Saved([np.zeros(2)], {}, 1, 0.5)
    Checkpoints(tmp_path / "c", simulate.identity(simulate.prepare(with_file))).save(0, saved)
    same = Checkpoints(tmp_path / "c", simulate.identity(simulate.prepare(with_file))).load(0)
    assert same is not None
    assert same.done == 1
    write_data(tmp_path / "mine.npz", 1)
    with pytest.raises(paota.UserError, match=r"belongs to another run: contents.*mine\.npz"):
        Checkpoints(tmp_path / "c", simulate.identity(simulate.prepare(with_file))).load(0)


def test_a_sweep_does_not_go_on_with_other_data(with_file: paota.Experiment, tmp_path: Path) -> None:
    spec = sweeps.prepare(with_file, (Axis("timing.period_s", (4.0, 8.0)),), seeds=1)
    folder = sweep_folder.SWEEPS.begin(tmp_path / "sweep", spec)
    write_data(tmp_path / "mine.npz", 1)
    with pytest.raises(paota.UserError, match=r"mine\.npz' has changed since the sweep"):
        sweeps.compute(folder, spec, jobs=1)


def test_every_byte_of_a_checkpoint_counts_its_header_too(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "c.npz", {"done": 3}, {"a": np.arange(3)})
    facts, _ = checkpoint.read(tmp_path / "c.npz")
    assert facts == {"done": 3}
    held = dict(np.load(tmp_path / "c.npz"))
    held["header"] = np.frombuffer(held["header"].tobytes().replace(b"3", b"4"), np.uint8)
    np.savez(tmp_path / "c.npz", **held)
    with pytest.raises(paota.UserError, match="does not match its checksum"):
        checkpoint.read(tmp_path / "c.npz")
