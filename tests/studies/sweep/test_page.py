"""The page: escapes everything, needs no network, and a browser shows it without a complaint."""

import json
import math
import re

import numpy as np
import pytest
from helpers.made_sweeps import sweep_of, trajectory

from paota.experiment.experiment import Experiment
from paota.pages.page import render
from paota.studies.sweep.grid import setting_name, setting_unit
from paota.studies.sweep.page import build

# Without a dot: it must fit into a key.
HOSTILE = "</script><script>document['title']='owned'</script><img src=x onerror=\"document['title']='owned'\">"


def page(base, axes, runs, best="seconds_to:0.8", **more):
    made, points = sweep_of(base, axes, runs, best, **more)
    return render(build(made, base, points))


def own_part(html):
    """The page without the drawing library."""
    from plotly.offline import get_plotlyjs

    return html.replace(get_plotlyjs(), "")


def figures(html):
    data = re.search(r'<script type="application/json" id="payload">(.*?)</script>', html, re.DOTALL)
    return json.loads(data.group(1), parse_constant=pytest.fail)["figures"]


def traces(html):
    (figure,) = figures(html).values()
    return figure["views"]["all"]["traces"]


def stars(html):
    """The cells of the table that mark the best points."""
    return re.findall(r"<strong><bdi>★ (.*?)</bdi>", html)


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
    "never": ({"timing.period_s": [4, 6]}, curves(0.2, 0.3)),
    "diverged": ({"timing.period_s": [4]}, [[trajectory([0.1, math.nan], diverged=1)]]),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_whole(name, base):
    axes, runs = PAGES[name]
    html = own_part(page(base, axes, runs))
    assert "{{" not in html
    assert not re.search(r"\b(nan|inf)\b", re.sub(r"<(style|pre|script)\b.*?</\1>", "", html, flags=re.DOTALL))
    assert "default-src 'none'" in html
    assert html.count("<script") == 3  # data, library, ours
    assert not re.search(r"(src|href)=\"(?!#|data:|points/\d{3}/\")", html)
    assert list(figures(html)) == ["lines"]


def payload_of(html):
    return json.loads(re.search(r'id="payload">(.*?)</script>', html, re.DOTALL).group(1))


def test_two_settings_make_a_line_for_each_value_of_the_second(base):
    html = page(base, *PAGES["two axes"])
    first, second = traces(html)
    assert (first["x"], first["y"]) == ([4, 6], [32, 8])  # seconds, as the title says
    assert (second["x"], second["y"]) == ([4, 6], [24, 16])
    names = [style["name"] for style in payload_of(html)["series"]]
    assert names == ["paota, noise density N₀ = -174 dBm/Hz", "paota, noise density N₀ = -74 dBm/Hz"]
    assert np.argmax([*first["marker"]["size"], *second["marker"]["size"]]) == 1
    assert stars(html) == ["8 s"]


def test_a_label_keeps_its_colour_at_every_value_of_the_other_settings(base):
    runs = curves(*[0.9, 0.8] * 2, labels=("paota", "cotaf"))
    styles = payload_of(page(base, PAGES["two axes"][0], runs))["series"]
    assert [style["colour"] for style in styles] == [0, 0, 1, 1]
    assert [style["dash"] for style in styles] == ["solid", "dash"] * 2


def test_more_lines_than_styles_stay_in_the_table(base):
    axes = {"timing.period_s": [4, 6], "seed": list(range(50))}
    html = page(base, axes, curves(*[0.9] * 100))
    assert len(traces(html)) == 48
    assert len(re.findall(r'<a href="points/', html)) == 100


def test_a_line_has_its_band_and_its_largest_dot_is_the_best(base):
    seeds = [[trajectory([0.1, *[0.2] * (wait + seed), 0.9], seed=seed) for seed in range(3)] for wait in (3, 0, 1)]
    (figure,) = figures(page(base, {"timing.period_s": [4, 6, 8]}, seeds)).values()
    (line,) = figure["views"]["all"]["traces"]
    # 0.9 is judged after 4, 5 and 6 periods of 8 s, then 1 to 3, then 2 to 4.
    assert (line["x"], line["y"]) == ([4, 6, 8], [40, 16, 24])
    assert line["band"] == [[36, 12, 20], [44, 20, 28]]
    assert np.argmax(line["marker"]["size"]) == 1


def test_a_band_that_never_ends_stops_at_the_highest_known(base):
    never = [trajectory([0.1, 0.9]), trajectory([0.1, 0.9], seed=1), trajectory([0.1, 0.2], seed=2)]
    slow = [trajectory([0.1, 0.2, 0.2, 0.9], seed=seed) for seed in range(3)]
    (figure,) = figures(page(base, {"timing.period_s": [4, 6]}, [never, slow])).values()
    (line,) = figure["views"]["all"]["traces"]
    assert line["y"] == [8, 24]
    assert line["band"][1] == [24, 24]


def test_a_point_that_never_gets_there_is_drawn_as_never(base):
    slow = [trajectory([0.1, 0.2, 0.2, 0.9])]
    never = [trajectory([0.1, 0.2])]
    html = page(base, {"timing.period_s": [4, 6]}, [slow, never])
    (figure,) = figures(html).values()
    view = figure["views"]["all"]
    line, cross = view["traces"]
    assert (line["y"], cross["x"]) == ([24, None], [6])
    assert cross["marker"]["symbol"] == "x"
    assert cross["y"][0] > 24
    assert [note["text"] for note in view["layout"]["annotations"]] == ["never"]
    assert view["layout"]["yaxis"]["range"][1] > cross["y"][0]
    assert "Crosses: fewer than half of the seeds reached the target, or none." in html


