"""The progress display of a run, a sweep or a reproduction."""

import io
import math
import re
import time
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

from paota import Round, simulate
from paota.experiment.experiment import Experiment
from paota.results.result import Trajectory
from paota.studies.pool import Update
from paota.studies.progress import TasksDisplay
from paota.terminal import display as module
from paota.terminal.display import RunDisplay

TABLE = {"rounds": 4, "data": {"dataset": "synthetic", "devices": 4, "sizes": [20]}}


@pytest.fixture
def stream(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    return io.StringIO()


def start_of(plan):
    return simulate._start(plan, None, None)


def told(label, seed, round, accuracy):
    return Round(label=label, algorithm="paota", seed=seed, round=round, rounds=4, metrics={"test_accuracy": accuracy})


def test_a_run_counts_rounds_over_all_seeds_and_tells_of_divergence(stream):
    algorithms = [{"name": "paota", "label": "[red]mine"}, {"name": "local-sgd"}]
    plan = simulate.prepare(Experiment.from_dict({**TABLE, "algorithms": algorithms}), seeds=2)
    display = RunDisplay(stream)
    display.start(start_of(plan))
    display.compile("local-sgd", None)
    display.compile("local-sgd", 1.5)
    display.round(told("[red]mine", 0, 4, 0.5))
    display.round(told("[red]mine", 1, 2, math.nan))
    display.finish(
        Trajectory(
            label="[red]mine", algorithm="paota", seed=1, metrics={"round": np.arange(3)}, devices={},
            model=np.zeros(1), diverged_round=2,
        )
    )  # fmt: skip
    display.end(None)
    warned, line = stream.getvalue().splitlines()
    assert warned == "[red]mine: seed 1 diverged in round 2; the others continue"  # a label is never markup
    mine, other = line.split(" | ")
    assert re.fullmatch(r"\[red\]mine 6/8( .* rounds/s)? seed 1, accuracy 50.0%( 0:00:\d\d left)?", mine)
    assert other == "local-sgd 0/8 compiled in 1.5 s"


def test_a_row_is_one_line_of_80_characters_and_lines_tell_the_time_left(stream, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    log, clock = io.StringIO(), iter(range(1000))
    table = {**TABLE, "rounds": 1000, "algorithms": [{"name": "paota", "label": "paota-plus-with-a-long-label"}]}
    with RunDisplay(stream, log) as display:
        monkeypatch.setattr(display._bars, "get_time", lambda: float(next(clock)))
        display.start(start_of(simulate.prepare(Experiment.from_dict(table))))
        for number in (1, 2, 3):
            monkeypatch.setattr(module, "REDRAW_S", -1.0)
            display.round(replace(told("paota-plus-with-a-long-label", 0, number, 0.5), rounds=1000))
        shown = [line.plain for line in drawn(display._bars, 80)]
    assert len(shown) == 1
    assert re.search(r"3/1000 +\S+ rounds/s +seed 0, accuracy 50.0% +0:16:37$", shown[0]), shown
    assert re.search(r"3/1000 \S+ rounds/s seed 0, accuracy 50.0% \S+ left$", log.getvalue(), re.MULTILINE)


def drawn(bars, width):
    """The rows as they appear in a window of this width."""
    lines = Console(file=io.StringIO(), width=width, force_terminal=True).render_lines(bars.get_renderable(), pad=False)
    return [Text("".join(segment.text for segment in line).rstrip()) for line in lines]


def test_where_there_is_no_terminal_a_line_comes_every_few_seconds(stream, monkeypatch):
    """Also while nothing is told: compiling has a clock."""
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.01)
    display = RunDisplay(stream)
    display.start(start_of(simulate.prepare(Experiment.from_dict(TABLE))))
    display.compile("paota", None)
    while not re.search(r"^paota 0/4 compiling 0 s \| local-sgd 0/4 waiting 0 s", stream.getvalue(), re.MULTILINE):
        time.sleep(0.01)
    display.end(None)


def test_output_in_a_file_gets_the_lines_beside_the_bars_of_the_terminal(stream, monkeypatch):
    """The command `paota run > log.txt` in a terminal."""
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    log = io.StringIO()
    with TasksDisplay("sweeping", "points", {"0": "first"}, stream, output=log) as display:
        display(Update("0", "advanced", 0.5))
    assert log.getvalue() == "sweeping 0/1 points first\n"
    assert "\x1b" in stream.getvalue()
    with TasksDisplay("sweeping", "points", {"0": "first"}, io.StringIO(), output=stream):
        assert "sweeping" not in stream.getvalue().rpartition("first")[2]  # a terminal needs no lines


def test_a_terminal_gets_bars_and_a_clock(stream, monkeypatch):
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    display = RunDisplay(stream)
    display.start(start_of(simulate.prepare(Experiment.from_dict(TABLE))))
    display.compile("paota", None)
    display.end(None)
    assert re.search(r"paota +\S+ +.*0/4.*compiling 0 s", stream.getvalue())


def test_tasks_are_counted_weighed_and_failures_stay_on_the_screen(stream):
    names = {"0": "period = 4", "1": "period = [6]", "2": "period = 8"}
    with TasksDisplay("sweeping", "points", names, stream, work={"0": 8.0, "1": 1.0, "2": 1.0}) as display:
        display(Update("0", "done", 1.0))
        display(Update("1", "failed", reason="its process was ended by SIGKILL [out of memory?]"))
        display(Update("2", "advanced", 0.5))
        (task,) = display._bars.tasks
        assert (task.completed, task.total) == (9.5, 10.0)
    failed, line = stream.getvalue().splitlines()
    assert failed == "period = [6]: failed: its process was ended by SIGKILL [out of memory?]"
    assert re.fullmatch(r"sweeping 2/3 points period = 8( 0:00:\d\d left)?", line)  # the one that is under way
