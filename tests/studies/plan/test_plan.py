"""Whole plans: the same answer whatever computes it, what is finished survives, and the file that it writes runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import paota
from paota.base import files
from paota.base.errors import UserError
from paota.base.system import only_one
from paota.cli import main
from paota.experiment.experiment import Experiment
from paota.studies.plan import plan as planner
from paota.studies.plan.page import build
from paota.studies.plan.search import Search

OVER = {"timing.period_s": [4, 8, 12]}
ASKED = {"target": 0.15, "over": OVER, "seeds": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished plan, computed in this process."""
    from .conftest import TABLE

    return paota.plan(TABLE, **ASKED, jobs=1, out=tmp_path_factory.mktemp("plan") / "plan")


def content(folder: Path) -> dict[str, bytes]:
    """Everything that must not depend on how a plan was computed."""
    names = ("plan.csv", "experiment.toml", "report.html")
    return {name: (folder / name).read_bytes() for name in names}


def test_the_answer_is_complete(whole):
    assert {file.name for file in whole.folder.iterdir()} == {
        "plan.json", "plan.csv", "report.html", "experiment.toml", "runs",
    }  # fmt: skip
    assert whole.chosen is not None
    assert set(whole.choices) >= {"algorithm", "data.devices", "power.max_power_w"}
    assert whole.chosen.seeds == 2
    assert len(whole.rows) == 4  # three periods of PAOTA, and Local SGD
    assert "15" in whole.sentences[0]
    assert any("It costs" in text for text in whole.sentences)
    assert len(whole.to_pandas()) == 4
    assert "\n" not in repr(whole)
    assert whole.sentences[0].split(":")[0] in whole._repr_html_()
    assert whole.sentences[0].startswith("Deploy ")


def test_milliseconds_keep_their_digits(whole):
    """Trainings of the phones that `paota fleet --make` writes take milliseconds."""
    row = whole.chosen
    quick = replace(row, simulated=replace(row.simulated, round_s=0.0037))
    assert any("every 0.0037 s" in text for text in replace(whole, chosen=quick).sentences)


def test_the_costs_are_those_of_a_run(whole):
    """The finalist's seconds are what `paota.run` gives for its file, and the file is an experiment with one algorithm."""
    written = Experiment.from_file(whole.folder / "experiment.toml")
    assert len(written.algorithms) == 1
    assert written.evaluation.stop_at == 0.15
    result = paota.run(written, seeds=2)
    again = [float(run.metrics["time_s"][-1]) for run in result.trajectories]
    assert list(whole.chosen.cost("seconds_to").values) == again


def test_the_file_can_be_deployed(whole):
    from paota.deploy.settings import Deployment

    assert len(Deployment().chosen(Experiment.from_file(whole.folder / "experiment.toml"))) == 1


def test_processes_change_no_byte(table, whole, tmp_path):
    """Two workers instead of one."""
    made = paota.plan(table, **ASKED, jobs=2, out=tmp_path / "plan")
    assert content(made.folder) == content(whole.folder)


