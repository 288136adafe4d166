"""The docs name every algorithm with every option, and the table's figures are put together rightly."""

import dataclasses
import importlib.util
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import paota
from paota.air.settings import Air
from paota.base.registry import ALGORITHMS, CHANNELS, DIGITAL_UPLINKS, PATH_LOSSES

pytestmark = pytest.mark.usefixtures("clean_registries")

ROOT = Path(__file__).parents[2]
ALGORITHMS_PAGE = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
AIR_PAGE = (ROOT / "docs" / "air.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def field():
    spec = importlib.util.spec_from_file_location("field", ROOT / "benchmarks" / "field.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["field"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_has_a_section_with_its_options_and_source(name):
    section = ALGORITHMS_PAGE.partition(f"### `{name}`\n")[2].partition("\n#")[0]
    assert "**Rule:**" in section
    assert "**Source:**" in section
    for option in dataclasses.fields(ALGORITHMS[name]):
        assert f"`{option.name}`" in section, f"{name}.{option.name}"


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_stands_beside_its_scheme(name):
    page = (ROOT / "docs" / "timing.md").read_text(encoding="utf-8").partition("## Scheme")[2]
    scheme = type(ALGORITHMS[name]().scheme).__name__
    assert re.search(rf"^\| `{scheme}` \|.*\|[^|]*`{name}`[^|]*\|[^|]*\|$", page, re.MULTILINE)


def test_every_word_of_the_air_is_documented():
    for option in dataclasses.fields(Air):
        assert option.name in AIR_PAGE
    for registry in (CHANNELS, PATH_LOSSES, DIGITAL_UPLINKS):
        for name in registry:
            assert name in AIR_PAGE
            for option in dataclasses.fields(registry[name]):
                assert option.name in AIR_PAGE


def test_every_public_name_is_on_the_page_of_the_interface():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    types = {"Report"}  # what the page shows in signatures
    assert [name for name in paota.__all__ if name not in types and not re.search(rf"\b{name}\b", page)] == []
    for name in paota.__all__:
        assert getattr(paota, name).__doc__ or name in types


def test_the_page_of_commands_is_up_to_date():
    """Write it again with: python docs/_build/commands.py > docs/commands.md"""
    spec = importlib.util.spec_from_file_location("commands_page", ROOT / "docs" / "_build" / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == module.markdown()


def test_the_pages_of_the_notebooks_are_up_to_date():
    """Write them again with: python docs/_build/notebooks.py"""
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs" / "_build" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for notebook in module.NOTEBOOKS:
        page, pictures = module.markdown(notebook)
        assert (ROOT / "docs" / f"notebook-{notebook.stem}.md").read_text(encoding="utf-8") == page
        assert all((ROOT / "docs" / "img" / name).read_bytes() == content for name, content in pictures.items())


def test_the_field_has_all_algorithms_with_the_same_budget(field):
    rivals = (*field.RIVALS, *field.NEWCOMERS)
    entries = [variant for rival in rivals for variant in rival.variants()]
    made = paota.Experiment.from_dict(
        {"algorithms": [{**entry, "label": str(i)} for i, entry in enumerate(entries)]}  # all of them are valid
    )
    assert {entry.algorithm_name for entry in made.algorithms} == set(ALGORITHMS)
    assert {len(rival.variants()) for rival in rivals if rival.label != "paota-plus"} == {4}


def test_every_setting_has_its_numbers_and_its_figure(field):
    page = (ROOT / "docs" / "field.md").read_text(encoding="utf-8")
    for setting in field.SETTINGS:
        assert f"(data/field-{setting}.csv)" in page
        assert f"(img/field-{setting}.svg)" in page
        assert (ROOT / "docs" / "data" / f"field-{setting}.csv").read_text().splitlines()[0] == ",".join(field.COLUMNS)


def test_the_street_has_one_power_for_all(field):
    """0.2 W a digital sender; an analog one's limit is on the sum of its 8070 symbols, also with its own options."""
    labels = {rival.label: rival for rival in field.RIVALS}
    asked = {
        label: paota.Experiment.from_dict(field.Cell("street", labels[label], 0, 0).experiment()).algorithms[0]
        for label in ("fedbuff", "threshold")
    }
    assert asked["fedbuff"].power.max_power_w == 0.2
    assert asked["threshold"].power.max_power_w == 0.2 * 8070


def test_costs_are_read_where_the_target_is_first_reached(field):
    """80 % after the third event: 2 + 1 + 3 updates, 7 and 70 J; the unjudged event before it counts too."""
    metrics = {
        "round": np.arange(5), "time_s": np.array([0.0, 8, 16, 24, 320]), "ready": np.array([0, 2, 1, 3, 4]),
        "energy_j": np.array([0.0, 1, 2, 4, 8]), "airtime_s": np.array([0, 0.1, 0.1, 0.1, 0.1]),
        "compute_j": np.array([0.0, 10, 20, 40, 80]),
        "test_accuracy": np.array([0.1, 0.5, math.nan, 0.81, 0.79]),
    }  # fmt: skip
    kept = field.SETTINGS["paper"].measures(SimpleNamespace(metrics=metrics, diverged_round=None))
    assert (kept["time_s"], kept["updates"], kept["radiated_j"], kept["computed_j"]) == (24, 6, 7, 70)
    assert kept["airtime_ms"] == pytest.approx(300)
    assert [field.SETTINGS["paper"].accuracy_after(kept, at_s) for at_s in (8, 300, 600)] == [0.5, 0.81, 0.79]
    assert field.accuracy_after_updates(kept, 6) == 0.81
    assert field.accuracy_after_updates(kept, 9) == 0.81  # the tenth came later
    assert math.isnan(field.accuracy_after_updates(kept, 11))  # there were never 11 updates
    lost = field.SETTINGS["paper"].measures(SimpleNamespace(metrics=metrics, diverged_round=4))
    assert lost["time_s"] is None


def seeds_of(*times, accuracy=0.8):
    return [
        {
            "time_s": t,
            **dict.fromkeys(("updates", "radiated_j", "computed_j", "airtime_ms")),
            **({"updates": 10, "radiated_j": 1.0, "computed_j": 9.0, "airtime_ms": 2.0} if t else {}),
            "accuracy_on_grid": [accuracy] * 151,
            "updates_on_grid": list(range(0, 3020, 20)),
        }
        for t in times
    ]


def test_a_seed_that_never_reaches_the_target_is_counted(field):
    """100, 200 and never, which counts as 600: the mean is at least 300, and 2 of 3 seeds reach the target."""
    name = ("x", "default", "air")
    line = field.row(field.SETTINGS["paper"], name, seeds_of(100, 200, None), seeds_of(100, 100, 100))
    assert (line["reached"], line["seeds"]) == ("2", "3")
    assert (line["seconds"], line["seconds_interval"]) == ("300", "657")  # t(2) = 4.303: 4.303 * 264.6 / sqrt(3)
    assert (line["difference_s"], line["difference_interval"]) == ("+200", "657")  # paired: 0, 100, 500
    # 2 ms, 10 updates and 9 J are those of the two seeds; the third spent more
    assert (line["airtime_ms"], line["updates"], line["computed_kj"]) == ("2", "10", "0")


def test_a_setting_has_its_own_target_and_time(field):
    """CIFAR-10 uses the first target of its preset; a seed that never reaches it counts as 300 s."""
    cifar10 = field.SETTINGS["cifar10"]
    assert cifar10.target == paota.Experiment.preset("cifar10").targets[0]
    assert cifar10.seconds(seeds_of(100, None)).tolist() == [100, 300]
    assert (cifar10.looks_s, cifar10.look_updates) == ((150, 300), 1000)
    asked = field.Cell("cifar10", field.RIVALS[0], 0, 4).experiment()
    assert paota.Experiment.from_dict(asked).data == paota.Experiment.preset("cifar10").data
    assert (asked["duration_s"], asked["evaluation"]["every_s"]) == (300, 10)


def test_the_choice_is_made_on_the_tuning_seeds(field):
    assert field.SETTINGS["paper"].best_variant([seeds_of(100, None), seeds_of(300, 310), seeds_of(300, 310)]) == 1
    rival = field.Rival("x", {"name": "cotaf"}, field.SYNCHRONOUS)
    assert field.changes(rival, 2) == "participants = 30, selected = 100, learning_rate = 1.5, momentum = 0.3"


def test_what_is_kept_is_not_computed_again(field, tmp_path, monkeypatch):
    """One variant with one block, on real but tiny runs; other settings make the file worthless."""
    monkeypatch.setitem(field.SETTINGS, "paper", field.Setting(TINY, duration_s=30.0))
    cell = field.Cell("paper", field.Rival("fedbuff", {"name": "fedbuff"}), 0, 1)
    assert cell.outcome(tmp_path) is None
    cell.compute(tmp_path)
    kept = cell.outcome(tmp_path)
    assert len(kept) == 5
    assert all(0 < seed["accuracy_on_grid"][-1] < 1 for seed in kept)
    monkeypatch.setitem(field.SETTINGS, "paper", field.Setting(TINY, duration_s=31.0))
    assert cell.outcome(tmp_path) is None


TINY = {"model": {"name": "softmax"}, "data": {"dataset": "synthetic", "devices": 12, "sizes": [60]}}


def test_only_the_marked_part_is_replaced(field):
    page = "a\n<!-- field summary: begin -->\nold\n<!-- field summary: end -->\nb"
    assert field.between(page, "new", "field summary") == page.replace("old", "new")
    with pytest.raises(SystemExit, match="markers"):
        field.between("no markers", "new", "field summary")
