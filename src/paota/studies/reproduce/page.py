"""The page of the reproduction: the verdicts first, then every figure and table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from ...base.types import Table as Row
from ...pages.page import Note, Page, Section, Table, TableCell, TableRow, Tone
from .catalogue import Scale
from .evidence import NAMES
from .figures import STYLES
from .gather import Cells
from .verdicts import CHANGED, FAILED, FAILS, HOLDS, LEVEL, OPEN, REPRODUCED, UNDECIDED

Tables = Mapping[str, Sequence[Row]]
TONES: dict[str, Tone] = {  # of verdicts and of outcomes of trials
    REPRODUCED: "good", CHANGED: "middling", UNDECIDED: "middling", FAILED: "alert",
    HOLDS: "good", OPEN: "middling", FAILS: "alert",
}  # fmt: skip
# The columns that each table shows, and the headings that differ from the names of the columns.
SHOWN = {
    "breaks": "title path_loss without_noise breaks_at_dbm_per_hz q25 q75",
    "accuracy": "setting method final_accuracy q25 q75",
    "ablations": "ablation value method final_accuracy q25 q75 seconds_to_70 seconds_to_80",
    "optimum": "seed best value gradient_norm last_gain",
    "power": "setting method radiated_w over_budget noise_std_a_weight",
}
HEADS = {
    "title": "method",
    "breaks_at_dbm_per_hz": "breaks at (dBm/Hz)",
    "ablation": "what",
    "seconds_to_70": "s to 70 %",
    "seconds_to_80": "s to 80 %",
    "best": "F(w*): the best of all searches",
    "gradient_norm": "gradient left",
    "last_gain": "gain of the last stretch",
    "radiated_w": "radiated, W (median)",
    "over_budget": "share of transmissions over 15 W",
    "noise_std_a_weight": "noise a weight",
}
OWN_SEARCH = "found by its own search"  # heading of "value" in the table of F(w*)
TEXTS = NAMES | {
    "exact": "optimised (P2)", "staleness": "staleness only", "similarity": "similarity only", "uniform": "uniform",
}  # fmt: skip
CSV_LINK = Markup('<a href="tables/{0}.csv">{0}</a>')
NOT_RUN = "This part was not run."


def build(scale: Scale, cells: Cells, tables: Tables, figures: Sequence[Section]) -> Page:
    """Return the page.

    Args:
        scale: The scale of the reproduction.
        cells: The finished cells; those of Theorem 1 give its findings.
        tables: All tables by name, as `write_tables` returns them.
        figures: The sections of `draw_all`.
    """
    verdicts, notes = tables["verdicts"], _theorem(cells)
    return Page(
        kind="paota reproduce",
        title="The paper, reproduced",
        heading="The paper, reproduced",
        ran=f"{scale.seeds} seeds ({scale.sweep_seeds} where no verdict depends on them), {scale.rounds} rounds for the "
        f"paper's figures and {scale.sweep_rounds} for the sweeps; one learning rate (0.1) and one batch size (32) for every "
        "method.",
        findings=[
            "Semi-Asynchronous Federated Edge Learning Mechanism via Over-the-air Computation: what holds, what does "
            "not, and why.",
            _counts(verdicts) if verdicts else "A smoke run judges nothing: there are no verdicts.",
        ],
        warning="Smoke run on small made-up data: these figures say nothing about the paper." if scale.quick else "",
        legend=STYLES if figures else (),
        sections=[
            *([_verdict_section(tables)] if verdicts else []),
            Section(
                id="table1",
                title="Table I",
                intro="Rounds / seconds to a test accuracy: median, with the middle half and the paper's values in "
                "brackets. The text sets ΔT = 8 s; the paper's table divides to 6 s.",
                tables=[_table1(tables["table1"])],
            ),
            *figures,
            Section(
                id="breaks",
                title="Where does each method break?",
                intro="Broken: 5 points below the same method without noise; quartiles over the seeds. The curve is linear "
                "between two levels.",
                tables=[
                    _table(tables, "breaks"),
                    _table(
                        tables,
                        "power",
                        "What is radiated",
                        intro="The power of a transmission (in the noise sweep: over all its levels), how often it exceeds "
                        "the 15 W of the paper, and the noise that reaches a weight.",
                    ),
                ],
            ),
            Section(id="theorem", title="Theorem 1 on a real run", intro="" if notes else NOT_RUN, notes=notes),
            Section(
                id="more",
                title="More tables",
                intro=Markup("All numbers as CSV: ") + Markup(", ").join(map(CSV_LINK.format, tables)) + ".",
                tables=[
                    _table(tables, "accuracy", "Final accuracy", folded=True),
                    _table(tables, "ablations", "Ablations and learning rates", folded=True),
                    _table(tables, "optimum", "F(w*): how finished was the search?", folded=True),
                ],
            ),
        ],
    )


def _counts(verdicts: Sequence[Row]) -> str:
    found = [row["verdict"] for row in verdicts]
    return (
        f"Of {len(found)} claims, {found.count(REPRODUCED)} are reproduced as printed, {found.count(CHANGED)} with a change "
        f"and {found.count(FAILED)} not; {found.count(UNDECIDED)} are undecided."
    )


def _verdict_section(tables: Tables) -> Section:
    trials = len(tables["trials"])
    return Section(
        id="verdicts",
        title="Verdicts",
        intro=f"Every verdict follows from tests over the seeds. Each of the {trials} trials is tested twice: does it hold, "
        f"does it fail? Holm's correction over all {2 * trials} tests keeps the probability of any wrong decision below "
        f"{LEVEL:.0%}; where neither is shown the seeds do not decide. The margins are fixed in the code. Superiority and "
        "equivalence are Student's t-tests of paired seeds, intervals are 95\u202f% intervals of the same test (uncorrected); "
        "F(w*) counts as anything between 0 and the best value found, whichever speaks against what is tested. A trial about "
        "noise in which a rival exceeds the power budget of 15\u202fW is shown, but decides nothing.",
        tables=[_verdicts(tables["verdicts"]), _trials(tables["trials"])],
    )


def _verdicts(rows: Sequence[Row]) -> Table:
    heads = ["claim", "paper", "measured as printed, 95 % interval", "verdict", "why"]
    return Table(label="Verdicts", heads=heads, rows=[_verdict(row) for row in rows], prose=True)


def _verdict(row: Row) -> TableRow:
    status = row["verdict"]
    change = [f"{row['change']}: {row['change_estimate']}"] if row["change"] else []
    measured = TableCell(text=row["estimate"], bold=True, notes=[f"{row['measured']}; rule: {row['rule']}"])
    verdict = TableCell(text="", bold=True, badge=status, tone=TONES[status], notes=change)
    return _row(row["statement"], row["paper"], measured, verdict, row["reason"])


def _trials(rows: Sequence[Row]) -> Table:
    """Return every trial with its corrected p-values and the power that the rivals radiate."""
    heads = ["claim", "trial", "measured", "outcome", "p: holds", "p: fails", "radiated"]
    title = "Every trial, with p-values after the correction"
    return Table(label="Trials", title=title, heads=heads, rows=[_trial(row) for row in rows], prose=True, folded=True)


def _trial(row: Row) -> TableRow:
    outcome, unequal = row["outcome"], "" if row["equal_terms"] else ", unequal"
    p_values = [f"{p:.1e}" if p < 0.001 else f"{p:.2g}" for p in (row["p_holds"], row["p_fails"])]
    badge = TableCell(text="", badge=f"{outcome}{unequal}", tone=TONES[outcome])
    return _row(row["claim"], row["change"], row["estimate"], badge, *p_values, row["radiated"])


def _row(*cells: TableCell | str) -> TableRow:
    """Return a row of these cells; the first one is its head."""
    head, *others = (cell if isinstance(cell, TableCell) else TableCell(text=cell) for cell in cells)
    return TableRow(head=head, cells=others)


def _table1(rows: Sequence[Row]) -> Table:
    """Return Table I: one line per method and period, one column per target."""
    lines: dict[str, list[TableCell]] = {}
    for row in rows:
        lines.setdefault(f"{NAMES[row['method']]}, {row['period_s']} s", []).append(_reach(row))
    return Table(
        label="Table I",
        heads=["method", *dict.fromkeys(f"{row['target']:.0%}" for row in rows)],
        rows=[_row(method, *cells) for method, cells in lines.items()],
        prose=True,
    )


def _reach(row: Row) -> TableCell:
    halves = " / ".join(
        f"{number(row[what])} ({number(row[f'{what}_q25'])} to {number(row[f'{what}_q75'])})"
        for what in ("rounds", "seconds")
    )
    rounds, seconds = row["paper_rounds"], row["paper_seconds"]
    notes = [] if math.isnan(rounds) else [f"paper: {number(rounds)} / {number(seconds)}"]
    if row["reached"] != row["seeds"]:
        notes.append(f"{row['reached']} of {row['seeds']} seeds")
    return TableCell(text=halves, notes=notes)


def _table(tables: Tables, name: str, title: str = "", *, intro: str = "", folded: bool = False) -> Table:
    keys = SHOWN[name].split()
    heads = [
        HEADS.get(key, OWN_SEARCH if (name, key) == ("optimum", "value") else key.replace("_", " ")) for key in keys
    ]
    rows = [_row(*(value_text(row[key], key) for key in keys)) for row in tables[name]]
    intro = intro if rows else NOT_RUN
    return Table(label=title or name, title=title, intro=intro, heads=heads, rows=rows, folded=folded)


def value_text(value: float | str | bool, key: str) -> str:
    """Return the text of a value in the column `key`: shares in percent, methods by their names."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return TEXTS.get(value, value)
    if key in ("final_accuracy", "without_noise", "over_budget") or (key in ("q25", "q75") and 0 <= value <= 1):
        return f"{value:.1%}"
    return number(value)


def number(value: float) -> str:
    """Return a number in a few digits; positive infinity is `never`."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "never" if value > 0 else "at once"
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _theorem(cells: Cells) -> list[Note]:
    notes = []
    for name, cell in cells.items():
        if name.startswith("bound-"):
            found = cell.facts["constants"].items()
            constants = ", ".join(f"{key} {value:.3g}" for key, value in found if value is not None)
            notes.append(
                Note(
                    title=f"Learning rate {cell.facts['system']['learning_rate']:g}",
                    items=cell.facts["findings"],
                    remark=f"Constants: {constants}.",
                )
            )
    return notes
