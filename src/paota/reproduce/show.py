"""The verdicts in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .claims import CHANGED, FAILED, REPRODUCED
from .run import Report

COLOURS = {REPRODUCED: "green", CHANGED: "yellow", FAILED: "red"}


def show(report: Report) -> None:
    console = Console()
    table = Table(
        title="smoke run: these figures say nothing about the paper" if report.scale.quick else None, show_lines=True
    )
    for heading in ("claim", "paper", "measured", "verdict"):
        table.add_column(heading)
    for v in report.verdicts:
        change = f"\n({escape(v.change)}: {escape(str(v.changed_estimate))})" if v.change else ""
        table.add_row(
            escape(v.claim.statement), escape(v.claim.paper), escape(str(v.estimate)),
            f"[{COLOURS[v.status]}]{v.status}[/]{change}",
        )  # fmt: skip
    console.print(table)
    if not report.figures:
        console.print("no figures were drawn: matplotlib is not installed (pip install 'paota\\[paper]')")
