"""Pages as Markdown."""

from __future__ import annotations

from paota.pages.markdown import markdown
from paota.pages.page import Note, Page, Section, Table, TableCell, TableRow


def page(*sections: Section) -> Page:
    return Page(kind="", title="", heading="", ran="", findings=["F(w*) < 1"], sections=sections)


def test_sections_tables_and_notes_by_hand() -> None:
    row = TableRow(
        head=TableCell(text="a|b"),
        cells=[TableCell(text="1", bold=True, notes=["least", "of two"]), TableCell(text="", badge="good")],
    )
    table = Table(label="t", title="Results", intro="In watts.", heads=["name", "value", "state"], rows=[row])
    empty = Table(label="e", intro="Not run.", heads=["name"], rows=[])
    note = Note(title="Run", items=["It holds."], remark="Constants: 1.")
    made = page(Section(id="s", title="Powers", intro="All of them.", tables=[table, empty], notes=[note]))
    assert markdown(made).split("\n") == [
        "- F(w\\*) &lt; 1", "", "## Powers", "", "All of them.",
        "", "**Results**", "", "In watts.",
        "", "| name | value | state |", "|---|---|---|", "| a\\|b | **1** (least) (of two) | good |",
        "", "Not run.",
        "", "Run:", "", "- It holds.", "- Constants: 1.", "",
    ]  # fmt: skip


def test_an_exported_figure_is_a_picture() -> None:
    made = page(Section(id="gap", title="Gap", intro="", download="figures/gap.pdf"))
    assert "![Gap](figures/gap.png)" in markdown(made)
