"""The page: escapes everything, needs no network and no script, and a browser shows it without a complaint."""

import importlib.util
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from paota.experiment import Experiment
from paota.pages.sweep import render

from .made_up import sweep_of, trajectory

# The report's tests drive a real browser; their driver stands in another folder of tests.
_spec = importlib.util.spec_from_file_location("browser", Path(__file__).parents[1] / "report" / "browser.py")
assert _spec is not None
assert _spec.loader is not None
driver = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(driver)

# Without a dot: it must fit into a key.
HOSTILE = "</script><script>document['title']='owned'</script><img src=x onerror=\"document['title']='owned'\">"


def page(base, axes, runs, best="seconds_to:0.8", **more):
    made, points = sweep_of(base, axes, runs, best, **more)
    return render(made, base, points)


def curves(*finals, labels=("paota",)):
    return [[trajectory([0.1, 0.4, f], label=label) for label in labels] for f in finals]


# 0.9 is judged after 4, 3, 1 and 2 periods of 8 s.
UNEVEN = [[trajectory([0.1, *[0.2] * wait, 0.9])] for wait in (3, 2, 0, 1)]
PAGES = {
    "two axes": ({"timing.period_s": [4, 6], "air.n0_dbm_per_hz": [-174, -74]}, UNEVEN),
    "three axes": ({"timing.period_s": [4, 6], "seed": [1, 2], "training.local_steps": [1, 5]}, curves(*[0.9] * 8)),
    "one axis": ({"timing.period_s": [4, 6, 8]}, curves(0.9, 0.3, 0.8, labels=("paota", "cotaf"))),
    "one point": ({"timing.period_s": [4]}, curves(0.9)),
    "words": ({"power.method": ["exact", "uniform"]}, curves(0.9, 0.8)),
    "nobody": ({"timing.period_s": [4, 6]}, curves(0.2, 0.3)),
    "diverged": ({"timing.period_s": [4]}, [[trajectory([0.1, math.nan], diverged=1)]]),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_whole(name, base):
    axes, runs = PAGES[name]
    html = page(base, axes, runs)
    assert "{{" not in html
    assert not re.search(r"\b(nan|inf)\b", re.sub(r"<(style|pre)\b.*?</\1>", "", html, flags=re.DOTALL))
    assert "default-src 'none'" in html
    assert "<script" not in html
    assert not re.search(r"(src|href)=\"(?!#|data:)", html)


def test_the_best_cell_is_marked_once_and_says_its_number(base):
    html = page(base, *PAGES["two axes"])
    cells = re.findall(r'<td class="([^"]*best[^"]*)"[^>]*>(.*?)</td>', html)
    assert len(cells) == 1
    assert cells[0][1].endswith(" 8 s")  # the third point


def test_a_failed_point_is_shown_with_its_reason(base):
    axes, runs = PAGES["two axes"]
    html = page(base, axes, [*runs[:3], []], failed={3: "out of <memory>"})
    assert "1 of 4 points failed" in html
    assert "timing.period_s = 6, air.n0_dbm_per_hz = -74" in html
    assert "out of &lt;memory&gt;" in html
    assert ">failed</td>" in html


def hostile(table):
    base = Experiment.from_dict({**table, "name": HOSTILE, "algorithms": [{"name": "paota", "label": HOSTILE}]})
    key = f"algorithms.{HOSTILE}.payload"
    return base, {key: ["model", "update"]}, curves(0.9, 0.8, labels=(HOSTILE,))


def test_names_cannot_become_markup(table):
    base, axes, runs = hostile(table)
    html = page(base, axes, runs)
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html


@pytest.fixture(scope="module")
def browser() -> Iterator[driver.Browser]:
    executable = driver.find_chromium()
    if executable is None:
        pytest.skip("no Chromium or Chrome on this machine: the page cannot be opened in a browser")
    with driver.Browser(executable) as opened:
        yield opened


def show(browser: driver.Browser, path: Path, width: int) -> None:
    browser.complaints.clear()
    browser.requests.clear()
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.send("Page.navigate", url=path.as_uri())
    browser.wait_for("document.readyState === 'complete' && document.querySelector('footer')")


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["two axes", "one axis", "hostile"])
def test_in_a_browser(browser, tmp_path, base, table, name, width):
    source, axes, runs = hostile(table) if name == "hostile" else (base, *PAGES[name])
    path = tmp_path / "report.html"
    path.write_text(page(source, axes, runs), encoding="utf-8")
    show(browser, path, width)
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))] == []
    assert browser.run("document.title") != "owned"
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")  # fits a phone
    if name == "two axes":
        deep = browser.run("getComputedStyle(document.querySelector('td.best')).backgroundColor")
        pale = browser.run("getComputedStyle(document.querySelector('tbody td:not(.best):not(.void)')).backgroundColor")
        assert deep != pale
