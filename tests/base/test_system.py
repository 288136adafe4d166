"""Ctrl-C waits neither for a compilation nor for a long engine call, and what is done is kept."""

import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from paota import engine, simulate
from paota.base.errors import Interrupted
from paota.experiment.experiment import Experiment
from paota.results.checkpoint import Checkpoints
from paota.simulate.threads import any_running

TABLE = {
    "rounds": 12,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [30]},
    "model": {"name": "softmax"},
    "algorithms": [{"name": "paota"}],
}


def plan():
    return simulate.prepare(Experiment.from_dict(TABLE))


def outcome(result):
    return [(t.model.tobytes(), {k: v.tobytes() for k, v in t.metrics.items()}) for t in result.trajectories]


@pytest.fixture
def gate():
    """Closed while the test runs; then the threads left behind may end."""
    opened = threading.Event()
    yield opened
    opened.set()
    while any_running():
        time.sleep(0.01)


def test_compiling_is_left_behind(monkeypatch, gate):
    compiling = threading.Event()

    def slow(*arguments):
        compiling.set()
        gate.wait()
        raise AssertionError("its result is not needed any more")

    monkeypatch.setattr(engine, "program", slow)
    with pytest.raises(Interrupted):
        simulate.execute(plan(), stop=compiling.is_set)
    assert any_running()


def test_a_long_call_is_left_behind_and_what_was_done_before_is_saved(monkeypatch, tmp_path, gate):
    whole = outcome(simulate.execute(plan()))
    real, calls, busy = engine.program, [], threading.Event()

    def program(*arguments):
        step, seconds = real(*arguments)

        def third_hangs(*inputs):
            calls.append(inputs)
            if len(calls) == 3:
                busy.set()
                gate.wait()
            return step(*inputs)

        return third_hangs, seconds

    with monkeypatch.context() as patch:
        patch.setattr(engine, "program", program)
        checkpoints = Checkpoints(tmp_path / "c", simulate.identity(plan()), every_s=3600)
        with pytest.raises(Interrupted):
            simulate.execute(plan(), events_per_call=4, checkpoints=checkpoints, stop=busy.is_set)
    assert checkpoints.load(0).done == 8
    resumed = simulate.execute(plan(), checkpoints=Checkpoints(tmp_path / "c", simulate.identity(plan())))
    assert outcome(resumed) == whole


PROGRAM = """
import sys, time
from paota import engine
from paota.cli import command
engine.program = lambda *arguments: time.sleep(3600)
sys.argv = ["paota", "run", *sys.argv[1:]]
command()
"""


@pytest.mark.parametrize("times", [1, 2])
def test_the_program_ends_while_it_compiles(tmp_path, times):
    """The first Ctrl-C saves and says how to resume; the second ends at once."""
    file = tmp_path / "experiment.toml"
    file.write_text(
        'rounds = 12\n[data]\ndataset = "synthetic"\ndevices = 8\nsizes = [30]\n[model]\nname = "softmax"\n'
        '[[algorithms]]\nname = "paota"\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file), "--out", "mine"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    live = tmp_path / "mine" / "live.json"
    while process.poll() is None and not (live.exists() and json.loads(live.read_text())["compiling"]):
        time.sleep(0.02)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)  # two signals at the same moment are one
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    if times == 1:
        assert "resume with: paota run --resume mine" in output
    assert json.loads(live.read_text())["compiling"]  # it was not waited for


PREPARING = """
import gc, sys
import jax
from paota import simulate
from paota.cli import command

def prepare(*arguments, **options):
    print("preparing", flush=True)
    while True:
        gc.collect()  # runs a callback of JAX's, in which exceptions are dropped

simulate.prepare = prepare
sys.argv = ["paota", "run", "--preset", "quick"]
command()
"""


def test_the_program_ends_while_it_prepares(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", PREPARING], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout.readline() == "preparing\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "paota: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_the_program_ends_while_it_imports():
    """A sentence, not a traceback from another module."""
    code = (
        "import builtins, time\nreal = builtins.__import__\n"
        "def slow(name, *rest):\n"
        "    if rest[2] == ('commands',):\n"
        "        print('importing', flush=True); time.sleep(3600)\n"
        "    return real(name, *rest)\n"
        "from paota.cli import command\nbuiltins.__import__ = slow\ncommand()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "paota: interrupted\n")
