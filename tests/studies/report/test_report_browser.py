"""Tests of the report in a real browser: drawing, mouse and keyboard, phones, print, and no network."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from helpers.browser import Browser
from helpers.made_results import make_result

from paota.studies.report.report import write

LONG = "a_very_long_label_without_any_space_that_would_push_the_page_to_the_side_" * 2
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<a href='javascript:alert(1)'>%{x}</a>",
    LONG,
)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("usual") / "report.html"
    write([make_result(seeds=3, rounds=40, devices=30, diverged=("cotaf",))], path)
    return path


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with names that attack the page."""
    path = tmp_path_factory.mktemp("compared") / "report with space.html"
    targets = (0.15, 0.2, 0.25, 0.3, 0.35)
    runs = [make_result(name, HOSTILE, seeds=1, rounds=8, devices=5, targets=targets) for name in ("<script>", LONG)]
    write(runs, path, title="<b>compared</b>")
    return path


FIGURES = "document.querySelectorAll('.plot').length"
UNFOLDED = "[...document.querySelectorAll('.plot')].filter((place) => !place.closest('details.more')).length"
UNFOLD = "document.querySelectorAll('details.more').forEach((details) => { details.open = true; })"
DRAWN = "document.querySelectorAll('.plot .main-svg:first-child').length"
X_TITLE = "document.querySelector('[data-figure=test-accuracy] .xtitle').textContent"
LINES = "document.querySelectorAll('[data-figure=test-accuracy] .scatterlayer .js-line').length"
PRESSED = "[...document.querySelectorAll('.toggle [aria-pressed=true]')].map((button) => button.dataset.view)"
READY = "document.body.dataset.ready === 'true'"


def assert_quiet(browser: Browser) -> None:
    assert browser.complaints == []
    strangers = [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:", "about:"))]
    assert strangers == []


def test_draws_what_is_near_first_and_the_rest_when_scrolled_to(browser: Browser, usual: Path) -> None:
    browser.open(usual)
    figures, at_first = browser.run(FIGURES), browser.run(DRAWN)
    assert 0 < at_first < browser.run(UNFOLDED) < figures
    browser.run(UNFOLD)
    for step in range(1, 9):
        browser.run(f"window.scrollTo({{top: document.body.scrollHeight * {step} / 8, behavior: 'instant'}})")
        time.sleep(0.1)
    browser.wait_for(f"{DRAWN} === {figures}")
    assert_quiet(browser)


AT_LOAD = f"addEventListener('load', () => {{ window.drawnAtLoad = {DRAWN}; }})"


def test_a_plain_picture_of_a_large_window_has_every_unfolded_figure(browser: Browser, usual: Path) -> None:
    """`chromium --screenshot --window-size=1600,9000` takes its picture when the page is loaded, and not later."""
    script = browser.send("Page.addScriptToEvaluateOnNewDocument", source=AT_LOAD)["identifier"]
    browser.open(usual, width=1600, height=9000)
    browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    assert browser.run(f"window.drawnAtLoad === {UNFOLDED}")
    browser.run(UNFOLD)
    browser.wait_for(f"{DRAWN} === {FIGURES}")
    assert browser.run("document.querySelector('main').clientWidth") == 1600
    columns = "getComputedStyle(document.querySelector('#timing .more .grid')).gridTemplateColumns.split(' ').length"
    assert browser.run(columns) == 3
    box = "document.querySelector('.table-box')"
    assert browser.run(f"{box}.scrollWidth <= {box}.clientWidth")
    empty = browser.run(
        "[...document.querySelectorAll('.plot')]"
        ".filter((place) => !place.querySelector('.trace, .point, .boxlayer path'))"
        ".map((place) => place.dataset.figure)"
    )
    assert empty == []
    assert browser.run("document.querySelectorAll('.plot.empty').length") == 0
    assert_quiet(browser)


def test_paper_is_light_and_cuts_nothing(browser: Browser, usual: Path) -> None:
    browser.open(usual, dark=True)
    browser.send("Emulation.setEmulatedMedia", media="print")
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    browser.wait_for(f"{DRAWN} === {FIGURES}")
    widths = (
        "[...document.querySelectorAll('.plot .main-svg:first-child')].map((svg) => svg.getBoundingClientRect().width)"
    )
    assert max(browser.run(widths)) <= 688  # of A4
    assert browser.run("Math.max(...[...document.querySelectorAll('main *')].map((part) => part.scrollWidth))") <= 690
    assert browser.run("document.querySelector('.plot .main-svg').style.background") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('h1')).color") == "rgb(26, 31, 39)"
    legend = "document.querySelector('[data-figure=test-accuracy] .legend')"
    assert browser.run(f"{legend}.textContent") == "paotalocal-sgdcotaf"
    browser.send("Emulation.setEmulatedMedia", media="")
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    browser.wait_for(f"{READY} && !{legend} && document.querySelector('.plot .main-svg').clientWidth > 688")
    assert browser.run("document.querySelectorAll('details.more[open]').length") == 0
    assert_quiet(browser)


