"""The file as a file: whole or absent, small, self-contained, and honest about what it does not know."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.made_results import by_hand, make_result

from paota.base.errors import UserError
from paota.pages.page import script_hash
from paota.results.result import Result, Trajectory
from paota.studies.report.report import render, write

HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<!--<img src=x onerror=alert(1)>-->",
    "\"'><b>bold</b>&amp;",
    "\u05d0\u05d1 right-to-left",
    "%{x} {{data}} $text <a href='javascript:alert(1)'>link</a>",
    "=HYPERLINK(1)",
]


def own_part(document: str) -> str:
    """The page without the drawing library."""
    from plotly.offline import get_plotlyjs

    library = get_plotlyjs()
    assert document.count(library) == 1
    return document.replace(library, "")


def data_of(document: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', document, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found.group(1), parse_constant=pytest.fail)
    return data


@pytest.fixture(scope="module")
def usual() -> str:
    return render([make_result(diverged=("cotaf",), spending=True)])


def test_usual_report_is_under_six_megabytes(usual: str) -> None:
    assert 4_000_000 < len(usual.encode("utf-8")) < 6_000_000


def test_has_every_section_and_figure(usual: str) -> None:
    sections = re.findall(r'<section id="([\w-]+)"', usual)
    expected = ["results", "learning", "targets", "timing", "timeline", "power", "devices", "cost", "about"]
    assert sections == expected
    figures = {
        "test-accuracy", "test-loss", "train-loss", "targets", "ready", "staleness", "staleness-mean", "staleness-max",
        "timeline", "amplitude-sum", "weight-square-sum", "noise-std", "transmit-power-w-mean", "transmit-power-w-max",
        "participation", "influence", "weight-by-staleness", "similarity-by-staleness", "spent-energy",
    }  # fmt: skip
    assert set(data_of(usual)["figures"]) == figures
    assert set(re.findall(r'data-figure="([\w-]+)"', usual)) == figures
    texts = re.findall(r'role="img" aria-label="([^"]*)"', usual)
    assert len(texts) == len(figures)
    assert all(texts)
    assert any(
        re.fullmatch(r"Line chart of Test accuracy against simulated seconds. Last values: paota .*%.", t)
        for t in texts
    )


def test_a_privacy_card_where_updates_were_clipped() -> None:
    """The card shows the largest loss over all seeds for each existing account, and no other account."""
    result = make_result(labels=("paota", "local-sgd"), seeds=2, rounds=6)
    for number, run in enumerate(result.trajectories):
        if run.label == "paota":
            loss = np.linspace(0, 3.0 + number, 7)
            run.metrics.update(
                {"rho_max": loss, "epsilon_max": 2 * loss, "own_rho_max": loss / 4, "own_epsilon_max": loss}
            )
    page = render([result])
    card = re.search(r'<section id="privacy".*?</section>', page, re.DOTALL)
    assert card
    text = re.sub(r"<[^>]+>|\s+", " ", card[0])
    assert "receiver's noise alone" in html.unescape(text)
    assert "all who send" not in text
    assert re.search(r"paota\s+4\s+8\s+1\s+4", re.sub(r"\s+", " ", text))
    assert {"epsilon-max", "own-epsilon-max"} <= set(data_of(page)["figures"])
    assert 'id="privacy"' not in render([make_result(seeds=1, rounds=4)])


def test_figures_say_what_they_show(usual: str) -> None:
    figures = data_of(usual)["figures"]
    assert figures["spent-energy"]["views"]["all"]["layout"]["xaxis"]["type"] == "log"
    notes = figures["test-accuracy"]["views"]["seconds"]["layout"]["annotations"]
    assert [note["text"] for note in notes] == [f"target {percent}\u202f%" for percent in (50, 60, 70, 80)]
    twins = by_hand({"a": [[(0.0, 0.1), (8.0, 0.8)]], "b": [[(0.0, 0.1), (8.0, 0.8)]], "c": [[(0.0, 0.1), (8.0, 0.5)]]})
    page = re.sub(r"<[^>]+>", "", own_part(render([twins])))
    assert "Dotted lines mark the targets. a and b coincide." in page


def test_a_sentence_replaces_figures_of_constants(usual: str) -> None:
    """Every transmission of the made runs exceeds the budget, so a figure of the share would be flat lines."""
    intro = re.search(r'<section id="power".*?<p class="intro">(.*?)</p>', usual, re.DOTALL)
    assert intro
    assert (
        "Constant, so not drawn: Devices over the power limit (paota 100.0\u202f%, cotaf 100.0\u202f%)."
        in intro.group(1)
    )


def test_the_first_figure_of_a_section_is_shown_and_the_others_fold(usual: str) -> None:
    sections = re.findall(r'<section id="([\w-]+)"(.*?)</section>', usual, re.DOTALL)
    shown = {
        name: re.findall(r'data-figure="([\w-]+)"', body.split('<details class="more">')[0]) for name, body in sections
    }
    assert [figure for figures in shown.values() for figure in figures] == [
        "test-accuracy", "targets", "staleness", "timeline", "amplitude-sum", "participation", "spent-energy",
    ]  # fmt: skip


def test_refers_to_nothing_outside_itself(usual: str) -> None:
    own = own_part(usual)
    for word in ("http:", "https:", "src=", "@import", "url(", "//cdn", "file:"):
        assert word not in own, word
    assert re.findall(r'<link[^>]*href="([^"]*)"', own) == ["data:,"]


def test_only_its_own_scripts_may_run(usual: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', usual)
    assert policy
    assert policy.group(1).startswith("default-src 'none';")
    assert "'unsafe-inline'" not in policy.group(1).split("script-src")[1].split(";")[0]
    scripts = re.findall(r"<script>(.*?)</script>", usual, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        assert script_hash(script) in policy.group(1)


def test_names_are_escaped_everywhere() -> None:
    result = make_result("</title><script>1</script>", tuple(HOSTILE), seeds=1, rounds=3, devices=4)
    own = own_part(render([result, result], title="<script>2</script> line\u2028break"))
    assert own.count("<script") == 3
    for name in HOSTILE[:3]:
        assert name not in own
    for tag in ("<img", "<b>", "<a href='", "owned'</script>", "\u2028"):
        assert tag not in own.replace("line\u2028break", ""), tag
    names = [series["name"] for series in data_of(own)["series"]]
    assert names[0] == f"</title><script>1</script>: {HOSTILE[0]}"
    assert names[len(HOSTILE)].startswith("</title><script>1</script> (2): ")


def test_what_does_not_apply_is_null_and_never_nan(usual: str) -> None:
    data = data_of(usual)  # fails on a bare NaN
    losses = {trace["series"]: trace for trace in data["figures"]["test-loss"]["views"]["rounds"]["traces"]}
    assert set(losses) == {0, 1, 2}
    # Local SGD has no air.
    assert {trace["series"] for trace in data["figures"]["noise-std"]["views"]["all"]["traces"]} == {0, 2}
    rounds = data["figures"]["targets"]["views"]["rounds"]["traces"]
    assert all(value is None or value > 0 for trace in rounds if trace["type"] == "bar" for value in trace["y"])


CASES: dict[str, dict[str, Any]] = {
    "one round": {"rounds": 1},
    "one device": {"devices": 1, "rounds": 30},
    "one seed": {"seeds": 1},
    "no device was ever ready": {"labels": ("paota",), "seeds": 1, "rounds": 1, "devices": 1},
    "no air": {"labels": ("local-sgd",)},
    "targets never reached": {"rounds": 2, "targets": (0.99,)},
    "no targets": {"targets": ()},
    "everything diverged": {"seeds": 1, "diverged": ("paota", "local-sgd", "cotaf")},
    "no device records": {"records": False},
    "evaluated now and then": {"evaluate_every": 7},
    "very stale": {"period_s": 0.1, "labels": ("paota",), "rounds": 400, "seeds": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_unusual_runs(case: str, tmp_path: Path) -> None:
    result = make_result(**{"rounds": 12, "devices": 10, "seeds": 2} | CASES[case])
    path = tmp_path / "report.html"
    write([result], path)
    data = data_of(path.read_text(encoding="utf-8"))
    assert "test-accuracy" in data["figures"]
    write([result, result], path)
    assert "run-1" in data_of(path.read_text(encoding="utf-8"))["figures"]


def test_all_accuracies_unknown() -> None:
    result = make_result(rounds=3, seeds=1, devices=3, labels=("paota",))
    result.trajectories[0].metrics["test_accuracy"][:] = np.nan
    document = render([result])
    assert "test-accuracy" not in data_of(document)["figures"]
    assert "No algorithm reached" in document


def test_a_hundred_thousand_rows_stay_small() -> None:
    short = make_result(labels=("paota",), seeds=2, rounds=500, devices=4)
    long = Result(experiment=short.experiment, trajectories=[repeated(each, 100) for each in short.trajectories])
    assert len(long.metrics["round"]) == 2 * 50_001
    document = render([long])
    assert len(document.encode("utf-8")) < 6_000_000
    curve = data_of(document)["figures"]["test-accuracy"]["views"]["rounds"]["traces"][0]
    assert len(curve["x"]) == 300
    assert curve["x"][-1] == 50_000


def repeated(trajectory: Trajectory, times: int) -> Trajectory:
    """The same rounds again and again, as one long run."""
    rounds, end_s = int(trajectory.metrics["round"][-1]), float(trajectory.metrics["time_s"][-1])

    def table(columns: dict[str, np.ndarray], first: int) -> dict[str, np.ndarray]:
        tiled = {name: np.tile(values[first:], times) for name, values in columns.items()}
        lap = np.repeat(np.arange(times), len(columns["round"]) - first)
        for name, step in (
            ("round", rounds),
            ("version", rounds),
            ("time_s", end_s),
            ("start_s", end_s),
            ("finish_s", end_s),
        ):
            if name in tiled:
                tiled[name] = tiled[name] + step * lap
        return {name: np.concatenate([columns[name][:first], values]) for name, values in tiled.items()}

    return replace(trajectory, metrics=table(trajectory.metrics, 1), devices=table(trajectory.devices, 0))


def test_many_series_stay_small_and_the_table_has_them_all() -> None:
    labels = tuple(f"paota {number}" for number in range(60))
    document = render([make_result(labels=labels, seeds=2, rounds=60, devices=30)])
    assert len(document.encode("utf-8")) < 6_000_000
    data = data_of(document)
    assert len(data["series"]) == 48
    assert document.count('<span class="who">') == 60
    assert "12 more in the table only" in document
    assert "Of 48 timelines the first 12 are kept." in document


def test_settings_can_be_saved_and_run_again(usual: str) -> None:
    import html
    import tomllib

    found = re.search(r'id="settings-0">(.*?)</pre>', usual, re.DOTALL)
    assert found
    settings = tomllib.loads(html.unescape(found.group(1)))
    assert settings["timing"]["period_s"] == 8.0
    assert [entry["name"] for entry in settings["algorithms"]] == ["paota", "local-sgd", "cotaf"]
    assert "paota run experiment.toml --seeds 5" in usual


def test_title_is_the_runs_name_unless_given() -> None:
    small = make_result("my run", rounds=1, seeds=1, devices=1, labels=("local-sgd",))
    assert "<title>my run</title>" in render([small])
    assert "<title>2 runs compared</title>" in render([small, small])
    assert "<title>A &amp; B</title>" in render([small], title="A & B")


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    small = make_result(rounds=1, seeds=1, devices=1)

    def full_disk(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(UserError, match="No space left on device"):
        write([small], path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    small = make_result(rounds=1, seeds=1, devices=1)
    with pytest.raises(UserError, match="at least one run"):
        write([], tmp_path / "report.html")
    with pytest.raises(UserError, match="it is a folder"):
        write([small], tmp_path)
    with pytest.raises(UserError, match="cannot write"):
        write([small], tmp_path / "absent" / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_same_runs_give_the_same_file() -> None:
    one: Result = make_result(rounds=5, seeds=2, devices=5)
    assert render([one]) == render([one])
