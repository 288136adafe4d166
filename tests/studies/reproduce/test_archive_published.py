"""docs/reproduce.md and the README say what the published evidence says, by the rules as they stand."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from paota.pages.markdown import markdown
from paota.studies.reproduce import archive, catalogue
from paota.studies.reproduce.claims import claims
from paota.studies.reproduce.page import build
from paota.studies.reproduce.tables import accuracy_rows, break_rows, table1_rows, trial_rows, verdict_row
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
    made = {"table1": table1_rows, "accuracy": accuracy_rows, "breaks": break_rows}
    tables = {name: list(rows(evidence)) for name, rows in made.items()}
    tables |= {"verdicts": [verdict_row(v) for v in verdicts], "power": [], "ablations": [], "optimum": []}
    tables["trials"] = [row for v in verdicts for row in trial_rows(v)]
    text = markdown(build(catalogue.full(), {}, tables, []))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) > 60
    for line in lines:
        assert line in PAGE, line


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
