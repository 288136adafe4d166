"""`paota settings [SECTION]`: every key of an experiment file, with its unit, default, range and meaning."""

from __future__ import annotations

import argparse
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..base.errors import unknown_name

if TYPE_CHECKING:
    from ..experiment.reference import Setting


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "settings",
        help="every setting of an experiment file: unit, default, range and meaning",
        description="Without SECTION: everything. A key such as timing.period_s shows that one alone.",
    )
    parser.add_argument("section", nargs="?", metavar="SECTION|KEY", help="a table of the file, or one key")


def run(args: argparse.Namespace) -> int:
    from ..experiment import reference

    if args.section is None:
        chosen = reference.all_settings()
    elif args.section in reference.sections():
        chosen = reference.settings_of(args.section)
    else:
        wanted = args.section.rpartition(".")[2] if args.section.startswith("algorithms.") else args.section
        chosen = [one for one in reference.all_settings() if wanted in (one.key, one.name)]
        chosen = chosen or reference.meant_by(wanted)
        if not chosen:
            names = [name for name in reference.sections() if name]
            raise unknown_name("section or setting", args.section, names)
    _show(chosen)
    return 0


def _show(chosen: list[Setting]) -> None:
    """A small table for each alternative, below the choice that it needs."""
    from rich.console import Console
    from rich.table import Table

    from ..experiment.reference import shown

    console = Console(highlight=False, markup=False)
    name_width = max(len(one.key) for one in chosen)
    for under, inside in groupby(chosen, key=lambda one: (one.section, one.under)):
        if under[1] is not None:
            console.print("\nwith {} = '{}'".format(*under[1]), style="bold")
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(min_width=name_width, no_wrap=True)
        table.add_column(overflow="fold", min_width=8)
        table.add_column(overflow="fold")
        for one in inside:
            default = f"{shown(one.default)} {one.unit}".strip()
            table.add_row(one.key, default, f"{one.doc}{f' ({one.range})' if one.range else ''}")
        console.print(table)
