"""The reproduction page: the verdicts first, then every figure and table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ...base.files import write_text
from ...pages.page import Note, Page, Section, Table, TableCell, TableRow, Tone, render
from .catalogue import Scale
from .figures import NAMES, STYLES, draw_all
from .page_choices import write_choices
from .tables import Facts
from .verdicts import CHANGED, FAILED, FAILS, HOLDS, LEVEL, OPEN, REPRODUCED, UNDECIDED, Tried, Verdict

__all__ = ["COLUMNS", "NAMES", "draw_all", "number", "tests_text", "value_text", "write_choices", "write_page"]

MARKS: dict[str, tuple[Tone, str]] = {
    REPRODUCED: ("good", "✓"),
    CHANGED: ("middling", "≈"),
    UNDECIDED: ("middling", "?"),
    FAILED: ("alert", "✗"),
}
TRIED: dict[str, tuple[Tone, str]] = {HOLDS: ("good", "✓"), OPEN: ("middling", "?"), FAILS: ("alert", "✗")}
# The columns that each table shows, and the heads of those whose name does not say it.
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
SHOWN = {
    "breaks": "title path_loss without_noise breaks_at_dbm_per_hz q25 q75",
    "accuracy": "setting method final_accuracy q25 q75",
    "ablations": "ablation value method final_accuracy q25 q75 seconds_to_70 seconds_to_80",
    "optimum": "seed best value gradient_norm last_gain",
    "power": "setting method radiated_w over_budget noise_std_a_weight",
}
COLUMNS = {name: {key: HEADS.get(key, key.replace("_", " ")) for key in keys.split()} for name, keys in SHOWN.items()}
COLUMNS["optimum"]["value"] = "found by its own search"
NOT_RUN = "This part was not run."
NO_VERDICTS = "A smoke run judges nothing: there are no verdicts."


def write_page(
    path: Path,
    scale: Scale,
    cells: Mapping[str, Any],
    verdicts: Sequence[Verdict],
    tables: Mapping[str, Sequence[Facts]],
    figures: Sequence[Section],
) -> None:
    """The page as one file at `path`; `figures` are the sections of `draw_all`, their PDFs in `figures` beside it."""
    printed = {section.id: f"figures/{section.id}.pdf" for section in figures}
    links = {name: link for name, link in printed.items() if (path.parent / link).is_file()}
    shown = [replace(section, download=links.get(section.id, "")) for section in figures]
    write_text(path, render(build(scale, cells, verdicts, tables, shown)))


def build(
    scale: Scale,
    cells: Mapping[str, Any],
    verdicts: Sequence[Verdict],
    tables: Mapping[str, Sequence[Facts]],
    figures: Sequence[Section],
) -> Page:
    """Verdicts, Table I, the figures, and the other tables."""
    return Page(
        kind="paota reproduce",
        title="The paper, reproduced",
        heading="The paper, reproduced",
        ran=_ran(scale),
        findings=[
            "Semi-Asynchronous Federated Edge Learning for Over-the-air Computation: what holds, what does not, and why.",
            _counts(verdicts) if verdicts else NO_VERDICTS,
        ],
        warning="Smoke run on small made-up data: these figures say nothing about the paper." if scale.quick else "",
        legend=STYLES if figures else (),
        sections=[
            *([_verdict_section(verdicts)] if verdicts else []),
            Section(
                id="table1",
                title="Table I",
                intro="Rounds and seconds to a test accuracy: median over the seeds, the middle half in brackets, the "
                "paper's own figure below. The text sets ΔT = 8 s; the paper's table divides to 6 s.",
                tables=[_table1(tables["table1"])],
            ),
            *figures,
            Section(
                id="breaks",
                title="Where does each method break?",
                intro="Broken: 5 points below the same method without noise. Between two levels the fall is taken as "
                "straight.",
                tables=[
                    _table(tables, "breaks"),
                    _table(
                        tables,
                        "power",
                        title="What is radiated",
                        intro="The power of a transmission (in the noise sweep: over all its levels), how often it exceeds "
                        "15 W, the limit that the paper sets itself, and the noise that reaches each weight.",
                    ),
                ],
            ),
            Section(
                id="theorem",
                title="Theorem 1 on a real run",
                intro="" if (notes := _theorem(cells)) else NOT_RUN,
                notes=notes,
            ),
            Section(
                id="more",
                title="More tables",
                intro=Markup("The folder <code>tables</code> holds all of it as CSV."),
                tables=[
                    _table(tables, "accuracy", title="Final accuracy", folded=True),
                    _table(tables, "ablations", title="Ablations and learning rates", folded=True),
                    _table(tables, "optimum", title="F(w*): how finished was the search?", folded=True),
                ],
            ),
        ],
    )


def _ran(scale: Scale) -> str:
    return (
        f"{scale.seeds} seeds ({scale.sweep_seeds} where no verdict depends on them), {scale.rounds} rounds for the paper's "
        f"figures and {scale.sweep_rounds} for the sweeps; one learning rate (0.1) and one batch size (32) for every method."
    )


def _counts(verdicts: Sequence[Verdict]) -> str:
    number = {status: sum(v.status == status for v in verdicts) for status in MARKS}
    return (
        f"Of {len(verdicts)} claims, {number[REPRODUCED]} are reproduced as printed, {number[CHANGED]} with a change "
        f"and {number[FAILED]} not; {number[UNDECIDED]} are undecided."
    )


def tests_text(verdicts: Sequence[Verdict]) -> str:
    """How the verdicts come about, in a paragraph."""
    trials = sum(len(v.tried) for v in verdicts)
    return (
        f"Every verdict follows from tests over the seeds. Each of the {trials} trials is tested twice: does it hold, does it "
        f"fail? Holm's correction over all {2 * trials} tests keeps the probability of any wrong decision below {LEVEL:.0%}; "
        "where neither is shown the seeds do not decide. The margins stand in the code. Superiority and equivalence are "
        "Student's t-tests of paired seeds, intervals are 95\u202f% intervals of the same test (uncorrected); F(w*) counts as "
        "anything between 0 and the best value found, whichever speaks against what is tested. A trial about "
        "noise in which a rival exceeds the power budget of 15\u202fW is shown, but decides nothing."
    )


def _verdict_section(verdicts: Sequence[Verdict]) -> Section:
    return Section(
        id="verdicts",
        title="Verdicts",
        intro=tests_text(verdicts),
        tables=[_verdicts(verdicts), _trials(verdicts)],
    )


def _verdicts(verdicts: Sequence[Verdict]) -> Table:
    rows = []
    for v in verdicts:
        tone, mark = MARKS[v.status]
        change = [f"holds with {v.changed.change}: {v.changed.estimate}"] if v.changed else []
        cells = [
            TableCell(text=v.claim.paper),
            TableCell(text=str(v.estimate), bold=True, notes=[f"{v.claim.measured}; rule: {v.claim.rule}"]),
            TableCell(text="", badge=f"{mark} {v.status}", tone=tone, notes=change),
            TableCell(text=v.reason),
        ]
        rows.append(TableRow(head=TableCell(text=v.claim.statement), cells=cells))
    heads = ["claim", "paper", "measured as printed", "verdict", "why"]
    return Table(label="Verdicts", heads=heads, rows=rows, prose=True)


def _trials(verdicts: Sequence[Verdict]) -> Table:
    """Every trial, whether it decided or not, with its corrected p-values and what the rivals radiate."""
    rows = [
        TableRow(head=TableCell(text=v.claim.id.replace("-", " ")), cells=_trial(tried))
        for v in verdicts
        for tried in v.tried
    ]
    heads = ["claim", "trial", "measured", "outcome", "p of: holds / fails", "radiated"]
    return Table(label="Trials", title="Every trial", heads=heads, rows=rows, prose=True, folded=True)


def _trial(tried: Tried) -> list[TableCell]:
    tone, mark = TRIED[tried.outcome]
    unequal = tried.terms is not None and not tried.terms.equal
    return [
        TableCell(text=tried.change or "as printed"),
        TableCell(text=str(tried.estimate)),
        TableCell(text="", badge=f"{mark} {tried.outcome}", tone=tone, notes=["on unequal terms"] if unequal else []),
        TableCell(text=f"{_p(tried.p_holds)} / {_p(tried.p_fails)}"),
        TableCell(text=str(tried.terms or "no matter at -174 dBm/Hz")),
    ]


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _table1(rows: Sequence[Facts]) -> Table:
    """Ours beside the paper's: one line a method and period, one pair of columns a target."""
    targets = list(dict.fromkeys(row["target"] for row in rows))
    lines: dict[tuple[float, str], list[TableCell]] = {}
    for row in rows:
        pair = [_reach(row, what) for what in ("rounds", "seconds")]
        lines.setdefault((row["period_s"], row["method"]), []).extend(pair)
    return Table(
        label="Table I",
        heads=["method", *["rounds", "seconds"] * len(targets)],
        groups=[(f"{target:.0%}", 2) for target in targets],
        rows=[
            TableRow(head=TableCell(text=f"{NAMES[method]}, ΔT = {period_s} s"), cells=cells)
            for (period_s, method), cells in lines.items()
        ],
    )


