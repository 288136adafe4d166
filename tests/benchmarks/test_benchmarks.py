"""The benchmarks run: what is measured by hand now and then must not rot. Types are checked every time, by mypy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(script, *arguments):
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def test_roofline_says_which_share_of_the_ideal_is_reached():
    said = run("roofline.py", "--repeats", 1)
    assert "share of the ideal, dense:" in said
    assert all(part in said for part in ("mini-batch draws", "training", "similarity, power, air", "judging"))


def test_scale_measures_seconds_and_memory(tmp_path):
    said = run(
        "scale.py", "--devices", 40, 80, "--events", 2, "--steps", 1, "--batch", 4, "--out", tmp_path / "scale"
    )  # fmt: skip
    rows = json.loads((tmp_path / "scale.json").read_text())
    assert [row["devices"] for row in rows] == [40, 80]
    assert all(row["compute_s"] > 0 and row["peak_mib"] > 100 and row["device_steps"] > 0 for row in rows)
    assert "us/device-step" in said


def test_ours_is_not_slower_than_its_floor():
    assert "plain JAX vmap / ours" in run("regression.py", "--repeats", 5)


def test_side_by_side_says_how_many_times_faster():
    assert run("side_by_side.py", "--repeats", 1, "--rounds", 4).count("times faster") == 3
