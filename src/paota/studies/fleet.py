"""`paota fleet FILE`: describe a fleet's file in the terminal, or make a synthetic one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import UserError
from ..base.formatting import duration, percent, quantity
from ..base.types import Json, Subcommands

if TYPE_CHECKING:
    from ..base.types import Floats
    from ..timing.fleet import Description

QUANTILES = (0.1, 0.5, 0.9)


def add_parser(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "fleet",
        help="describe a fleet's file: which devices are available when, and how fast they are; or make one",
        description="A fleet's file (CSV) says when devices are available, how fast they compute and at what "
        "rates they transfer; timing.fleet_file lets an experiment follow it. This command prints what is in it. "
        "With --make it writes FILE first.",
    )
    parser.add_argument("file", metavar="FILE", help="the fleet, a CSV file")
    parser.add_argument(
        "--make", type=int, metavar="N", help="write a synthetic fleet of N devices that charge at night"
    )
    parser.add_argument(
        "--days", type=float, default=1.0, metavar="D", help="days that the synthetic fleet covers (default 1)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the synthetic fleet (default 0)")
    parser.add_argument("--repeat", type=float, metavar="S", help="describe the fleet as repeating every S seconds")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    # Imported here: NumPy would slow every command's start.
    """Carry out the command and return its exit code."""
    from ..timing.fleet import describe  # start-up time
    from ..timing.fleet_files import read_fleet  # start-up time

    file = Path(args.file)
    repeat_s = args.repeat
    if args.make is not None:
        made_s = _make(args, file)
        repeat_s = made_s if repeat_s is None else repeat_s
    fleet = read_fleet(file)
    if repeat_s is not None and not 0 < repeat_s < float("inf"):
        raise UserError(f"--repeat must be a time above 0 s, not {repeat_s:g}")
    fleet.availability(repeat_s)  # refuses a repetition that would cut something off
    found = describe(fleet, repeat_s)
    if args.json:
        print(json.dumps(_numbers(found), allow_nan=False))
    else:
        _show(file, found)
    return 0


def _make(args: argparse.Namespace, file: Path) -> float:
    """Write a synthetic fleet; returns the seconds after which it repeats."""
    from ..timing.fleet_files import write_fleet  # start-up time
    from ..timing.synthetic_fleets import DAY_S, make_fleet  # start-up time

    if not file.parent.is_dir():
        raise UserError(f"there is no folder '{file.parent}'")
    if not 0 <= args.seed < 2**31:
        raise UserError(f"--seed must be from 0 to {2**31 - 1}, not {args.seed}")
    write_fleet(file, make_fleet(args.make, args.days, seed=args.seed))
    return float(args.days * DAY_S)


def _quantiles(values: Floats) -> list[float]:
    import numpy as np  # start-up time

    return [float(value) for value in np.quantile(values, QUANTILES)] if len(values) else []


def _numbers(found: Description) -> Json:
    spreads = {"stay_s": found.stay_s, "gap_s": found.gap_s, **found.rates}
    return {
        "devices": found.devices, "rows": found.rows, "span_s": found.span_s, "repeats": found.repeats,
        "never_there": found.never, "mean_share": found.mean_share, "least_share": float(found.share.min()),
        "most_share": float(found.share.max()),
    } | {
        name: dict(zip(("q10", "q50", "q90"), _quantiles(values), strict=False)) for name, values in spreads.items()
    }  # fmt: skip


def settings_for(file: Path, found: Description) -> str:
    """Return the lines of an experiment file that follow a fleet, as far as the fleet's columns allow."""
    latency = "fleet" if "latency_s" in found.rates else "work" if "gflop_per_s" in found.rates else None
    lines = ["[data]", f"devices = {min(found.devices, 100)}", "", "[timing]", f"fleet_file = {json.dumps(str(file))}"]
    lines += [f"fleet_repeat_s = {found.span_s:g}"] if found.repeats else []
    lines += [f'latency = "{latency}"'] if latency else []
    air = ['downlink = "digital"'] if "down_mbit_per_s" in found.rates else []
    air += ['digital = "rated"'] if "up_mbit_per_s" in found.rates else []
    return "\n".join([*lines, *(["", "[air]", *air] if air else [])]) + "\n"


def _show(file: Path, found: Description) -> None:
    from rich.console import Console  # start-up time
    from rich.text import Text  # start-up time

    from ..terminal.tables import print_table  # start-up time

    console = Console()
    console.print(Text(f"{file}: {found.devices:,} devices, {found.rows:,} rows, {duration(found.span_s)}"))
    for sentence in _sentences(found):
        console.print(Text(f"- {sentence}"))
    spreads = {"available for, min": found.stay_s / 60, "away for, min": found.gap_s / 60, **found.rates}
    rows = {name: _quantiles(values) for name, values in spreads.items() if len(values)}
    columns = [(f"{share:.0%} below", [quantity(row[i]) for row in rows.values()]) for i, share in enumerate(QUANTILES)]
    print_table(console, "", ("", list(rows)), columns)
    console.print(Text("To use it:\n" + settings_for(file, found)))


def _sentences(found: Description) -> list[str]:
    """Describe which devices are available and for how long."""
    least, most = int(found.share.argmin()), int(found.share.argmax())
    said = [
        f"On average {percent(found.mean_share)} of the devices are available: at least {percent(found.share[least])} "
        f"({_clock(found.moment_s[least])}), at most {percent(found.share[most])} ({_clock(found.moment_s[most])})."
    ]
    if found.never:
        said.append(f"{found.never:,} of {found.devices:,} devices are never available.")
    if len(found.stay_s):
        away = f", and the median absence is {duration(_quantiles(found.gap_s)[1])}" if len(found.gap_s) else ""
        said.append(f"The median stay of a device is {duration(_quantiles(found.stay_s)[1])}{away}.")
    if not found.repeats:
        said.append("The state of the last rows holds for good; timing.fleet_repeat_s would let the file start over.")
    return said


def _clock(seconds: float) -> str:
    """A moment of a trace that begins at midnight: `3 h`, `day 2, 14 h`."""
    day, rest = divmod(seconds, 86_400.0)
    hour = f"{rest / 3600:.3g} h"
    return f"day {int(day) + 1}, {hour}" if day else hour