def _reach(row: Facts, what: str) -> TableCell:
    low, middle, high = (number(row[key]) for key in (f"{what}_q25", what, f"{what}_q75"))
    printed = row[f"paper_{what}"]
    notes = [
        "" if low == high else f"({low} to {high})",
        "" if math.isnan(printed) else f"paper {number(printed)}",
        "" if row["reached"] == row["seeds"] else f"{row['reached']} of {row['seeds']} seeds",
    ]
    return TableCell(text=middle, notes=[note for note in notes if note])


def _table(tables: Mapping[str, Sequence[Facts]], name: str, **more: Any) -> Table:
    first, *others = COLUMNS[name]
    rows = [
        TableRow(head=TableCell(text=value_text(row[first], first)), cells=[_value(row, key) for key in others])
        for row in tables[name]
    ]
    nothing = TableRow(head=TableCell(text=NOT_RUN, muted=True), cells=[TableCell(text="")] * len(others))
    return Table(label=more.get("title", name), heads=list(COLUMNS[name].values()), rows=rows or [nothing], **more)


def _value(row: Facts, key: str) -> TableCell:
    return TableCell(text=value_text(row[key], key))


def value_text(value: Any, key: str) -> str:
    """A value of the column `key` as people read it: shares in percent, methods by their names."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return NAMES.get(value, value)
    if key in ("final_accuracy", "without_noise", "over_budget") or (key in ("q25", "q75") and 0 <= value <= 1):
        return f"{value:.1%}"
    return number(value)


def number(value: float) -> str:
    """A number in a few digits; `never` for one that was not reached."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "never" if value > 0 else "at once"
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _theorem(cells: Mapping[str, Any]) -> list[Note]:
    notes = []
    for name, cell in cells.items():
        if name.startswith("bound-"):
            found = cell.facts["constants"].items()
            constants = ", ".join(f"{key} {value:.3g}" for key, value in found if value is not None)
            notes.append(
                Note(
                    title=f"Learning rate {cell.facts['system']['learning_rate']:g}",
                    items=cell.facts["findings"],
                    remark=f"Constants estimated from the run: {constants}.",
                )
            )
    return notes
