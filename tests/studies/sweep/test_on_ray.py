"""Sweeps and plans on a Ray cluster that loses nodes: nothing is lost, and no byte differs."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import paota
from paota.base import files
from paota.experiment.experiment import Experiment

PERIODS = [6.0, 8.0]


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_nodes_that_die_cost_nothing(table, tmp_path):
    """Two commands, two nodes each, the second killed while it computes: its run is computed elsewhere.

    In a process of its own, since Ray leaves files open, and on one cluster, since that is most of the time.
    """
    table = {**table, "algorithms": [{"name": "paota"}], "model": {"name": "softmax"}, "targets": [0.15]}
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    experiment = tmp_path / "e.toml"
    experiment.write_text(files.to_toml(Experiment.from_dict(table).to_dict()))
    words = [str(experiment), "--over", "timing.period_s=6.0,8.0", "--seeds", "1", "--quiet", "--out"]
    script = [sys.executable, str(Path(__file__).parents[2] / "helpers" / "two_ray_nodes.py")]
    command = [*script, "sweep", *words, str(there / "sweep"), "--", "plan", *words, str(there / "plan")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr
    assert "nodes killed: 2" in ended.stdout
    over = {"timing.period_s": PERIODS}
    paota.sweep(table, over=over, jobs=1, out=here / "sweep")
    paota.plan(table, over=over, seeds=1, jobs=1, out=here / "plan")
    for name in (
        "sweep/sweep.csv",
        "sweep/points/001/metrics.csv",
        "plan/plan.csv",
        "plan/experiment.toml",
        "plan/report.html",
    ):
        assert (there / name).read_bytes() == (here / name).read_bytes(), name
