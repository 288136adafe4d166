"""summary.md: verdicts, Table I and all other tables as Markdown, for a review or the project's own docs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .page import COLUMNS, NAMES, number, tests_text, value_text
from .tables import Facts
from .verdicts import Verdict

BETA = {"exact": "optimised (P2)", "staleness": "staleness only", "similarity": "similarity only", "uniform": "uniform"}


def summary(verdicts: Sequence[Verdict], tables: Mapping[str, Sequence[Facts]], cells: Mapping[str, Any]) -> str:
    """The text of summary.md."""
    parts = [
        *(_verdicts(verdicts) if verdicts else []),
        "### Table I\n",
        "Rounds / seconds to a test accuracy: median, the middle half in brackets, the paper's in italics.",
        "",
        *_table1(tables["table1"]),
        "### Final accuracy\n",
        *_plain(tables["accuracy"], COLUMNS["accuracy"]),
        "### The noise sweep\n",
        "Broken: 5 points below the same method without noise; quartiles over the seeds.\n",
        *_plain(tables["breaks"], COLUMNS["breaks"]),
        "What is radiated (in the noise sweep: over all its levels), how often it exceeds the 15 W of the paper, and the noise "
        "that reaches a weight:\n",
        *_plain(tables["power"], COLUMNS["power"]),
        "### Ablations\n",
        *_plain(tables["ablations"], COLUMNS["ablations"]),
        "### Theorem 1\n",
        *_theorem(cells),
        "### How good is F(w\\*)?\n",
        *_plain(tables["optimum"], COLUMNS["optimum"]),
    ]
    return "\n".join(parts) + "\n"


def _verdicts(verdicts: Sequence[Verdict]) -> Iterable[str]:
    yield "### Verdicts\n"
    yield tests_text(verdicts) + "\n"
    yield "| claim | paper | measured as printed, 95 % interval | verdict | why |"
    yield "|---|---|---|---|---|"
    for v in verdicts:
        change = f" ({_cell(v.changed.change)}: {_cell(v.changed.estimate)})" if v.changed else ""
        measured = f"**{_cell(v.estimate)}** ({_cell(v.claim.measured)}; rule: {_cell(v.claim.rule)})"
        first = f"{_cell(v.claim.statement)} | {_cell(v.claim.paper)} | {measured}"
        yield f"| {first} | **{v.status}**{change} | {_cell(v.reason)} |"
    yield "\n**Every trial**, with p-values after the correction:\n"
    yield "| claim | trial | measured | outcome | p: holds | p: fails | radiated |"
    yield "|---|---|---|---|---|---|---|"
    for v in verdicts:
        for tried in v.tried:
            unequal = ", unequal" if tried.terms is not None and not tried.terms.equal else ""
            cells = [v.claim.id, tried.change or "as printed", tried.estimate, f"{tried.outcome}{unequal}"]
            p_values = [f"{p:.1e}" if p < 0.001 else f"{p:.2g}" for p in (tried.p_holds, tried.p_fails)]
            yield "| " + " | ".join(_cell(cell) for cell in [*cells, *p_values, tried.terms or ""]) + " |"
    yield ""


def _table1(rows: Sequence[Facts]) -> Iterable[str]:
    targets = list(dict.fromkeys(row["target"] for row in rows))
    yield "| method | " + " | ".join(f"{target:.0%}" for target in targets) + " |"
    yield "|---|" + "---|" * len(targets)
    for period_s, method in dict.fromkeys((row["period_s"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["period_s"], row["method"]) == (period_s, method)]
        yield f"| {NAMES[method]}, {period_s} s | " + " | ".join(_reach(row) for row in mine) + " |"
    yield ""


def _reach(row: Facts) -> str:
    halves = " / ".join(
        f"{number(row[what])} ({number(row[f'{what}_q25'])} to {number(row[f'{what}_q75'])})"
        for what in ("rounds", "seconds")
    )
    printed = row["paper_rounds"]
    beside = "" if printed != printed else f" *{number(printed)} / {number(row['paper_seconds'])}*"
    return halves + beside


def _plain(rows: Sequence[Facts], shown: Mapping[str, str]) -> Iterable[str]:
    if not rows:
        yield "This part was not run.\n"
        return
    yield "| " + " | ".join(shown.values()) + " |"
    yield "|" + "---|" * len(shown)
    for row in rows:
        yield "| " + " | ".join(_cell(_named(row, key)) for key in shown) + " |"
    yield ""


def _named(row: Facts, key: str) -> str:
    if key == "value" and row.get("ablation") == "beta":
        return BETA.get(str(row[key]), str(row[key]))
    return value_text(row[key], key)


def _theorem(cells: Mapping[str, Any]) -> Iterable[str]:
    for name, cell in cells.items():
        if name.startswith("bound-"):
            yield f"Learning rate {cell.facts['system']['learning_rate']:g}:\n"
            yield from (f"- {_cell(sentence)}" for sentence in cell.facts["findings"])
            constants = ", ".join(
                f"{key} {value:.3g}" for key, value in cell.facts["constants"].items() if value is not None
            )
            yield f"- Constants: {constants}.\n"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
