"""The field: every rival has the same budget, and what is reported chose nothing."""

import importlib
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import paota
from paota.base.registry import ALGORITHMS
from paota.simulate import prepare

ROOT = Path(__file__).parents[2]
TINY = {"model": {"name": "softmax"}, "data": {"dataset": "synthetic", "devices": 12, "sizes": [60]}}


@pytest.fixture(scope="module")
def modules():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield SimpleNamespace(**{n: importlib.import_module(n) for n in ("field", "field_page", "field_settings")})
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture
def field(modules):
    return modules.field


@pytest.fixture
def page(modules):
    return modules.field_page


def seeds_of(*times):
    return [
        {
            "time_s": t, "accuracy": 0.8, **dict.fromkeys(("updates", "computed_j", "airtime_ms")),
            **({"updates": 10, "computed_j": 900.0, "airtime_ms": 2.0} if t else {}),
        }
        for t in times
    ]  # fmt: skip


def test_all_algorithms_take_part_and_every_trial_is_a_valid_entry(field):
    corners = [None, [0.0] * 5, [1.0] * 5, [0.5] * 5]
    entries = [
        rival.entry(at, devices)
        for rival in field.RIVALS + field.OTHERS + field.ASYNCHRONOUS
        for at in corners
        for devices in (30, 400)
    ]
    made = paota.Experiment.from_dict(
        {"rounds": 2, "algorithms": [{**entry, "label": str(i)} for i, entry in enumerate(entries)]}
    )
    prepare(made, seeds=1)  # servers that step along updates need updates
    assert {entry.algorithm_name for entry in made.algorithms} == set(ALGORITHMS)
    for name in ("paota", "cotaf", "local-sgd"):  # the paper's
        assert name in {rival.label for rival in field.RIVALS}


def test_reported_seeds_choose_nothing(field):
    searched = {first + n for first, count in (field.FIRST_SEEDS, field.SEARCH_SEEDS) for n in range(count)}
    assert searched == {0, 1, 2, 3, 4}
    assert field.SHOWN_SEEDS == (1000, 15)
    assert field.TRIALS == 64


def test_every_setting_has_its_numbers_and_its_figure(field):
    text = (ROOT / "docs" / "field.md").read_text(encoding="utf-8")
    assert len(field.SETTINGS) == 17
    for setting in field.SETTINGS:
        assert f"(data/field-{setting}.csv)" in text
        assert f"(img/field-{setting}.svg)" in text
        assert (ROOT / "docs" / "data" / f"field-{setting}.csv").read_text().splitlines()[0] == ",".join(field.COLUMNS)


def test_the_page_shows_the_numbers_of_the_files(page):
    text = (ROOT / "docs" / "field.md").read_text(encoding="utf-8")
    assert page.between(text, page.summary(), "field summary") == text


def test_the_street_has_one_power_for_all(field):
    """0.2 W a digital sender; an analog one's limit is on the sum of its 8070 symbols, also with its own options."""
    rivals = {rival.label: rival for rival in field.RIVALS + field.OTHERS}
    for label, watts in (("fedbuff", 0.2), ("threshold", 0.2 * 8070)):
        pair = field.Pair("street", rivals[label])
        table = pair.judged.experiment("street", 0, [pair.entry(None, "0")])
        assert paota.Experiment.from_dict(table).algorithms[0].power.max_power_w == watts


def test_costs_are_read_where_the_target_is_first_reached(field):
    """80 % after the third event: 2 + 1 + 3 updates and 70 J; the unjudged event before it counts too."""
    metrics = {
        "round": np.arange(5), "time_s": np.array([0.0, 8, 16, 24, 320]), "ready": np.array([0, 2, 1, 3, 4]),
        "airtime_s": np.array([0, 0.1, 0.1, 0.1, 0.1]), "compute_j": np.array([0.0, 10, 20, 40, 80]),
        "test_accuracy": np.array([0.1, 0.5, math.nan, 0.81, 0.79]),
    }  # fmt: skip
    kept = field.SETTINGS["paper"].measures(SimpleNamespace(metrics=metrics, diverged_round=None))
    assert (kept["time_s"], kept["updates"], kept["computed_j"], kept["accuracy"]) == (24, 6, 70, 0.79)
    assert kept["airtime_ms"] == pytest.approx(300)
    lost = field.SETTINGS["paper"].measures(SimpleNamespace(metrics=metrics, diverged_round=4))
    assert lost["time_s"] is None


