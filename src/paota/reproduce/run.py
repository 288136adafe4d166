"""The whole reproduction: compute what is missing, judge, draw, write the page."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from ..pages.reproduction import draw_all, write_page
from ..runs.files import write_text
from . import catalogue, store, work
from .cells import Cell
from .claims import Verdict, judge_all
from .display import Display
from .evidence import Evidence
from .gather import Cells, gather
from .markdown import summary
from .tables import Row, write_tables

MOST_WORKERS = 8


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a reproduction left behind."""

    folder: Path
    page: Path
    scale: catalogue.Scale
    evidence: Evidence
    verdicts: Sequence[Verdict]
    tables: dict[str, list[Row]]
    figures: list[str]


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    workers: int | None = None,
    parts: Collection[str] = (),
    display: Display | None = None,
) -> Report:
    """Compute every cell that `folder` does not hold yet, then write the report, `figures/` and `tables/` there."""
    scale = catalogue.quick(seeds) if quick else catalogue.full(seeds)
    cells = catalogue.catalogue(scale, parts)
    out = _folders(Path(folder))
    display = display or Display(quiet=True)
    todo = [cell for cell in cells if store.find(out / "cells", cell) is None]
    display.begin(todo, len(cells) - len(todo))
    count = workers or min(os.cpu_count() or 1, MOST_WORKERS)
    work.compute_all(todo, out / "cells", workers=count, tell=display.tell, done=display.done)
    crossed = catalogue.crossed_cell(scale)  # of finished cells: it comes after them
    work.compute(crossed, out / "cells", display.note_only)
    cells.append(crossed)
    return write(out, scale, _load(cells, out / "cells"))


def write(out: Path, scale: catalogue.Scale, cells: Cells) -> Report:
    """Verdicts, tables, figures and the page from finished cells."""
    evidence = gather(cells, scale)
    verdicts = judge_all(evidence)
    tables = write_tables(cells, evidence, verdicts, scale, out / "tables")
    figures = draw_all(cells, evidence, scale, out / "figures")
    write_text(out / "summary.md", summary(verdicts, tables, cells))
    page = out / "report.html"
    write_page(page, scale, cells, verdicts, tables, figures)
    return Report(
        folder=out,
        page=page,
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
