"""Instance files: what is read, and one clear sentence for everything else. The loaders raise UserError alone."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paota.base.errors import UserError
from paota.power import instance, problem_from, solve, solve_problem
from paota.power.instance import DEVICE_KEYS, SCALAR_KEYS, parse, read_bounded


def test_json_and_csv_say_the_same():
    table = {"p_max": [15, 10.5], "staleness": [0, 2], "similarity": [0.25, 1], "ready": [True, False]}
    rows = "\ufeff p_max,staleness ,similarity,ready\r\n15,0,0.25,TRUE\r\n\r\n10.5,2,1e0,no\r\n"
    from_json = parse(json.dumps(table).encode(), "a.json")
    from_csv = parse(rows.encode(), "a.csv")
    assert from_json.keys() == from_csv.keys()
    for key, values in from_json.items():
        np.testing.assert_array_equal(values, from_csv[key])


def test_without_a_suffix_the_first_character_decides():
    assert parse(b' \n{"p_max": 15}', "standard input") == {"p_max": 15.0}
    np.testing.assert_array_equal(parse(b"p_max\n15\n", "standard input")["p_max"], [15])


WRONG = {
    "empty": ("x.json", "", "x.json is empty"),
    "only spaces": ("x.csv", " \n\t", "x.csv is empty"),
    "only empty cells": ("x.csv", ",,\n", "x.csv is empty"),
    "no devices": ("x.csv", "p_max,rho\n", "has a header but no devices"),
    "broken json": ("x.json", '{"p_max": [1,', "not valid JSON"),
    "not an object": ("x.json", "[1, 2]", "must hold one JSON object"),
    "a number": ("x.json", "3", "must hold one JSON object"),
    "unknown key": ("x.json", '{"pmax": 1}', "unknown key 'pmax': did you mean 'p_max'?"),
    "unknown column": ("x.csv", "p_max,stalenes\n1,1\n", "unknown column 'stalenes': did you mean 'staleness'?"),
    "key twice": ("x.json", '{"p_max": 1, "p_max": 2}', "'p_max' is given twice"),
    "column twice": ("x.csv", "p_max,p_max\n1,2\n", "'p_max' is given twice"),
    "constant as column": ("x.csv", "p_max,omega\n1,2\n", "give it as --omega"),
    "text for a number": ("x.json", '{"p_max": ["a"]}', r"p_max\[0\] is 'a'"),
    "flag for a number": ("x.json", '{"p_max": [1, true]}', r"p_max\[1\] is True"),
    "null": ("x.json", '{"ready": null}', "ready is null"),
    "list in a list": ("x.json", '{"p_max": [[1], [2]]}', r"p_max\[0\] is a list"),
    "empty list": ("x.json", '{"p_max": []}', "p_max is empty"),
    "list for a constant": ("x.json", '{"omega": [3]}', "omega must be one number, not a list"),
    "text for a constant": ("x.json", '{"omega": "3"}', "omega must be one number, not '3'"),
    "a huge whole number": ("x.json", '{"p_max": [1' + "0" * 400 + "]}", "too large for a float64"),
    "text in a cell": ("x.csv", "p_max\n1\nx\n", r"p_max\[1\] must be a number, not 'x'"),
    "underscore in a cell": ("x.csv", "p_max\n1_5\n", r"p_max\[0\] must be a number, not '1_5'"),
    "missing cell": ("x.csv", "p_max,rho\n1,1\n1\n", "line 3 has 1 values, but there are 2 columns"),
    "wrong flag": ("x.csv", "p_max,ready\n1,2\n", r"ready\[0\] must be 1 or 0, not '2'"),
    "open quote": ("x.csv", 'p_max\n"1\n', "not valid CSV"),
    "too deep": ("x.json", "[" * 200_000, "nested too deeply|not valid JSON"),
}


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.replace(" ", "-"))
def test_broken_files_are_one_sentence(case):
    source, text, fragment = WRONG[case]
    with pytest.raises(UserError, match=fragment) as caught:
        parse(text.encode(), source)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_bytes_that_are_no_text():
    with pytest.raises(UserError, match="not UTF-8"):
        parse(b"\xff\xfe\x00", "x.json")


def test_too_large_files_are_refused_before_they_are_parsed(monkeypatch):
    monkeypatch.setattr(instance, "MAX_BYTES", 10)
    assert read_bounded(io.BytesIO(b"x" * 10), "x.json") == b"x" * 10
    with pytest.raises(UserError, match="larger than"):
        read_bounded(io.BytesIO(b"x" * 11), "x.json")


GOOD = {"p_max": [15.0, 10.0], "staleness": [0, 1], "similarity": [0.2, 0.9]}

SENSELESS = {
    "NaN": ({"p_max": [15, float("nan")]}, r"p_max\[1\] = nan must be a number"),
    "infinite": ({"p_max": [15, float("inf")]}, r"p_max\[1\] = inf must be finite"),
    "negative": ({"p_max": [15, -1]}, r"p_max\[1\] = -1 must not be negative"),
    "negative staleness": ({"staleness": [0, -1]}, r"staleness\[1\] = -1 must not be negative"),
    "similarity beyond 1": ({"similarity": [0.2, 1.5]}, r"similarity\[1\] = 1.5 must lie in \[0, 1\]"),
    "similarity below 0": ({"similarity": [-0.2, 1]}, r"similarity\[0\] = -0.2 must not be negative"),
    "wrong length": ({"similarity": [0.2]}, "similarity has 1 values, but p_max has 2"),
    "wrong ready": ({"ready": [1, 2]}, r"ready\[1\] = 2 must be true or false"),
    "ready too long": ({"ready": [1, 1, 1]}, "ready has 3 values, but p_max has 2"),
    "text": ({"p_max": "15"}, "p_max must be a number or a flat list"),
    "ragged": ({"p_max": [[1], [1, 2]]}, "p_max must be"),
    "two axes": ({"p_max": [[1, 2], [3, 4]]}, "p_max must be a flat list"),
    "no p_max": ({"p_max": None}, "p_max is missing"),
    "no staleness": ({"staleness": None}, r"staleness is missing \(or give rho\)"),
    "no similarity": ({"similarity": None}, r"similarity is missing \(or give theta\)"),
    "both forms": ({"rho": [1, 1]}, "give staleness or rho, not both"),
    "boxes too": ({"lo": [1, 1], "hi": [2, 2]}, "give lo and hi, or p_max and its companions"),
    "omega 0": ({"omega": 0}, "omega = 0 must be greater than 0"),
    "negative L": ({"smoothness": -1}, "smoothness = -1 must be at least 0"),
    "NaN eps": ({"epsilon2": float("nan")}, "epsilon2 = nan must be a finite number"),
    "half a device": ({"num_devices": 2.5}, "num_devices = 2.5 must be a whole number"),
    "no device": ({"num_devices": 0}, "num_devices = 0 must be at least 1"),
    "no parameter": ({"num_parameters": 0}, "num_parameters = 0 must be at least 1"),
    "flag as number": ({"num_parameters": True}, "num_parameters must be a number, not True"),
    "negative noise": ({"noise_power_w": -1e-9}, "noise_power_w = -1e-09 must be at least 0"),
    "two noises": ({"noise_power_w": 1, "bandwidth_hz": 1}, "noise_power_w, or bandwidth_hz and n0_dbm_per_hz"),
    "loud noise": ({"n0_dbm_per_hz": 1e9}, "n0_dbm_per_hz = 1e.09 is too large"),
    "overflow": ({"noise_power_w": 1e308}, "overflow a float64"),
    "nobody can send": ({"p_max": [0, 0]}, "no ready device can send"),
}


@pytest.mark.parametrize("case", SENSELESS, ids=lambda case: case.replace(" ", "-"))
def test_senseless_values_are_one_sentence(case):
    changes, fragment = SENSELESS[case]
    with pytest.raises(UserError, match=fragment):
        solve(**GOOD | changes)


@pytest.mark.parametrize(
    ("boxes", "fragment"),
    [
        ({"lo": [1, 3], "hi": [2, 2]}, r"lo\[1\] = 3 is greater than hi\[1\] = 2"),
        ({"lo": [1, 3]}, "hi is missing"),
        ({"hi": [1, 3]}, "lo is missing"),
        ({"lo": [1], "hi": [1, 2]}, "hi has 2 values, but lo has 1"),
        ({"lo": [-1], "hi": [1]}, r"lo\[0\] = -1 must not be negative"),
        ({"lo": [], "hi": []}, "lo is empty"),
    ],
)
def test_senseless_boxes_are_one_sentence(boxes, fragment):
    with pytest.raises(UserError, match=fragment):
        solve(**boxes)


def test_scalars_stand_for_every_device_and_noise_has_two_forms():
    # N0 = -74 dBm/Hz is 10^-10.4 W/Hz; times 20 MHz: 7.96e-4 W
    by_density = solve(p_max=15, staleness=[0, 1, 2], similarity=0.5, bandwidth_hz=20e6, n0_dbm_per_hz=-74)
    by_power = solve(p_max=[15] * 3, rho=[1, 0.75, 0.6], theta=[0.5] * 3, noise_power_w=20e6 * 10**-10.4)
    np.testing.assert_allclose(by_density.power, by_power.power, rtol=1e-14)
    assert by_density.term_e == pytest.approx(by_power.term_e, rel=1e-12)
    assert problem_from(p_max=15, staleness=0, similarity=1).noise_power_w == pytest.approx(7.962e-14, rel=1e-3)


def only_user_errors(data, source):
    """Parse and, where that works, solve: nothing but UserError may come out, and every answer is certified."""
    try:
        arguments = parse(data, source)
        solution = solve_problem(problem_from(**arguments))
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


@given(st.binary(max_size=200), st.sampled_from(["x.json", "x.csv", "standard input"]))
@example(b"\x00", "x.csv")
@example(b'"', "x.csv")
@example(b"p_max\r\r\n1\x00", "x.csv")
@settings(deadline=None)
def test_random_bytes(data, source):
    only_user_errors(data, source)


@given(st.one_of(anything, tables, plausible))
@settings(deadline=None, max_examples=300)
def test_random_json(table):
    only_user_errors(json.dumps(table).encode(), "x.json")


@given(st.text(max_size=100))
@settings(deadline=None)
def test_random_text_as_json(text):
    only_user_errors(text.encode("utf-8", "surrogatepass"), "x.json")


cells = st.one_of(
    st.floats(0, 1).map(str),
    st.floats().map(str),
    st.sampled_from(["1", "0", "", "nan", "1e400", '"', "true", "é", "1,2"]),
)


@given(
    st.lists(st.sampled_from([*DEVICE_KEYS, "omega", "nonsense", ""]), min_size=1, max_size=4, unique=True),
    st.lists(st.lists(cells, min_size=1, max_size=4), max_size=4),
)
@settings(deadline=None, max_examples=300)
def test_random_csv(header, rows):
    text = "\n".join(",".join(row) for row in [header, *rows])
    only_user_errors(text.encode(), "x.csv")


@given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(0, 9), st.floats(0, 1)), min_size=1, max_size=9))
@settings(deadline=None)
def test_sound_csv_is_solved(devices):
    text = "p_max,staleness,similarity\n" + "\n".join(",".join(map(repr, row)) for row in devices)
    p_max, staleness, similarity = (list(column) for column in zip(*devices, strict=True))
    solution = solve_problem(problem_from(**parse(text.encode(), "x.csv"), noise_power_w=0.1))
    again = solve(p_max=p_max, staleness=staleness, similarity=similarity, noise_power_w=0.1)
    np.testing.assert_array_equal(solution.power, again.power)