def test_a_seed_that_never_reaches_the_target_is_counted(field):
    """100, 200 and never, which counts as 600: the mean is at least 300, and 2 of 3 seeds reach the target."""
    line = field.row(
        field.SETTINGS["paper"], ("x", "default", "air"), seeds_of(100, 200, None), seeds_of(100, 100, 100)
    )
    assert (line["reached"], line["seeds"]) == ("2", "3")
    assert (line["seconds"], line["seconds_interval"]) == ("300.0", "657.2")  # t(2) = 4.303: 4.303 * 264.6 / sqrt(3)
    assert (line["difference_s"], line["difference_interval"]) == ("+200.0", "657.2")  # paired: 0, 100, 500
    assert line["p_value"] == "0.32"  # t = 200 / (264.6 / sqrt(3)) = 1.309
    assert (line["airtime_ms"], line["updates"], line["computed_kj"]) == ("2.0", "10.0", "0.9")


def test_comparisons_are_corrected_for_their_number(page):
    """Holm: 0.01 <= 0.05 / 3, but 0.03 > 0.05 / 2, and then 0.04 is not significant either."""
    assert page.holm({"a": 0.03, "b": 0.01, "c": 0.04}) == {"b": True, "a": False, "c": False}


def test_a_search_finds_a_better_trial_and_keeps_it(field, modules, tmp_path, monkeypatch):
    """A small search on real but tiny runs: it reads its file the next time, and computes again for other settings."""
    monkeypatch.setitem(
        modules.field.SETTINGS, "paper", modules.field_settings.Setting("", TINY, duration_s=40.0, target=0.5)
    )
    for name, value in {"FIRST": 4, "GENERATIONS": 1, "EACH": 2, "PARENTS": 2, "KEPT": 2}.items():
        monkeypatch.setattr(field, name, value)
    pair = field.Pair("paper", next(rival for rival in field.RIVALS if rival.label == "cotaf"))
    computed = []
    monkeypatch.setattr(field.Pair, "run", lambda self, *a, run=field.Pair.run: computed.append(a) or run(self, *a))
    best = pair.search(tmp_path)
    assert len(computed) == 3  # at random, near the best, and the last seeds of the best two
    assert pair.search(tmp_path) == best
    assert len(computed) == 3
    assert len(pair.report(tmp_path, best)) == 15
    monkeypatch.setitem(
        modules.field.SETTINGS, "paper", modules.field_settings.Setting("", TINY, duration_s=41.0, target=0.5)
    )
    pair.search(tmp_path)
    assert len(computed) == 7


def test_devices_leave_and_come_back(modules, tmp_path):
    modules.field_settings.write_day_and_night(tmp_path / "fleet.csv", devices=20)
    table = {
        "duration_s": 60.0, "data": {"devices": 20}, "algorithms": [{"name": "paota-plus"}],
        "timing": {"fleet_file": str(tmp_path / "fleet.csv"), "fleet_repeat_s": 200.0},
    }  # fmt: skip
    result = paota.run(table)
    assert 0 < len(np.unique(result.of("paota-plus")[0].devices["device"])) <= 20


def test_only_the_marked_part_is_replaced(page):
    text = "a\n<!-- field summary: begin -->\nold\n<!-- field summary: end -->\nb"
    assert page.between(text, "new", "field summary") == text.replace("old", "new")
    with pytest.raises(SystemExit, match="markers"):
        page.between("no markers", "new", "field summary")
