"""Nothing a user typed may become markup."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paota.pages import markup
from paota.pages.figure import numbers


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
    reader.feed(f'<p title="{markup.text(given_text)}">{markup.text(given_text)}</p>')
    reader.close()
    assert reader.tags == [("p", [("title", given_text)])]
    assert reader.words == given_text


def test_control_characters_and_lone_surrogates_are_replaced() -> None:
    assert markup.text("a\x00b\x1bc\ud800d") == "a\ufffdb\ufffdc\ufffdd"
    markup.text("\udfff").encode("utf-8")


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_embedded_json_is_the_same_data_without_a_dangerous_character(value: object) -> None:
    embedded = markup.embedded_json(value)
    assert json.loads(embedded) == value
    assert not set(embedded) & {"<", ">", "&", "\u2028", "\u2029"}
    assert embedded.isascii()


def test_embedded_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        markup.embedded_json([math.nan])


def test_numbers_are_short_and_null_where_there_is_none() -> None:
    assert numbers([0.123456789, math.nan, math.inf, -math.inf, 3.0]) == [0.12346, None, None, None, 3]
    assert numbers([1e-10, 0.0, -1.0], positive=True) == [1e-10, None, None]


def test_what_is_filled_in_is_not_filled_again() -> None:
    assert markup.filled("{{a}}-{{b}}", {"a": "{{b}}", "b": r"\1"}) == r"{{b}}-\1"
    with pytest.raises(KeyError):
        markup.filled("{{unknown}}", {})


def test_script_hash_is_the_base64_of_the_sha256() -> None:
    expected = base64.b64encode(hashlib.sha256(b"let x = 1;").digest()).decode()
    assert markup.script_hash("let x = 1;") == f"'sha256-{expected}'"
