"""docs/reproduce.md and the README say what the published evidence says, by the rules as they stand."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from paota.pages.markdown import markdown
from paota.pages.page import render
from paota.studies.reproduce import archive, catalogue
from paota.studies.reproduce.claims import claims
from paota.studies.reproduce.page import build
from paota.studies.reproduce.tables import evidence_tables, write_rows
from paota.studies.reproduce.verdicts import CHANGED, FAILED, REPRODUCED, UNDECIDED, judge_all

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "reproduce.md").read_text(encoding="utf-8")
NUMBERS = {"none": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}


@pytest.fixture(scope="module")
def evidence():
    return archive.read(DOCS / "_build" / archive.FILE)


@pytest.fixture(scope="module")
def verdicts(evidence):
    return judge_all(evidence, claims())


def test_every_table_of_the_page_follows_from_the_evidence(evidence, verdicts):
    tables = evidence_tables(evidence, verdicts) | {"power": [], "ablations": [], "optimum": []}
    text = markdown(build(catalogue.full(), {}, tables, []))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) > 60
    for line in lines:
        assert line in PAGE, line


def test_the_page_links_its_numbers_as_they_follow_from_the_evidence(evidence, verdicts, tmp_path):
    tables = evidence_tables(evidence, verdicts)
    write_rows(tables, tmp_path)
    for name in tables:
        assert f"](data/reproduce-{name}.csv)" in PAGE
        assert (DOCS / "data" / f"reproduce-{name}.csv").read_bytes() == (tmp_path / f"{name}.csv").read_bytes()


def test_a_reproduction_links_its_tables(evidence, verdicts):
    tables = evidence_tables(evidence, verdicts) | {"power": [], "ablations": [], "optimum": []}
    page = render(build(catalogue.full(), {}, tables, []))
    assert all(f'href="tables/{name}.csv"' in page for name in tables)


def test_the_rules_on_the_page_are_those_of_its_source():
    assert PAGE.startswith((DOCS / "_build" / "reproduce_head.md").read_text(encoding="utf-8"))


def test_verdicts_come_from_enough_seeds_that_nothing_was_chosen_with(evidence):
    assert len(evidence.optimum) >= 15
    assert f"({catalogue.FIRST_SEED} to {catalogue.FIRST_SEED + len(evidence.optimum) - 1})" in PAGE


def test_the_readme_counts_the_verdicts(verdicts):
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    count = Counter(v.status for v in verdicts)
    number = "|".join(NUMBERS)
    said = re.search(
        rf"Of seven claims of the paper.*?\b({number}) holds? as printed.*?\b({number}) holds? with .*?\b({number}) do(?:es)? not"
        rf"(?:.*?\b({number}) (?:is|are) undecided)?",
        readme,
    )
    assert said is not None
    found = [NUMBERS[word or "none"] for word in said.groups()]
    assert found == [count[status] for status in (REPRODUCED, CHANGED, FAILED, UNDECIDED)]
