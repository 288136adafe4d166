"""The whole reproduction: compute what is missing, judge, draw, write the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import UserError
from ...base.files import write_text
from ...base.system import only_one
from ..pool import Watch, run_tasks
from . import archive, catalogue, choices, store, work
from .cells import Cell
from .choices import Found
from .claims import claims
from .evidence import Evidence
from .gather import Cells, gather, noise_of
from .markdown import summary
from .page import draw_all, write_choices, write_page
from .tables import Facts, write_tables
from .verdicts import Verdict, judge_all

MOST_WORKERS = 8


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """What a reproduction left behind."""

    folder: Path
    page: Path
    choices: Path | None  # the page of the search over open choices
    scale: catalogue.Scale
    evidence: Evidence
    verdicts: Sequence[Verdict]
    tables: dict[str, list[Facts]]
    figures: list[str]


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    workers: int | None = None,
    parts: Collection[str] = (),
    display: Callable[[Sequence[Cell]], AbstractContextManager[Watch]] | None = None,
) -> Reproduction:
    """Compute every cell that `folder` does not hold yet, then write the report, `figures/` and `tables/` there.

    Args:
        quick: a smoke run on small made-up data.
        seeds: repetitions (default: 15, or 2 if quick).
        workers: processes (default: one a core, at most 8); with 1 everything happens in this one.
        parts: beside the paper's own figures; none stands for all.
        display: makes, for the cells that are computed, a context that gives what is called with every update.
    """
    scale = catalogue.quick(seeds) if quick else catalogue.full(seeds)
    cells = catalogue.catalogue(scale, parts)
    out = _folders(Path(folder))
    processes = workers or min(os.cpu_count() or 1, MOST_WORKERS)

    def compute(wanted: Sequence[Cell]) -> Cells:
        todo = [cell for cell in wanted if store.find(out / "cells", cell) is None]
        if todo:
            with display(todo) if display else nullcontext(lambda update: None) as watch:
                _compute(todo, out / "cells", processes, watch)
        return _load(wanted, out / "cells")

    with only_one(out):
        made = {**compute(cells), **compute([catalogue.crossed_cell(scale)])}  # the latter from the former
        searched = not parts or catalogue.OPEN_CHOICES in parts
        return write(out, scale, made, choices.search(scale, compute, noise_of(made, scale)) if searched else None)


def _compute(cells: Sequence[Cell], folder: Path, workers: int, watch: Watch) -> None:
    failed = run_tasks([work.task_of(cell, folder) for cell in cells], workers=workers, watch=watch)
    if failed:
        reasons = "; ".join(f"'{name}': {reason}" for name, reason in list(failed.items())[:3])
        raise UserError(
            f"{len(failed)} of {len(cells)} cells failed ({reasons}); the others are kept, and the same command goes on"
        )


def write(out: Path, scale: catalogue.Scale, cells: Cells, found: Found | None = None) -> Reproduction:
    """Verdicts, tables, figures and the pages from finished cells and what the search over open choices found."""
    evidence = gather(cells, scale)
    archive.write(out / archive.FILE, evidence)
    verdicts = [] if scale.quick else judge_all(evidence, claims())  # made-up data say nothing about the paper
    tables = write_tables(cells, evidence, verdicts, scale, out / "tables")
    figures = draw_all(cells, evidence, scale, out / "figures")
    write_text(out / "summary.md", summary(verdicts, tables, cells))
    page = out / "report.html"
    write_page(page, scale, cells, verdicts, tables, figures)
    return Reproduction(
        folder=out,
        page=page,
        choices=None if found is None else write_choices(out, scale, found),
        scale=scale,
        evidence=evidence,
        verdicts=verdicts,
        tables=tables,
        figures=[section.id for section in figures],
    )


def _folders(out: Path) -> Path:
    try:
        for part in ("cells", "figures", "tables"):
            (out / part).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder '{out}': {error.strerror}") from None
    return out


def _load(cells: Sequence[Cell], folder: Path) -> Cells:
    made = {}
    for cell in cells:
        stored = store.find(folder, cell)
        if stored is None:
            raise UserError(f"'{store.path_of(folder, cell)}' disappeared or was changed: run the command again")
        made[cell.name] = stored
    return made
