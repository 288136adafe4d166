"""The code of docs/extend.md, run from top to bottom."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("clean_registries")

DOCS = Path(__file__).parents[2] / "docs"


def blocks(file):
    return re.findall(r"^```python\n(.*?)^```", file.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_tutorial_runs(capsys):
    code = blocks(DOCS / "extend.md")
    assert len(code) >= 5
    namespace = {"__name__": "tutorial"}
    for block in code:
        exec(compile(block, "docs/extend.md", "exec"), namespace)
    assert "median-level" in capsys.readouterr().out


def test_the_policy_is_about_thirty_lines():
    policy = blocks(DOCS / "extend.md")[0]
    assert len([line for line in policy.splitlines() if line.strip()]) <= 30