def test_opens_on_seconds_and_rounds_are_one_click_away(browser: Browser, usual: Path) -> None:
    browser.open(usual)
    assert browser.run(X_TITLE) == "simulated seconds"
    assert browser.run(PRESSED) == ["seconds"]
    assert browser.run("location.hash") == ""
    browser.run("document.querySelector('[data-view=rounds]').click()")
    browser.wait_for(f"{READY} && {X_TITLE} === 'round'")
    assert browser.run(PRESSED) == ["rounds"]
    assert browser.run("location.hash") == "#axis=rounds"
    browser.run("document.querySelector('[data-view=seconds]').click()")
    browser.wait_for(f"{READY} && {X_TITLE} === 'simulated seconds'")
    assert browser.run("location.hash") == ""
    assert_quiet(browser)


@pytest.mark.parametrize(
    ("fragment", "title"),
    [
        ("#axis=rounds", "round"),
        ("#axis=seconds", "simulated seconds"),
        ("#axis=nonsense", "simulated seconds"),
        ("#axis=rounds&at=power", "round"),
        ("#power", "simulated seconds"),
    ],
)
def test_the_address_says_which_axis(browser: Browser, usual: Path, fragment: str, title: str) -> None:
    browser.open(usual, fragment)
    browser.run("window.scrollTo({top: 0, behavior: 'instant'})")
    browser.wait_for(f"{READY} && {DRAWN} > 0 && document.querySelector('[data-figure=test-accuracy] .xtitle')")
    assert browser.run(X_TITLE) == title
    assert browser.run(PRESSED) == ["rounds" if title == "round" else "seconds"]
    assert_quiet(browser)


def test_a_link_to_a_section_does_not_forget_the_choice(browser: Browser, usual: Path) -> None:
    browser.open(usual, "#axis=rounds")
    browser.run("document.querySelector('nav a[href=\"#power\"]').click()")
    browser.wait_for("location.hash === '#axis=rounds&at=power'")
    top = "Math.abs(document.getElementById('power').getBoundingClientRect().top) < window.innerHeight"
    browser.wait_for(top)
    address = browser.run("location.hash")
    browser.open(usual, address)
    browser.wait_for(top)
    assert browser.run(PRESSED) == ["rounds"]
    browser.run("document.querySelector('nav a[href=\"#learning\"]').click()")
    browser.wait_for("location.hash === '#axis=rounds&at=learning'")
    assert_quiet(browser)


def test_legend_button_hides_a_series(browser: Browser, usual: Path) -> None:
    browser.open(usual)
    before = browser.run(LINES)
    browser.run("document.querySelector('.chip[data-series=\"1\"]').click()")
    browser.wait_for(f"{READY} && {LINES} < {before}")
    assert browser.run("document.querySelector('.chip[data-series=\"1\"]').getAttribute('aria-pressed')") == "false"
    browser.run("document.querySelector('.chip[data-series=\"1\"]').click()")
    browser.wait_for(f"{READY} && {LINES} === {before}")
    browser.open(usual, "#hide=0,1,2")
    assert browser.run(LINES) == 0
    assert_quiet(browser)


def test_timeline_can_show_another_algorithm(browser: Browser, usual: Path) -> None:
    browser.open(usual, "#draw=all")
    legend = "document.querySelector('[data-figure=timeline] .legend').textContent"
    assert "staleness 1" in browser.run(legend)
    browser.run(
        "(() => { const select = document.querySelector('select[data-group=timeline]');"
        " select.value = '1'; select.dispatchEvent(new Event('change')); })()"
    )
    # Local SGD waits for all devices, so nothing is ever stale.
    browser.wait_for(f"{READY} && !{legend}.includes('staleness 1')")
    assert "staleness 0" in browser.run(legend)
    assert_quiet(browser)


