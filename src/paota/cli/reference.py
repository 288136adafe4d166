"""`paota presets`, `paota algorithms` and `paota settings`: what an experiment file can hold."""

from __future__ import annotations

import argparse
import inspect
import pydoc
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile

from ..base.errors import nearest, plain, unknown_name
from ..base.registry import ALGORITHMS
from ..base.types import Subcommands
from ..experiment import reference
from ..experiment.files import PRESETS, preset_names, read_preset


def add_parser(commands: Subcommands) -> None:
    """Add the three commands."""
    parser = commands.add_parser("presets", help="list the experiments that come with the package, or print one")
    parser.add_argument("name", nargs="?", help="print this preset as a TOML file to start from")
    parser.set_defaults(execute=show_presets)
    parser = commands.add_parser("algorithms", help="list the algorithms, their uplink and their scheme")
    parser.set_defaults(execute=show_algorithms)
    parser = commands.add_parser(
        "settings",
        help="every setting of an experiment file: unit, default, range and meaning",
        description="Without an argument: everything. A key such as timing.period_s shows that setting alone, the name of an "
        "algorithm its options.",
    )
    parser.add_argument("section", nargs="?", metavar="SECTION|KEY|ALGORITHM", help="a table, a key or an algorithm")
    parser.set_defaults(execute=show_settings)


def show_presets(args: argparse.Namespace) -> int:
    """List the presets with the comment at the head of each file, or print one file."""
    if args.name is not None:
        read_preset(args.name)  # refuses an unknown name
        print((PRESETS / f"{args.name}.toml").read_text(encoding="utf-8"), end="")
        return 0
    texts = {name: (PRESETS / f"{name}.toml").read_text(encoding="utf-8") for name in preset_names()}
    heads = {name: takewhile(lambda line: line.startswith("#"), text.splitlines()) for name, text in texts.items()}
    print(_in_columns([(name, " ".join(line.lstrip("# ") for line in head)) for name, head in heads.items()]), end="")
    return 0


def show_algorithms(args: argparse.Namespace) -> int:
    """List all registered algorithms, one in each line."""
    rows = [("algorithm", "uplink", "scheme", "")]
    for name in ALGORITHMS:
        uplink = "air" if ALGORITHMS[name].over_the_air else "digital"
        scheme = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(ALGORITHMS[name]().scheme).__name__).lower()
        head, _, rest = _line_of(name).partition(": ")
        rows.append((name, uplink, scheme, rest if plain(head) == plain(name) else _line_of(name)))
    width, columns = max(len(row[0]) for row in rows), shutil.get_terminal_size().columns
    for name, uplink, scheme, line in rows:
        start = f"{name:{width}}  {uplink:7}  {scheme:12}  "
        print(start + textwrap.shorten(line, max(12, columns - len(start)), placeholder=" ..."))
    print("\nThe whole line and the options of one: paota settings NAME")
    return 0


def _line_of(algorithm: str) -> str:
    """Return the first paragraph of an algorithm's module, or of its class."""
    text = inspect.getdoc(inspect.getmodule(ALGORITHMS[algorithm])) or reference.sentence_of(ALGORITHMS, algorithm)
    return " ".join(text.split("\n\n")[0].split())


def show_settings(args: argparse.Namespace) -> int:
    """Show every setting, a section, one key, or the options of an algorithm."""
    wanted = (args.section or "").removeprefix("experiment.")
    if args.section is None:
        chosen = reference.all_settings()
    elif wanted in reference.sections():
        chosen = reference.settings_of(wanted)
    elif wanted in ALGORITHMS:
        chosen = reference.options_of(ALGORITHMS, wanted, reference.ALGORITHM, "name")
        if not chosen:
            print(f"{_line_of(wanted)} It has no options.")
            return 0
    else:
        wanted = wanted.rpartition(".")[2] if wanted.startswith("algorithms.") else wanted
        chosen = [one for one in reference.all_settings() if wanted in (one.key, one.name)]
        chosen = chosen or reference.meant_by(wanted)
        if not chosen:
            near = nearest(wanted, list(ALGORITHMS), ALGORITHMS.aliases)
            names = [name for name in (*reference.sections(), near) if name]
            raise unknown_name("section, setting or algorithm", wanted, names, ALGORITHMS.aliases)
    width = max(len(one.key) for one in chosen)
    shown = [f"{_line_of(wanted)}\n"] if wanted in ALGORITHMS else []
    for (_, under), inside in groupby(chosen, key=lambda one: (one.section, one.under)):
        if under is not None:
            shown.append("\nwith {} = '{}'\n".format(*under))
        defaults = {one: f"{reference.shown(one.default)} {one.unit}".strip() for one in inside}
        shown.append(
            _in_columns(
                [(one.key, text, one.doc + (f" ({one.range})" if one.range else "")) for one, text in defaults.items()],
                first_width=width,
            )
        )
    _show_pages("".join(shown))
    return 0


def _show_pages(text: str) -> None:
    """Print a text; where it is longer than the terminal, through the user's pager."""
    if sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        pydoc.pager(text)
    else:
        print(text, end="")


def _in_columns(rows: Iterable[Sequence[str]], *, first_width: int | None = None) -> str:
    """Return rows in columns. The last column is folded, so that no text is cut off."""
    from rich.console import Console  # start-up time
    from rich.table import Table as Grid  # start-up time

    rows = list(rows)
    grid = Grid(box=None, pad_edge=False, show_header=False)
    for i in range(len(rows[0])):
        last = i == len(rows[0]) - 1
        grid.add_column(no_wrap=i == 0, overflow="fold", min_width=first_width if i == 0 else None if last else 8)
    for row in rows:
        grid.add_row(*row)
    console = Console(highlight=False, markup=False)
    with console.capture() as captured:
        console.print(grid)
    return captured.get()
