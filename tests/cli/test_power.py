"""`paota power` as a person or a script meets it."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paota.cli
from paota.base.errors import UserError
from paota.cli import power
from paota.cli.power import parse
from paota.power import problem_from, solve, solve_problem
from paota.power.problem import DEVICE_KEYS, SCALAR_KEYS

pytestmark = pytest.mark.bare

ROUND = {
    "p_max": 15,
    "staleness": [0, 0, 1, 1, 2],
    "similarity": [0.35, 0.62, 0.81, 0.48, 0.95],
    "ready": [True, True, True, True, False],
    "noise_power_w": 0.01,
}


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


@pytest.mark.parametrize("words", [(), ("-",)])
def test_standard_input(words, monkeypatch, capsys):
    typed(monkeypatch, json.dumps(ROUND))
    run(*words, "--json")
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
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"p_max": [15] * 5000, "rho": 1, "theta": 0.5}))
    run(path)
    text = capsys.readouterr().out
    assert "and 4980 more devices" in text
    assert len(text.splitlines()) < 40


def test_the_papers_route(instance, capsys):
    run(instance, "--json", "--method", "mip", "--segments", 32, "--tolerance", 1e-6, "--time-limit", 60)
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "mip"
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


def test_no_ready_device_and_an_infinite_level_are_valid_json(monkeypatch, capsys):
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
        ('{"p_max": [-1], "staleness": 0, "similarity": 1}', (), r"p_max\[0\] = -1 must not be negative"),
        ('{"p_max": [1, 1], "staleness": [0], "similarity": 1}', (), "staleness has 1 values, but p_max has 2"),
        ('{"p_maks": [1]}', (), "did you mean 'p_max'"),
        ('{"lo": [1], "hi": [2]}', ("--method", "exakt"), "did you mean 'exact'"),
        ('{"lo": [1], "hi": [2]}', ("--method", "qp"), "the method 'qp' no longer exists"),
        ('{"lo": [1], "hi": [2]}', ("--backend", "scip"), "--backend no longer exists: .* HiGHS"),
        ('{"lo": [1], "hi": [2]}', ("--segments", "4"), "segments is an option of the method 'mip'"),
        ('{"lo": [1], "hi": [2]}', ("--method", "mip", "--segments", "0"), "mip.segments must be at least 1, not 0"),
        ('{"lo": [1], "hi": [2]}', ("--out", "result.txt"), "must end in .json or .csv"),
        ('{"lo": [1], "hi": [2]}', ("--noise-power-w", "nan"), "instance.noise_power_w must be a finite number"),
        ('{"lo": [1], "hi": [2]}', ("--out", "missing/result.json"), "cannot write 'missing/result.json'"),
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
        run(tmp_path.parent / "\0.json")
    with pytest.raises(UserError, match="not an ordinary file"):
        run(tmp_path)
    with pytest.raises(UserError, match="CSV instances are no longer read: write a JSON object"):
        run(tmp_path / "round.csv")
    with pytest.raises(UserError, match="cannot be read"):
        run("a\0b.json")


WRONG = {
    "empty": ("", "x.json is empty"),
    "only spaces": (" \n\t", "x.json is empty"),
    "broken json": ('{"p_max": [1,', "not valid JSON"),
    "not an object": ("[1, 2]", "must hold one JSON object"),
    "a number": ("3", "must hold one JSON object"),
    "unknown key": ('{"pmax": 1}', "unknown key 'pmax': did you mean 'p_max'?"),
    "key twice": ('{"p_max": 1, "p_max": 2}', "'p_max' is given twice"),
    "text for a number": ('{"p_max": ["a"]}', "p_max must be a number or a flat list"),
    "flag for a number": ('{"p_max": [1, true]}', r"p_max\[1\] = True must be a number"),
    "null": ('{"ready": null}', "ready is null"),
    "list in a list": ('{"p_max": [[1], [2]]}', "p_max must be a flat list"),
    "empty list": ('{"p_max": []}', "p_max is empty"),
    "list for a constant": ('{"omega": [3]}', "instance.omega must be a number"),
    "text for a constant": ('{"omega": "3"}', "instance.omega must be a number, not '3'"),
    "a huge whole number": ('{"p_max": [1' + "0" * 400 + "]}", "p_max must be a number or a flat list"),
    "too deep": ("[" * 200_000, "nested too deeply|not valid JSON"),
}


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.replace(" ", "-"))
def test_broken_files_are_one_sentence(case):
    text, fragment = WRONG[case]
    with pytest.raises(UserError, match=fragment) as caught:
        problem_from(**{"staleness": 0, "similarity": 1, **parse(text.encode(), "x.json")})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_bytes_that_are_no_text():
    with pytest.raises(UserError, match="not UTF-8"):
        parse(b"\xff\xfe\x00", "x.json")


def test_too_large_files_are_refused_before_they_are_parsed(monkeypatch, tmp_path):
    monkeypatch.setattr(power, "MAX_BYTES", 10)
    (tmp_path / "x.json").write_bytes(b" " * 11)
    with pytest.raises(UserError, match="larger than"):
        run(tmp_path / "x.json")
    typed(monkeypatch, " " * 11)
    with pytest.raises(UserError, match="larger than"):
        run()


def only_user_errors(data):
    """Parse and, where that works, solve: only UserError may be raised, and every answer is certified."""
    try:
        solution = solve_problem(problem_from(**parse(data, "x.json")))
    except UserError:
        return
    assert solution.kkt_residual <= 1e-12


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
numbers = st.one_of(st.floats(0, 1), st.floats(), st.integers(-2, 20), anything)
tables = st.dictionaries(
    st.sampled_from([*DEVICE_KEYS, *SCALAR_KEYS, "p_maxx"]),
    st.lists(numbers, min_size=1, max_size=3) | numbers,
    max_size=8,
)
plausible = st.fixed_dictionaries(
    {key: st.lists(st.floats(0, 1), min_size=2, max_size=2) for key in ("p_max", "rho", "theta")},
    optional={key: st.floats(0, 1e6) | numbers for key in SCALAR_KEYS},
)


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_random_bytes(data):
    only_user_errors(data)


@given(st.one_of(anything, tables, plausible))
@settings(deadline=None, max_examples=300)
def test_random_json(table):
    only_user_errors(json.dumps(table).encode())


@given(st.text(max_size=100))
@settings(deadline=None)
def test_random_text_as_json(text):
    only_user_errors(text.encode("utf-8", "surrogatepass"))


def test_power_needs_neither_jax_nor_a_solver_at_import():
    code = (
        "import sys, paota.power, paota.cli.power; paota.power.solve(lo=[1], hi=[2]); "
        "print([m for m in ('jax', 'highspy', 'scipy', 'rich') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
