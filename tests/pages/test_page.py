"""The kit: nothing a user typed may become markup, and a page of any kind is made of plain data."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from paota.base.formatting import isolated
from paota.pages.figure import Figure, Style, View, axes, coinciding, numbers
from paota.pages.page import (  # fmt: skip
    Note,
    Page,
    Section,
    SettingsFile,
    Table,
    TableCell,
    TableRow,
    embedded_json,
    environment,
    render,
    script_hash,
)

pytestmark = pytest.mark.bare


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.words += data


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))))
def test_any_text_comes_back_as_text_between_tags_and_in_attributes(given_text: str) -> None:
    reader = Reader()
    template = environment().from_string('<p title="{{ text }}">{{ text }}{{ name }}</p>')
    reader.feed(template.render(text=given_text, name=isolated(given_text)))
    reader.close()
    assert reader.tags == [("p", [("title", given_text)]), ("bdi", [])]
    assert reader.words == given_text * 2


def test_control_characters_and_lone_surrogates_are_replaced() -> None:
    hidden = "a\x00b\x1bc\ud800d"
    shown = environment().from_string("{{ text }} {{ name }}").render(text=hidden, name=isolated(hidden))
    assert shown == "a\ufffdb\ufffdc\ufffdd <bdi>a\ufffdb\ufffdc\ufffdd</bdi>"
    shown.encode("utf-8")


def test_an_unknown_name_in_a_template_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ unknown }}").render()


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_embedded_json_is_the_same_data_without_a_dangerous_character(value: object) -> None:
    embedded = embedded_json(value)
    assert json.loads(embedded) == value
    assert not set(embedded) & {"<", ">", "&", "\u2028", "\u2029"}
    assert embedded.isascii()


def test_embedded_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        embedded_json([math.nan])


def test_numbers_are_short_and_null_where_there_is_none() -> None:
    assert numbers([0.123456789, math.nan, math.inf, -math.inf, 3.0]) == [0.12346, None, None, None, 3]
    assert numbers([1e-10, 0.0, -1.0], positive=True) == [1e-10, None, None]


def test_series_that_lie_on_each_other_are_found() -> None:
    def curve(series: int, y: list[float | None], x: tuple[int, ...] = (0, 1, 2)) -> dict[str, object]:
        return {"type": "scatter", "mode": "lines", "series": series, "x": [*x], "y": y}

    same = [curve(0, [0, 5, 10]), curve(1, [0, 5.04, 10]), curve(2, [0, 5.2, 10]), curve(3, [0, None, 10])]
    assert coinciding(same) == [[0, 1]]  # within half a percent of 10
    assert coinciding([same[0], curve(4, [0, 5, 10], (0, 1, 3))]) == []
    assert coinciding([{"type": "bar", "series": 0, "x": [1], "y": [1]}] * 2) == []


def test_script_hash_is_the_base64_of_the_sha256() -> None:
    expected = base64.b64encode(hashlib.sha256(b"let x = 1;").digest()).decode()
    assert script_hash("let x = 1;") == f"'sha256-{expected}'"


HOSTILE = """</script></style></title>"'><img src=x onerror="alert(1)">&amp;{{ 7 * 7 }}"""


def everything(text: str) -> Page:
    """A page that says `text` in every place that can say something."""
    cell = TableCell(text=text, notes=[text], badge=text)
    rows = [TableRow(head=cell, cells=[cell], series=0)]
    tables = [
        Table(label=text, heads=[text, text], rows=rows, groups=[(text, 1)], title=text, intro=text),
        Table(label=text, heads=[text, text], rows=rows, title=text, prose=True, folded=True),
    ]
    view = View(
        traces=[{"type": "scatter", "mode": "lines", "series": 0, "x": [text], "y": [1], "text": [text]}],
        layout=axes(text, category=True),
        columns=(text, text),
    )
    figure = Figure(
        id="f",
        title=text,
        caption=text,
        alt=text,
        views={"a": view, "b": view},
        group="g",
        choices={"a": text, "b": text},
    )
    section = Section(
        id="s",
        title=text,
        intro=text,
        tables=tables,
        notes=[Note(title=text, items=[text], remark=text)],
        figures=[figure],
        settings=[SettingsFile(name=text, toml=text, command=text, facts={text: text})],
        download=text,
    )
    return Page(
        kind=text,
        title=text,
        heading=text,
        ran=text,
        findings=[text],
        sections=[section],
        legend=[Style(name=text, colour=0)],
        left_out=1,
        warning=text,
        warnings=[text],
    )


def elements(page: Page) -> list[str]:
    from plotly.offline import get_plotlyjs

    reader = Reader()
    reader.feed(render(page).replace(get_plotlyjs(), ""))
    reader.close()
    return [tag for tag, _ in reader.tags]


def test_no_place_of_a_page_lets_a_text_become_markup() -> None:
    assert elements(everything(HOSTILE)) == elements(everything("harmless"))
    assert HOSTILE not in render(everything(HOSTILE))


def test_a_page_without_series_and_axis_has_no_controls() -> None:
    bare = Page(
        kind="k", title="t", heading="h", ran="", findings=[], sections=[Section(id="s", title="Only words", intro="i")]
    )
    assert 'class="controls"' not in render(bare)
    assert 'class="controls"' in render(everything("x"))


def test_a_busy_machine_fails_no_test() -> None:
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
