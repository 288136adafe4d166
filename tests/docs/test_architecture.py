"""docs/architecture.md: its files exist, its table is that of the layers, and it stays short."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_its_files_exist():
    linked = re.findall(r"\]\(\.\./([^)]+)\)", PAGE)
    named = [
        f"src/paota/{path}" for path in re.findall(r"`((?:\w+/)+(?:\w+\.py|))`", PAGE) if not path.startswith("tests/")
    ]
    assert len(linked) >= 15
    assert [path for path in {*linked, *named} if not (ROOT / path).exists()] == []


def test_its_table_lists_every_folder():
    folders = {path.parent.name for path in (ROOT / "src" / "paota").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == folders


def test_it_stays_within_its_length():
    assert len(PAGE.split()) <= 1200
    assert len(re.findall(r"^\d+\. ", PAGE, re.MULTILINE)) <= 15
