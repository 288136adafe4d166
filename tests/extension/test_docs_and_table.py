"""The docs name every algorithm with every option, and the table's figures are put together rightly."""

import dataclasses
import importlib.util
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import paota
from paota.air.settings import Air
from paota.registry import ALGORITHMS, CHANNELS, DIGITAL_UPLINKS, PATH_LOSSES

ROOT = Path(__file__).parents[2]
ALGORITHMS_PAGE = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
AIR_PAGE = (ROOT / "docs" / "air.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def field():
    spec = importlib.util.spec_from_file_location("field", ROOT / "benchmarks" / "field.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_is_documented_with_its_options(name):
    (line,) = re.findall(rf"^\| `{name}` \|.*$", ALGORITHMS_PAGE, re.MULTILINE)
    for option in dataclasses.fields(ALGORITHMS[name]):
        assert f"`{option.name}`" in line, f"{name}.{option.name}"
    assert f"**{name}**" in ALGORITHMS_PAGE


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


@pytest.mark.parametrize("setting", ["paper", "realistic"])
def test_the_tables_in_the_docs_have_all_algorithms(field, setting):
    made = field.experiment(setting, 100)
    assert {contestant.algorithm_name for contestant in made.contestants} == set(ALGORITHMS)
    table = ALGORITHMS_PAGE.split(f"field table, {setting}: begin")[1].split("field table")[0]
    for contestant in made.contestants:
        assert f"\n| {contestant.label} |" in table


def test_costs_are_read_where_the_target_is_first_reached(field):
    """80 % after the third event: 2 + 1 + 3 updates, 7 J; the unjudged event before it counts too."""
    metrics = {
        "round": np.arange(5), "time_s": np.array([0.0, 8, 16, 24, 32]), "ready": np.array([0, 2, 1, 3, 4]),
        "energy_j": np.array([0.0, 1, 2, 4, 8]), "airtime_s": np.array([0, 0.1, 0.1, 0.1, 0.1]),
        "test_accuracy": np.array([0.1, 0.5, math.nan, 0.81, 0.79]),
    }  # fmt: skip
    reached = field.spent_to_target(SimpleNamespace(metrics=metrics, diverged_round=None))
    assert (reached["round"], reached["time_s"], reached["updates"], reached["energy_j"]) == (3, 24, 6, 7)
    assert reached["airtime_ms"] == pytest.approx(300)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([10.0, 12.0], "11.0 ± 1.4"),
        ([300.0, 340.0], "320 ± 28"),
        ([2e-10, 4e-10], "(3.0 ± 1.4)e-10"),
        ([math.inf, math.inf], "never"),
        ([math.nan, math.nan], "–"),
        ([10.0, 12.0, math.inf], "11.0 ± 1.4 (2 of 3 seeds)"),
    ],
)
def test_figures(field, values, text):
    assert field.spread(values) == text


def test_only_the_table_is_replaced(field):
    page = "a\n<!-- field table, paper: begin -->\nold\n<!-- field table, paper: end -->\nb"
    made = field.replaced(page, "new", "paper")
    assert made == page.replace("old", "new")
    with pytest.raises(SystemExit, match="markers"):
        field.replaced("no markers", "new", "paper")
