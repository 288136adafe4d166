"""docs/paper.md: every function that it names exists, and no labelled equation of the paper is missing."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(paota(?:\.\w+)+:[\w.]+)`", PAGE)))
LABELS = [
    "sys_FL_task",
    "sys_local_loss",
    "local_update",
    "local_update_stagger",
    "pre-processing_parameter",
    "Global_receive",
    "individual_power",
    "Normalization",
    "aggre-final",
    "ass1-1",
    "ass1-2",
    "ass2-1",
    "ass3-1",
    "ass3-2",
    "ass3-3",
    "lemma1",
    "lemma2",
    "proof2",
    "G^r",
    "opt1:problem",
    "asy:power_control",
    "opt2:problem",
    "opt3:problem",
    "opt4:problem",
    "quadratic",
    "pla1",
    "pla2",
    "pla3",
    "01var",
    "opt5:problem",
    "prooflemma1-1",
    "prooflemma1-2",
    "prooftheorem1-1",
    "sys_mac",
    "sys_aggregation",
    "convergence",
    "acc",
    "tab2",
]


def test_the_page_names_functions():
    assert len(NAMED) > 40


@pytest.mark.parametrize("name", NAMED)
def test_a_named_function_exists(name):
    module, _, attributes = name.partition(":")
    thing = importlib.import_module(module)
    for attribute in attributes.split("."):
        thing = getattr(thing, attribute)


@pytest.mark.parametrize("label", LABELS)
def test_every_label_of_the_paper_is_mapped(label):
    assert f"`{label}`" in PAGE


def test_every_equation_has_the_number_of_the_print_beside_its_label():
    numbers = {label: int(n) for n, label in re.findall(r"\((\d+)\) `([^`]+)`", PAGE)}
    equations = [label for label in LABELS if label not in ("sys_mac", "sys_aggregation", "convergence", "acc", "tab2")]
    assert set(equations) - {"prooftheorem1-1"} <= set(numbers)  # the steps of that proof are numbered together
    in_order = [numbers[label] for label in equations if label in numbers]
    assert in_order == sorted(in_order)
    assert (numbers["sys_FL_task"], numbers["asy:power_control"], numbers["opt5:problem"]) == (1, 25, 39)


def test_every_line_of_algorithm_1_is_mapped():
    table = PAGE[PAGE.index("### Algorithm 1") : PAGE.index("### Convergence")]
    lines = {int(n) for cell in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for n in cell.split(",")}
    assert lines == {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15}  # 12 to 14 and 16 only close blocks


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "paper" / "index.html").read_text(encoding="utf-8")
    assert page.count("<math") > 50  # formulas are MathML, drawn by the browser itself
    assert not re.search(r"<m\w+[^>]*>[^<]*\\[a-zA-Z]+", page)  # and none holds a command that was not understood
    assert (tmp_path / "site" / "index.html").read_text(encoding="utf-8").count("img/accuracy.png") == 1
    assert "\\(" not in re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
