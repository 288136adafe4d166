"""The summary of a run in the terminal: every column, and how many seeds reached a target."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from paota.experiment.experiment import Experiment
from paota.results.result import Result, Trajectory
from paota.terminal.tables import fitting, print_table, show_summary


@pytest.fixture
def result():
    def told(label, seed, accuracy):
        rounds = np.arange(len(accuracy))
        metrics = {"round": rounds, "time_s": 8.0 * rounds, "test_accuracy": np.array(accuracy), "ready": rounds}
        return Trajectory(
            label=label, algorithm="paota", seed=seed, metrics=metrics, devices={}, model=np.zeros(1), compute_s=1.0
        )

    trajectories = [
        told("paota", 0, [0.1, 0.6, 0.9]), told("paota", 1, [0.1, 0.6, 0.7]), told("paota", 2, [0.1, 0.85, 0.9]),
        told("a_very_long_label", 0, [0.1, 0.2, 0.9]), told("a_very_long_label", 1, [0.1, 0.2, 0.3]),
        told("a_very_long_label", 2, [0.1, 0.2, 0.3]),
    ]  # fmt: skip
    algorithms = [{"name": "paota"}, {"name": "paota", "label": "a_very_long_label"}]
    experiment = Experiment.from_dict({"name": "here", "targets": [0.5, 0.6, 0.7, 0.8], "algorithms": algorithms})
    return Result(experiment=experiment, trajectories=trajectories)


@pytest.mark.parametrize("width", [200, 60, 34])
def test_every_column_is_shown_however_narrow_the_window(result, monkeypatch, capsys, width) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    show_summary(result)
    shown = capsys.readouterr().out
    for target in ("50%", "60%", "70%", "80%"):
        assert f"{target} after" in shown
    assert max(map(len, shown.splitlines()[:-1])) <= width
    assert ("the window is narrow" in " ".join(shown.split())) == (width < 200)
    assert "here: test accuracy, median of 3 seeds" in " ".join(shown.split())


def test_how_many_seeds_got_there_is_said_unless_all_did(result, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_summary(result)
    shown = capsys.readouterr().out
    assert "2 of 3 seeds" in shown  # paota to 80 %: a median, but not of all
    assert "1 of 3 seeds" in shown  # the other one: no median
    assert "3 of 3" not in shown


def test_milliseconds_are_not_rounded_away(result, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for run in result.trajectories:
        run.metrics["time_s"] = run.metrics["time_s"] / 1000
    show_summary(result)
    assert "1 (0.008)" in capsys.readouterr().out


def test_a_score_of_another_name_is_no_percentage(result, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_summary(replace(result, info={"score": "negative error"}))
    shown = capsys.readouterr().out
    assert "test negative error" in shown
    assert "%" not in shown


def test_columns_are_dealt_to_as_few_parts_as_they_need() -> None:
    columns = [("12345", ["1"]), ("1", ["123"]), ("1", ["1234567890"])]
    assert [len(part) for part in fitting(100, columns)] == [3]
    assert [len(part) for part in fitting(11, columns)] == [2, 1]
    assert [len(part) for part in fitting(3, columns)] == [1, 1, 1]
    console = Console(file=io.StringIO(), width=12, highlight=False, markup=False)
    print_table(console, "t", ("", ["[red]"]), columns)
    assert console.file.getvalue().count("[red]") == 3  # a name is never markup
