"""The reproduction page and its pictures, from cells and evidence that are made up."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.browser import Browser
from helpers.made_results import make_result

from paota.pages.page import Section, render
from paota.studies.bound.figure import bound_figures
from paota.studies.reproduce import catalogue
from paota.studies.reproduce.claims import claims
from paota.studies.reproduce.evidence import Curves, Evidence, NoiseCurve, Radiated
from paota.studies.reproduce.figures import draw_all
from paota.studies.reproduce.gather import METHOD_LABELS
from paota.studies.reproduce.page import build
from paota.studies.reproduce.tables import (
    ablation_rows,
    accuracy_rows,
    break_rows,
    power_rows,
    table1_rows,
    trial_rows,
    verdict_row,
)
from paota.studies.reproduce.verdicts import judge_all

SEEDS, ROUNDS, DEVICES = 3, 12, 8
SCALE = replace(catalogue.full(SEEDS), base={"data": {"devices": DEVICES}})
HOSTILE = '</script><img src=x onerror="alert(1)">'


@dataclass(frozen=True)
class MadeUp:
    """A finished cell: arrays by name, and the plain facts about it."""

    labels: list[str]
    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]

    def of(self, label: str, column: str) -> np.ndarray:
        return self.arrays[f"{self.labels.index(label)}/{column}"]

    def diverged(self, label: str) -> np.ndarray:
        return np.zeros(SEEDS, bool)


def rising(end: float) -> np.ndarray:
    """Accuracy [seeds, rounds + 1]; seeds differ by 1 point."""
    return end * (1 - 0.7 ** np.arange(ROUNDS + 1)) + 0.01 * np.arange(SEEDS)[:, None]


def curves(end: float = 0.9, round_s: float = 8.0) -> Curves:
    times_s = np.tile(np.arange(ROUNDS + 1) * round_s, (SEEDS, 1))
    return Curves(accuracy=rising(end), time_s=times_s, objective=2.5 - 2 * rising(end))


def cell(*labels: str, **arrays: np.ndarray) -> MadeUp:
    columns = {"test_accuracy": rising(0.9), "time_s": curves().time_s}
    columns |= {
        "over_budget": 0 * rising(1),
        "noise_std": 1e-8 + 0 * rising(1),
        "transmit_power_w_mean": 5 + 0 * rising(1),
    }
    own = {f"{i}/{name}": values for i in range(len(labels)) for name, values in columns.items()}
    return MadeUp(list(labels), own | arrays, {})


def bound_table(*, finite: bool = True) -> dict[str, np.ndarray]:
    rounds = np.arange(ROUNDS + 1)
    table = {"round": rounds, "gap": 0.9**rounds}
    for form in ("printed", "corrected"):
        table[f"{form}_bound"] = 2 * 0.9**rounds if finite else np.full(ROUNDS + 1, np.inf)
        table |= {f"{form}_{term}": np.append(np.nan, np.full(ROUNDS, 1e-3 if finite else np.nan)) for term in "abcde"}
    return table


def made_up() -> tuple[dict[str, MadeUp], Evidence]:
    records = make_result(labels=("paota",), seeds=1, rounds=ROUNDS, devices=DEVICES).trajectories[0].devices
    names = ("round", "device", "staleness", "start_s", "finish_s", "amplitude", "weight")
    quiet = cell(*METHOD_LABELS, **{f"devices/{name}": records[name] for name in names})
    swept = [cell("0.03", "0.1") for _ in METHOD_LABELS]
    powers = ("exact", "staleness", "similarity", "uniform")
    facts = {"findings": [HOSTILE], "constants": {"L": 1.0, "mu": None}, "system": {"learning_rate": 0.001}}
    cells = {
        "quiet": quiet,
        "loud": cell("paota", "paota-update", "cotaf"),
        "omega": cell("1", "3"),
        "beta": cell(*powers),
        "beta-update": cell(*powers),
        "bound-0.001": MadeUp([], bound_table(), facts),
        **{f"eta-{method}": each for method, each in zip(METHOD_LABELS, swept, strict=True)},
        **{
            f"{kind}={value}": cell("paota", "paota-update")
            for kind in ("period", "classes", "devices")
            for value in (6, 12)
        },
    }
    settings = {method: curves(0.9, 8 if "paota" in method else 15) for method in METHOD_LABELS}
    noise = {
        name: NoiseCurve(
            title=title, levels_dbm=(-300.0, -74.0, 0.0), accuracy=np.tile([[0.9], [0.8], [0.1]], SEEDS), path_loss=far,
            radiated=Radiated(median_w=watts, over_budget=float(watts > 15)),
        )
        for name, title, far, watts in (
            ("paota-paper", HOSTILE, False, 12164.0), ("cotaf", "COTAF", False, 7.2), ("cotaf-fading-far", "COTAF", True, 1.0),
        )
    }  # fmt: skip
    loud = {method: settings[method] for method in ("paota", "paota-update", "cotaf")}
    return cells, Evidence(quiet=settings, loud=loud, six=settings, optimum=np.full(SEEDS, 0.1), noise=noise)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Section]]:
    folder = tmp_path_factory.mktemp("reproduction with space")
    (folder / "figures").mkdir()
    cells, evidence = made_up()
    sections = draw_all(cells, evidence, folder / "figures")  # type: ignore[arg-type]
    tables = {
        "table1": list(table1_rows(evidence)),
        "accuracy": list(accuracy_rows(evidence)),
        "breaks": list(break_rows(evidence)),
        "ablations": list(ablation_rows(cells)),  # type: ignore[arg-type]
        "power": list(power_rows(cells, evidence)),  # type: ignore[arg-type]
        "optimum": [],
    }
    verdicts = judge_all(evidence, claims())
    tables |= {
        "verdicts": [verdict_row(v) for v in verdicts],
        "trials": [row for v in verdicts for row in trial_rows(v)],
    }
    (folder / "report.html").write_text(render(build(SCALE, cells, tables, sections)), encoding="utf-8")  # type: ignore[arg-type]
    return folder / "report.html", sections


def test_every_figure_has_a_section_a_picture_and_a_link_to_it(page: tuple[Path, list[Section]]) -> None:
    pytest.importorskip("matplotlib")
    path, sections = page
    names = ["fig3-gap", "fig4-accuracy", "noise", "ablations", "eta", "bound", "fig2-workflow"]
    assert [section.id for section in sections] == names
    text = path.read_text(encoding="utf-8")
    for name in names:
        assert (path.parent / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (path.parent / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert f'href="figures/{name}.pdf"' in text
    assert re.findall(r'<section id="([\w-]+)"', text) == ["verdicts", "table1", *names, "breaks", "theorem", "more"]


def test_the_figures_show_the_evidence(page: tuple[Path, list[Section]]) -> None:
    figures = {figure.id: figure for section in page[1] for figure in section.figures}
    accuracy = figures["accuracy"].views
    assert list(accuracy) == ["seconds", "rounds"]
    paota, _, local_sgd, _ = accuracy["rounds"].traces
    # Mean of seeds that differ by a point: the middle one; the middle half of three is half a point around it.
    assert paota["y"][1] == pytest.approx(0.9 * 0.3 + 0.01)
    assert paota["band"][0][1] == pytest.approx(0.9 * 0.3 + 0.005)
    slow = accuracy["seconds"].traces[2]
    assert max(slow["x"]) == ROUNDS * 8  # the paper compares up to where PAOTA ends
    assert slow["y"][-1] == pytest.approx(local_sgd["y"][6])  # 96 s are six whole rounds of 15 s
    noise, _ = figures["noise-near"].views["all"].traces
    assert (noise["x"], noise["y"], noise["name"]) == ([-74, 0], [0.8, 0.1], HOSTILE)
    assert [trace["series"] for trace in figures["beta"].views["all"].traces] == [0, 1]


@pytest.mark.slow
def test_the_same_evidence_gives_the_same_bytes(page: tuple[Path, list[Section]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_all(*made_up(), tmp_path)  # type: ignore[arg-type]
    for picture in tmp_path.iterdir():
        assert picture.read_bytes() == (page[0].parent / "figures" / picture.name).read_bytes(), picture.name


def test_a_bound_that_is_not_finite_leaves_the_measured_gap() -> None:
    (figure,) = bound_figures(bound_table(finite=False))
    assert [trace["name"] for trace in figure.views["all"].traces] == ["measured gap"]
    assert len(bound_figures(bound_table())) == 2


def test_without_figures_and_with_nothing_run_the_page_says_so() -> None:
    names = ("verdicts", "trials", "table1", "accuracy", "ablations", "breaks", "optimum", "power")
    text = render(build(catalogue.full(), {}, {name: [] for name in names}, []))
    assert text.count("This part was not run.") == 6
    assert "Smoke run" not in text


@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser(browser: Browser, page: tuple[Path, list[Section]], width: int) -> None:
    browser.open(page[0], "#draw=all", width=width)
    browser.wait_for(
        "document.querySelectorAll('.plot .main-svg:first-child').length === document.querySelectorAll('.plot').length"
    )
    empty = browser.run(
        "[...document.querySelectorAll('.plot')].filter((place) => !place.querySelector('.trace, .point'))"
        ".map((place) => place.dataset.figure)"
    )
    assert empty == []
    trials = 2 + 2 + 2 + 3 + 4 + 3 + 2  # of the seven claims; only two lines of the noise sweep are there
    assert browser.run("document.querySelectorAll('.prose .badge').length") == 7 + trials
    assert "12,164 W against 7.2 W (+32 dB); unequal" in browser.run("document.body.textContent")
    assert browser.run("document.querySelectorAll('main img, .plot a').length") == 0
    legend = browser.run("document.querySelector('[data-figure=noise-near] .legend').textContent")
    assert "</script><img" in legend
    assert browser.run("document.documentElement.scrollWidth") == width
    browser.run("document.querySelector('[data-table=accuracy]').open = true")
    rows = browser.run("[...document.querySelectorAll('[data-table=accuracy] th')].map((head) => head.textContent)")
    assert rows
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


def test_data_are_json_and_small(page: tuple[Path, list[Section]]) -> None:
    text = page[0].read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.DOTALL)
    assert found
    data = json.loads(found.group(1), parse_constant=pytest.fail)
    assert [series["name"] for series in data["series"]] == ["PAOTA", "PAOTA (update)", "Local SGD", "COTAF"]
    assert len(text.encode()) < 6_000_000
