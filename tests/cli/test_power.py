"""`paota power` as a person or a script meets it."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys

import numpy as np
import pytest

import paota.cli
from paota.base.errors import UserError
from paota.cli import power
from paota.power import solve

pytestmark = pytest.mark.bare

ROUND = {
    "p_max": 15,
    "staleness": [0, 0, 1, 1, 2],
    "similarity": [0.35, 0.62, 0.81, 0.48, 0.95],
    "ready": [True, True, True, True, False],
    "noise_power_w": 0.01,
}
CSV = "staleness,similarity,p_max,ready\n0,0.35,15,1\n0,0.62,15,1\n1,0.81,15,1\n1,0.48,15,1\n2,0.95,15,0\n"


def run(*words):
    parser = argparse.ArgumentParser()
    power.add_parser(parser.add_subparsers())
    args = parser.parse_args(["power", *map(str, words)])
    return power.run(args)


@pytest.fixture
def instance(tmp_path):
    path = tmp_path / "round.json"
    path.write_text(json.dumps(ROUND))
    return path


def typed(monkeypatch, text):
    """Standard input with this text."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_json_out_holds_powers_and_certificate(instance, capsys):
    assert run(instance, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    best = solve(**ROUND)
    assert {"power", "beta", "level", "objective", "kkt_residual", "unique"} <= found.keys()
    assert found["power"] == best.power.tolist()
    assert found["beta"] == best.beta.tolist()
    assert found["objective"] == best.objective == found["term_d"] + found["term_e"]
    assert found["kkt_residual"] <= 1e-12
    assert found["gap"] <= 1e-12
    assert found["unique"] is True


def test_csv_with_flags_equals_json(instance, tmp_path, capsys):
    table = tmp_path / "round.csv"
    table.write_text(CSV)
    run(instance, "--json")
    run(table, "--json", "--noise-power-w", "0.01")
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


@pytest.mark.parametrize("words", [(), ("-",)])
def test_standard_input(words, monkeypatch, capsys):
    typed(monkeypatch, json.dumps(ROUND))
    run(*words, "--json")
    assert json.loads(capsys.readouterr().out)["power"] == solve(**ROUND).power.tolist()


def test_standard_input_may_be_csv(monkeypatch, capsys):
    typed(monkeypatch, CSV)
    run("--json", "--noise-power-w", 0.01)
    assert json.loads(capsys.readouterr().out)["power"] == solve(**ROUND).power.tolist()


def test_a_terminal_without_input_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(UserError, match="give an instance file"):
        run()


def test_flags_win_over_the_file(instance, capsys):
    run(instance, "--json", "--bandwidth-hz", "20e6", "--n0-dbm-per-hz", "-74", "--omega", "6", "--num-devices", "100")
    found = json.loads(capsys.readouterr().out)
    changed = {key: value for key, value in ROUND.items() if key != "noise_power_w"}
    best = solve(**changed, bandwidth_hz=20e6, n0_dbm_per_hz=-74.0, omega=6.0, num_devices=100)
    assert found["power"] == best.power.tolist()
    assert found["objective"] == best.objective


def test_the_table_shows_powers_certificate_and_reason(instance, capsys):
    run(instance)
    text = capsys.readouterr().out
    level = solve(**ROUND).level  # devices 0 and 1 are free, 2 and 3 at their upper bounds of 12.15 and 11.25
    lines = [line.split() for line in text.splitlines()]
    assert ["3", "7.2", "11.25", "11.25", "1.0000", "at", "hi"] in lines
    assert ["4", "9", "14.25", "0", "0.0000", "not", "ready"] in lines
    assert f"level tau = {level:.9g}" in text
    assert "KKT residual" in text
    assert "global optimum." in text


def test_many_devices_are_summarised(tmp_path, capsys):
    path = tmp_path / "many.csv"
    path.write_text("p_max,rho,theta\n" + "15,1,0.5\n" * 5000)
    run(path)
    text = capsys.readouterr().out
    assert "and 4980 more devices" in text
    assert len(text.splitlines()) < 40


@pytest.mark.parametrize("method", ["mip", "qp"])
def test_other_methods(method, instance, capsys):
    options = ["--segments", 32, "--tolerance", 1e-6, "--time-limit", 60] if method == "mip" else []
    run(instance, "--json", "--method", method, *options)
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == method
    assert found["objective"] == pytest.approx(solve(**ROUND).objective, rel=1e-3)


def test_result_files(instance, tmp_path, capsys):
    run(instance, "--out", tmp_path / "result.json")
    run(instance, "--out", tmp_path / "result.csv")
    best = solve(**ROUND)
    assert json.loads((tmp_path / "result.json").read_text())["power"] == best.power.tolist()
    table = np.genfromtxt(tmp_path / "result.csv", delimiter=",", names=True)
    np.testing.assert_array_equal(table["power"], best.power)
    np.testing.assert_array_equal(table["ready"], ROUND["ready"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.csv", "result.json", "round.json"]


def test_nobody_ready_and_infinite_level_are_valid_json(monkeypatch, capsys):
    typed(monkeypatch, '{"lo": [1], "hi": [2], "ready": false}')
    run("--json")
    found = json.loads(capsys.readouterr().out)
    assert found["power"] == [0.0]
    assert found["objective"] is None
    typed(monkeypatch, '{"lo": [1], "hi": [2], "epsilon2": 0}')
    run("--json")
    assert json.loads(capsys.readouterr().out)["level"] is None


@pytest.mark.parametrize(
    ("text", "words", "fragment"),
    [
        ("", (), "standard input is empty"),
        ('{"lo": [3], "hi": [2]}', (), r"lo\[0\] = 3 is greater than hi\[0\] = 2"),
        ('{"p_max": [NaN], "staleness": 0, "similarity": 1}', (), r"p_max\[0\] = nan must be a number"),
        ('{"p_max": [-1], "staleness": 0, "similarity": 1}', (), r"p_max\[0\] = -1.0 must not be negative"),
        ('{"p_max": [1, 1], "staleness": [0], "similarity": 1}', (), "staleness has 1 values, but p_max has 2"),
        ('{"p_maks": [1]}', (), "did you mean 'p_max'"),
        ('{"lo": [1], "hi": [2]}', ("--method", "exakt"), "did you mean 'exact'"),
        ('{"lo": [1], "hi": [2]}', ("--segments", "4"), "segments is an option of the method 'mip'"),
        ('{"lo": [1], "hi": [2]}', ("--method", "mip", "--segments", "0"), "segments = 0 must be at least 1"),
        ('{"lo": [1], "hi": [2]}', ("--out", "result.txt"), "must end in .json or .csv"),
        ('{"lo": [1], "hi": [2]}', ("--noise-power-w", "nan"), "noise_power_w = nan must be a finite number"),
        ('{"lo": [1], "hi": [2]}', ("--out", "missing/result.json"), "cannot be written"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing_behind(text, words, fragment, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    typed(monkeypatch, text)
    with pytest.raises(UserError, match=fragment):
        run(*words)
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["missing.json"], "missing.json: no such file"),
        (["round.json", "--segmets", "4"], "did you mean '--segments'"),
        (["round.json", "--segments", "four"], "--segments"),
        (["round.json", "--method", "mpi"], "did you mean 'mip'"),
        (["-"], "standard input is empty"),
    ],
)
def test_the_whole_command_ends_with_code_2_and_one_sentence(words, fragment, instance, monkeypatch, capsys):
    monkeypatch.chdir(instance.parent)
    typed(monkeypatch, "")
    assert paota.cli.main(["power", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert fragment in shown.err
    assert len(shown.err.splitlines()) == 1


def test_the_whole_command_ends_with_code_0(instance, capsys):
    assert paota.cli.main(["power", str(instance), "--n0-dbm-per-hz", "-74", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gap"] <= 1e-12


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        run(tmp_path / "missing.json")
    with pytest.raises(UserError, match="cannot be read"):
        run(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        run("a\0b.json")


def test_power_needs_neither_jax_nor_a_solver_at_import():
    code = (
        "import sys, paota.power, paota.cli.power; paota.power.solve(lo=[1], hi=[2]); "
        "print([m for m in ('jax', 'highspy', 'scipy', 'rich') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