def test_settings_have_names_and_units_and_every_row_leads_to_its_point(base):
    html = own_part(page(base, *PAGES["two axes"]))
    assert "<h1><bdi>Which period ΔT and noise density N₀ should I use?</bdi></h1>" in html
    assert "Period ΔT = 6 s, noise density N₀ = -174 dBm/Hz for paota" in html
    heads = re.findall(r'<th scope="col"><bdi>(.*?)</bdi></th>', html)
    assert heads[:4] == [
        "label",
        "period ΔT (s)",
        "noise density N₀ (dBm/Hz)",
        "Simulated seconds to 80\u202f% test accuracy",
    ]
    assert re.findall(r'<a href="(points/.*?)">', html) == [f"points/{i:03d}/" for i in range(4)]
    layout = figures(page(base, *PAGES["two axes"]))["lines"]["views"]["all"]["layout"]
    assert layout["xaxis"]["title"]["text"] == "period ΔT (s)"


@pytest.mark.parametrize(
    ("key", "name", "unit"),
    [
        ("timing.period_s", "period ΔT", "s"), ("air.n0_dbm_per_hz", "noise density N₀", "dBm/Hz"),
        ("data.classes_per_device", "classes per device", ""), ("power.compute_power_w", "compute power", "W"),
        ("algorithms.mine.payload", "mine: payload", ""), ("rounds", "rounds", ""), ("faults.fade_db", "fade", "dB"),
    ],
)  # fmt: skip
def test_names_of_settings(key, name, unit):
    assert (setting_name(key), setting_unit(key)) == (name, unit)


def test_values_over_decades_stand_on_a_logarithmic_axis(base):
    values = {"power.omega": [0.1, 1, 10]}
    (figure,) = figures(page(base, values, curves(0.9, 0.9, 0.9))).values()
    assert figure["views"]["all"]["layout"]["xaxis"]["type"] == "log"


def test_a_target_that_is_never_reached_and_a_sweep_without_a_point(base):
    axes = PAGES["two axes"][0]
    *lines, one, other = traces(page(base, axes, curves(*[0.2] * 4)))
    assert [line["y"] for line in lines] == [[None, None]] * 2
    assert [cross["x"] for cross in (one, other)] == [[4, 6]] * 2
    assert one["y"][0] < other["y"][0]  # the crosses of one line do not hide those of the other
    assert one["text"][0] == "paota, noise density N₀ = -174 dBm/Hz: never at 4"
    html = page(base, axes, [[]] * 4, failed=dict.fromkeys(range(4), "no memory"))
    assert "No point has been computed." in html
    assert figures(html) == {}


def test_what_only_some_seeds_reach_says_how_many(base):
    some = [trajectory([0.1, 0.9]), trajectory([0.1, 0.2], seed=1), trajectory([0.1, 0.2], seed=2)]
    html = page(base, PAGES["two axes"][0], [some] * 4)
    assert html.count("<bdi>1 of 3 seeds</bdi>") == 4 * 3  # seconds to 0.8, seconds and rounds to 0.3
    assert all(text.endswith(": 1 of 3 seeds at 4") for text in (cross["text"][0] for cross in traces(html)[2:]))
    assert "No point of the grid has a median of" in own_part(html)  # a label is never written in capitals
    assert "★" not in own_part(html)


def test_a_failed_point_is_shown_with_its_reason(base):
    axes, runs = PAGES["two axes"]
    html = page(base, axes, [*runs[:3], []], failed={3: "out of <memory>"})
    assert "1 of 4 points failed" in html
    assert "period ΔT = 6 s, noise density N₀ = -74 dBm/Hz" in html
    assert "out of &lt;memory&gt;" in html
    assert [line["x"] for line in traces(html)] == [[4, 6], [4]]


def hostile(table, *, two_axes=False):
    base = Experiment.from_dict({**table, "name": HOSTILE, "algorithms": [{"name": "paota", "label": HOSTILE}]})
    key = f"algorithms.{HOSTILE}.payload"
    other = {"seed": [1, 2]} if two_axes else {}
    return base, {key: ["model", "update"], **other}, curves(*[0.9, 0.8] * (1 + len(other)), labels=(HOSTILE,))


def test_names_cannot_become_markup(table):
    base, axes, runs = hostile(table)
    html = own_part(page(base, axes, runs))
    assert html.count("<script") == 3
    assert "<img" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["two axes", "one axis", "words", "hostile", "hostile, two axes"])
def test_in_a_browser(browser, tmp_path, base, table, name, width):
    attacked = name.startswith("hostile")
    source, axes, runs = hostile(table, two_axes=name == "hostile, two axes") if attacked else (base, *PAGES[name])
    path = tmp_path / "report.html"
    path.write_text(page(source, axes, runs), encoding="utf-8")
    browser.open(path, "#draw=all", width=width)
    browser.wait_for("document.querySelector('.plot .main-svg') && document.body.dataset.ready === 'true'")
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))] == []
    assert browser.run("document.title") != "owned"
    assert browser.run("document.querySelectorAll('.plot a, .plot img').length") == 0
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")  # fits a phone
    browser.run("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    browser.wait_for("document.querySelector('details.data table')")
    if name == "two axes":
        rows = browser.run("[...document.querySelectorAll('details.data tbody tr')].map((row) => row.innerText)")
        assert ["paota, noise density N₀ = -174 dBm/Hz", "6", "8"] in [row.split("\t")[:3] for row in rows]
    if attacked:
        title = browser.run("document.querySelector('.plot .xtitle').textContent")
        assert title.startswith("</script><script>")
