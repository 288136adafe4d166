"""The whole reproduction: it computes missing cells, judges the claims, and writes tables, figures and the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import UserError
from ...base.files import write_text
from ...base.system import only_one
from ...base.types import Table
from ...pages.markdown import markdown
from ...pages.page import render
from ..pool import Watch, run_tasks
from . import archive, catalogue, cells
from .cells import Cell
from .claims import claims
from .evidence import Evidence
from .figures import draw_all
from .gather import Cells, gather
from .page import build
from .tables import write_tables
from .verdicts import Verdict, judge_all

MOST_WORKERS = 8
Display = Callable[[Sequence[Cell]], AbstractContextManager[Watch]]


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A finished reproduction: its folder and page, the evidence, the verdicts and all tables."""

    folder: Path
    page: Path
    evidence: Evidence
    verdicts: Sequence[Verdict]
    tables: dict[str, list[Table]]


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    workers: int | None = None,
    parts: Collection[str] = (),
    display: Display | None = None,
) -> Reproduction:
    """Compute every cell that `folder` does not hold yet, then write the report, `figures/` and `tables/` there.

    Args:
        folder: The output folder. An interrupted reproduction is resumed.
        quick: Make a smoke run on small synthetic data.
        seeds: Number of repetitions (default: 15, or 2 if quick).
        workers: Number of processes (default: one per core, at most 8); 1 computes in this process.
        parts: Parts to compute beside the paper's own figures; none stands for all.
        display: Returns a context for the cells to compute, which gives the function to call with every update.
    """
    scale = catalogue.quick(seeds) if quick else catalogue.full(seeds)
    wanted, out = catalogue.catalogue(scale, parts), Path(folder)
    try:
        for part in ("cells", "figures", "tables"):
            (out / part).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder '{out}': {error.strerror}") from None
    with only_one(out):
        made = compute(wanted, out / "cells", workers=workers, display=display)
        made |= compute([catalogue.crossed_cell(scale)], out / "cells", workers=workers, display=display)
        return write(out, scale, made)


def compute(
    wanted: Sequence[Cell], folder: Path, *, workers: int | None = None, display: Display | None = None
) -> dict[str, cells.Stored]:
    """Compute the cells that `folder` does not hold yet, and return all by name; arguments as for `reproduce`."""
    todo = [cell for cell in wanted if cells.find(folder, cell) is None]
    if todo:
        count = workers or min(os.cpu_count() or 1, MOST_WORKERS)
        with display(todo) if display else nullcontext(lambda update: None) as watch:
            failed = run_tasks([cells.task_of(cell, folder) for cell in todo], workers=count, watch=watch)
        if failed:
            reasons = "; ".join(f"'{name}': {reason}" for name, reason in list(failed.items())[:3])
            raise UserError(
                f"{len(failed)} of {len(todo)} cells failed ({reasons}); the others are kept: "
                "repeat the command to compute the missing ones"
            )
    made = {cell.name: found for cell in wanted if (found := cells.find(folder, cell)) is not None}
    for name in {cell.name for cell in wanted} - set(made):
        raise UserError(f"'{folder / name}' disappeared or was changed: run the command again")
    return made


def write(out: Path, scale: catalogue.Scale, made: Cells) -> Reproduction:
    """Write verdicts, tables, figures and the page of finished cells to `out`."""
    evidence = gather(made, scale)
    archive.write(out / archive.FILE, evidence)
    verdicts = [] if scale.quick else judge_all(evidence, claims())  # synthetic data say nothing about the paper
    tables = write_tables(made, evidence, verdicts, scale, out / "tables")
    figures = draw_all(made, evidence, out / "figures")
    page = build(scale, made, tables, figures)
    write_text(out / "summary.md", markdown(page))
    write_text(out / "report.html", render(page))
    return Reproduction(folder=out, page=out / "report.html", evidence=evidence, verdicts=verdicts, tables=tables)