def test_interrupted_and_resumed(table, whole, tmp_path, monkeypatch, capsys):
    """Ctrl-C after the first rung: the command prints how to resume, finished runs are kept, the result has the same bytes."""
    experiment = tmp_path / "e.toml"
    experiment.write_text(files.to_toml(Experiment.from_dict(table).to_dict()))
    over = ["--over", "timing.period_s=4:12:4", "--target", "0.15", "--seeds", "2"]
    out = tmp_path / "out"
    compute = Search.compute

    def interrupted(self, candidates, rung, number):
        if number != 0:
            raise KeyboardInterrupt
        compute(self, candidates, rung, number)

    monkeypatch.setattr(Search, "compute", interrupted)
    assert main(["plan", str(experiment), *over, "--jobs", "1", "--out", str(out), "--quiet"]) == 130
    assert f"paota plan --resume {out}" in capsys.readouterr().err
    monkeypatch.undo()
    stamps = {file: file.stat().st_mtime_ns for file in out.glob("runs/*-0/run.json")}
    assert len(stamps) == 4
    assert main(["plan", "--resume", str(out), "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(file.stat().st_mtime_ns == stamp for file, stamp in stamps.items())
    assert content(out) == content(whole.folder)
    assert found["choice"] == json.loads(json.dumps(whole.choices))
    assert found["costs"]["seconds_to"]["median"] == whole.chosen.cost("seconds_to").median
    assert main(["plan", "--resume", str(out), "--target", "0.3", "--quiet"]) == 2


def test_a_plan_begins_with_one_file(table, tmp_path):
    """The file appears whole: a command that is killed at its start leaves a plan to resume, or none."""
    spec = planner.prepare(Experiment.from_dict(table))
    assert [file.name for file in planner.PLANS.begin(tmp_path / "plan", spec).iterdir()] == ["plan.json"]


def test_two_processes_cannot_resume_one_plan(table, whole):
    with only_one(whole.folder), pytest.raises(UserError, match="another process is at work"):
        paota.plan(table, **ASKED, jobs=1, out=whole.folder)


def test_a_constraint_that_no_candidate_keeps(table):
    """The answer names the least joules of all candidates."""
    made = paota.plan(table, **ASKED, where=["joules_to:0.15 < 0.001"], jobs=1)
    assert made.chosen is None
    assert made.choices == {}
    assert made.experiment is None
    assert (
        "no candidate has joules_to:0.15 < 0.001; the nearest of those simulated to the target needs" in made.headline
    )
    assert made._repr_html_()


def test_of_a_large_fleet_a_part_is_searched(table, monkeypatch):
    monkeypatch.setattr("paota.studies.plan.search.SEARCHED", 8)
    table = {**table, "data": {**table["data"], "devices": 24}, "algorithms": [{"name": "paota"}]}
    made = paota.plan(table, target=0.15, over={"timing.period_s": [8, 12]}, seeds=1, jobs=1)
    assert made.choices["data.devices"] == 8
    assert made.sentences[-1] == "Searched with the first 8 of 24 devices."


@pytest.mark.slow
def test_a_target_that_no_candidate_reaches(table):
    made = paota.plan({**table, "duration_s": 20.0, "algorithms": [{"name": "paota"}]}, target=0.99, over=OVER, jobs=1)
    assert made.chosen is None
    assert "no candidate reaches 99" in made.headline


def test_the_estimate_alone_learns_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["plan", "--estimate", "--json", "--over", "timing.period_s=6,8", "--algorithms", "paota"]
    assert main([*command, "--set", "data.dataset=synthetic"]) == 0
    six, eight = json.loads(capsys.readouterr().out)
    assert six["candidate"] == "paota, dT 6 s"
    assert six["ready"] == pytest.approx(45.5, rel=0.03)
    assert eight["ready"] == pytest.approx(58.8, rel=0.03)
    assert list(tmp_path.iterdir()) == []


def test_another_plan_in_the_same_folder_is_refused(table, whole):
    with pytest.raises(UserError, match=r"holds another plan: best was seconds_to:0.15 and is seconds_to:0.2"):
        paota.plan(table, **{**ASKED, "target": 0.2}, jobs=1, out=whole.folder)


def test_the_page_is_whole(whole):
    html = (whole.folder / "report.html").read_text()
    assert "Deployment sheet" in html
    assert "default-src 'none'" in html
    for figure in ("ready", "staleness", "noise", "time", "pareto-joules_to"):
        assert f'"{figure}":' in html
    assert not np.isnan(whole.chosen.simulated.ready)


def test_a_pace_at_which_nothing_changes_has_no_figure(whole):
    """Synchronous rounds have no stale updates: a figure of them would show zeros."""
    fresh = [replace(row, simulated=replace(row.simulated, staleness=0.0)) for row in whole.rows]
    chosen = next(row for row in fresh if row.candidate.name == whole.chosen.candidate.name)
    (why,) = (part for part in build(replace(whole, rows=fresh, chosen=chosen, curve=())).sections if part.id == "why")
    assert {figure.id for figure in why.figures} == {"ready", "noise", "time"}