def test_keyboard_reaches_every_control(browser: Browser, usual: Path) -> None:
    browser.open(usual)
    reached = []
    for _ in range(25):
        browser.press("Tab")
        reached.append(browser.run("document.activeElement.textContent.trim()"))
        if reached[-1] == "rounds":
            break
    assert reached[:2] == ["Skip to the results", "Dark"]
    assert reached[-5:] == ["paota", "local-sgd", "cotaf", "seconds", "rounds"]
    outline = browser.run("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    browser.press(" ", "Space", " ")
    browser.wait_for(f"{READY} && {X_TITLE} === 'round'")
    browser.run("document.getElementById('theme').focus()")
    browser.press("Enter", text="\r")
    browser.wait_for("document.documentElement.dataset.theme === 'dark'")
    assert_quiet(browser)


def test_theme_follows_the_system_and_the_button(browser: Browser, usual: Path) -> None:
    page = "getComputedStyle(document.body).backgroundColor"
    figure = "document.querySelector('.plot .main-svg').style.background"
    browser.open(usual)
    light = browser.run(page), browser.run(figure)
    browser.open(usual, dark=True)
    dark = browser.run(page), browser.run(figure)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    browser.run("document.getElementById('theme').click()")
    browser.wait_for(f"{READY} && {figure} === '{light[1]}'")
    assert browser.run(page) == light[0]
    assert_quiet(browser)


@pytest.mark.parametrize(("report", "width"), [("usual", 390), ("compared", 390), ("compared", 900)])
def test_the_page_never_scrolls_sideways(
    browser: Browser, report: str, width: int, request: pytest.FixtureRequest
) -> None:
    browser.open(request.getfixturevalue(report), "#draw=all", width=width, height=800)
    browser.run("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    browser.wait_for("document.querySelectorAll('details.data table').length > 3")
    assert browser.run("window.innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") == width
    # The wide table scrolls inside its own box instead, and the keyboard can do it.
    box = "document.querySelector('.table-box')"
    assert browser.run(f"{box}.scrollWidth > {box}.clientWidth && {box}.tabIndex === 0")
    assert_quiet(browser)


def test_names_stay_text(browser: Browser, compared: Path) -> None:
    browser.open(compared, "#draw=all")
    assert browser.run("document.title") == "<b>compared</b>"
    # Plotly shows the names when one points at a curve, and reads a little markup.
    browser.point_at("[data-figure=test-accuracy] .nsewdrag")
    names = "document.querySelector('[data-figure=test-accuracy] .hoverlayer').textContent"
    browser.wait_for(names)
    pointed_at = browser.run(names)
    assert "</script>" in pointed_at
    assert "<a href='javascript:" in pointed_at
    assert browser.run("document.querySelector('h1').textContent") == "<b>compared</b>"
    assert browser.run("document.querySelectorAll('main img, main bdi *, .plot a, .plot image').length") == 0
    chips = browser.run("[...document.querySelectorAll('.chip')].map((chip) => chip.textContent)")
    assert chips == [f"{run}: {label}" for run in ("<script>", LONG) for label in HOSTILE]
    assert_quiet(browser)


def test_an_injected_script_would_be_refused(browser: Browser, usual: Path) -> None:
    browser.open(usual)
    browser.run(
        "(() => { const script = document.createElement('script'); script.textContent = 'document.title = \"owned\"';"
        " document.body.append(script); })()"
    )
    assert browser.run("document.title") == "paper"
    assert any("Content Security Policy" in complaint for complaint in browser.complaints)


def test_data_as_table_and_as_file(browser: Browser, usual: Path, tmp_path: Path) -> None:
    browser.open(usual, "#axis=rounds")
    browser.run("document.querySelector('[data-table=test-accuracy]').open = true")
    rows = "document.querySelectorAll('[data-table=test-accuracy] tbody tr').length"
    browser.wait_for(f"{rows} > 0")
    assert browser.run(rows) == 3 * 41
    browser.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.run("document.querySelector('[data-table=test-accuracy] button').click()")
    saved, drawing = tmp_path / "test-accuracy.csv", tmp_path / "test-accuracy.svg"
    browser.run("document.querySelectorAll('[data-table=test-accuracy] button')[2].click()")
    deadline = time.monotonic() + 30
    while not (saved.exists() and drawing.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
        browser.run("1")
    assert drawing.read_text(encoding="utf-8").startswith("<svg")
    with saved.open(newline="", encoding="utf-8") as file:
        table = list(csv.reader(file))
    assert table[0] == ["series", "round", "test accuracy", "low", "high"]
    assert len(table) == 1 + 3 * 41
    assert table[1][:3] == ["paota", "0", "0.1"]
    assert_quiet(browser)


UNUSUAL = {
    "one round of one device": {"labels": ("paota",), "seeds": 1, "rounds": 1, "devices": 1},
    "no air": {"labels": ("local-sgd",), "seeds": 1, "rounds": 5, "devices": 5},
    "targets never reached": {"seeds": 2, "rounds": 2, "devices": 5, "targets": (0.99,)},
    "no device records": {"seeds": 1, "rounds": 5, "devices": 5, "records": False},
    "no targets, all diverged": {
        "seeds": 1, "rounds": 6, "devices": 5, "targets": (), "diverged": ("paota", "local-sgd", "cotaf"),
    },
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_runs_open_quietly(browser: Browser, case: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write([make_result(**UNUSUAL[case])], path)  # type: ignore[arg-type]
    browser.open(path, "#draw=all")
    browser.wait_for(f"{DRAWN} === {FIGURES}")
    assert browser.run(FIGURES) > 0
    assert_quiet(browser)
