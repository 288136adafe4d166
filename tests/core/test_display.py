"""The one progress display: what a person reads while a run, a sweep or a reproduction goes on."""

import io
import math

import numpy as np
import pytest

from paota import simulate
from paota.cli.display import RunDisplay, TasksDisplay
from paota.experiment import Experiment
from paota.runs.pool import Update
from paota.runs.results import Trajectory

TABLE = {"rounds": 4, "data": {"dataset": "synthetic", "devices": 4, "sizes": [20]}}


@pytest.fixture
def stream(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    return io.StringIO()


def test_a_run_counts_rounds_over_all_seeds_and_tells_of_divergence(stream):
    algorithms = [{"name": "paota", "label": "[red]mine"}, {"name": "local-sgd"}]
    plan = simulate.plan(Experiment.from_dict({**TABLE, "algorithms": algorithms}), seeds=2)
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
    shown = stream.getvalue()
    assert "[red]mine: seed 1 diverged in round 2; the others go on" in shown  # a label is never markup
    last = [line for line in shown.splitlines() if line.strip()][-2:]
    assert last[0].startswith("[red]mine")
    assert "6/8" in last[0]
    assert "seed 1" in last[0]
    assert "0/8" in last[1]
    assert "compiled in 1.5 s" in last[1]


def test_tasks_are_counted_weighed_and_failures_stay_on_the_screen(stream):
    names = {"0": "period = 4", "1": "period = [6]", "2": "period = 8"}
    with TasksDisplay("sweeping", "points", names, stream, {"0": 8.0, "1": 1.0, "2": 1.0}) as display:
        display(Update("0", "done", 1.0))
        display(Update("1", "failed", reason="its process was ended by SIGKILL [out of memory?]"))
        display(Update("2", "advanced", 0.5))
        (task,) = display._bars.tasks
        assert (task.completed, task.total) == (9.5, 10.0)
    shown = stream.getvalue()
    assert "period = [6]: failed: its process was ended by SIGKILL [out of memory?]" in shown
    assert "2/3 points" in shown
    assert shown.rstrip().splitlines()[-1].count("period = 8") == 1  # the one that is under way
