"""`paota fleet FILE`: what is in a fleet's file; makes one, or converts what others have published."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError

if TYPE_CHECKING:
    from ...timing.describe import Description
    from ...timing.fleet import Fleet


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "fleet",
        help="show what is in a fleet's file: who is there when, how fast; make or convert one",
        description="A fleet's file (CSV or Parquet) says when devices are there, how fast they compute and at what "
        "rates they transfer; timing.fleet_file lets an experiment follow it. This command prints and draws what is in it. "
        "With --make, --from-fedscale or --from-flash it writes FILE first. Nothing is downloaded, nothing is unpickled.",
    )
    parser.add_argument("file", metavar="FILE", help="the fleet, .csv or .parquet")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--make", type=int, metavar="N", help="write a synthetic fleet of N devices: day, night, charging"
    )
    source.add_argument(
        "--from-fedscale", nargs="+", metavar="TRACE",
        help="convert FedScale's client_behave_trace and, if given, client_device_capacity (pickle or JSON)",
    )  # fmt: skip
    source.add_argument(
        "--from-flash",
        nargs="+",
        metavar="STATES",
        help="convert FLASH's state_traces.json and, if given, speed_distri.json",
    )
    parser.add_argument("--days", type=float, default=1.0, metavar="D", help="of --make: how long it lasts (default 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of --make (default 0)")
    parser.add_argument(
        "--samples", type=float, default=160.0, metavar="N",
        help="of --from-fedscale: samples that a local training goes through, steps x batch (default 160)",
    )  # fmt: skip
    parser.add_argument("--repeat", type=float, metavar="S", help="look at it as starting over after S seconds")
    parser.add_argument("--out", metavar="PAGE", help="where the page goes (default: FILE with the ending .html)")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON and nothing else; no page")


def run(args: argparse.Namespace) -> int:
    from ...timing.describe import describe
    from ...timing.fleet_files import read_fleet

    file = Path(args.file)
    repeat_s, remarks = _write(args, file)
    fleet = read_fleet(file)
    repeat_s = args.repeat if args.repeat is not None else repeat_s
    if repeat_s is not None and not 0 < repeat_s < float("inf"):
        raise UserError(f"--repeat must be a time above 0 s, not {repeat_s:g}")
    fleet.availability(repeat_s)  # refuses what would be cut off
    found = describe(fleet, repeat_s)
    if args.json:
        print(json.dumps(_numbers(fleet, found), allow_nan=False))
        return 0
    _show(args, file, fleet, found, repeat_s, remarks)
    return 0


def _write(args: argparse.Namespace, file: Path) -> tuple[float | None, list[str]]:
    """Make or convert the file, if that is asked for: (after how long it repeats, what was left out)."""
    from ...timing.fleet_files import write_fleet
    from ...timing.foreign import from_fedscale, from_flash
    from ...timing.synthetic_fleets import DAY_S, make_fleet

    foreign = args.from_fedscale or args.from_flash
    if args.make is None and not foreign:
        return None, []
    if not file.parent.is_dir():
        raise UserError(f"there is no folder '{file.parent}'")
    if foreign and len(foreign) > 2:
        raise UserError("a trace has one or two files: who is there and, if known, how fast")
    if args.make is not None:
        if not 0 <= args.seed < 2**31:
            raise UserError(f"--seed lies between 0 and {2**31 - 1}, not at {args.seed}")
        write_fleet(file, make_fleet(args.make, args.days, seed=args.seed))
        return args.days * DAY_S, []
    made = from_fedscale(*foreign, samples=args.samples) if args.from_fedscale else from_flash(*foreign)
    write_fleet(file, made.fleet)
    return made.repeat_s, made.remarks


def _numbers(fleet: Fleet, found: Description) -> dict[str, Any]:
    import numpy as np

    def quantiles(values: Any) -> dict[str, float]:
        return {f"q{100 * q:.0f}": float(np.quantile(values, q)) for q in (0.1, 0.5, 0.9)} if len(values) else {}

    return {
        "devices": found.devices, "rows": found.rows, "span_s": found.span_s, "repeats": found.repeats,
        "never_there": found.never, "mean_share": found.mean_share, "least_share": float(found.share.min()),
        "most_share": float(found.share.max()), "stay_s": quantiles(found.stay_s), "gap_s": quantiles(found.gap_s),
        **{name: quantiles(values) for name, values in found.rates.items()},
    }  # fmt: skip


def settings_for(file: Path, found: Description) -> str:
    """The lines of an experiment file that follow a fleet, as far as it goes."""
    latency = "fleet" if "latency_s" in found.rates else "work" if "gflop_per_s" in found.rates else None
    lines = ["[data]", f"devices = {min(found.devices, 100)}", "", "[timing]", f"fleet_file = {json.dumps(str(file))}"]
    lines += [f"fleet_repeat_s = {found.span_s:g}"] if found.repeats else []
    lines += [f'latency = "{latency}"'] if latency else []
    air = ['downlink = "digital"'] if "down_mbit_per_s" in found.rates else []
    air += ['digital = "rated"'] if "up_mbit_per_s" in found.rates else []
    return "\n".join([*lines, *(["", "[air]", *air] if air else [])]) + "\n"


def _show(
    args: argparse.Namespace, file: Path, fleet: Fleet, found: Description, repeat_s: float | None, remarks: list[str]
) -> None:
    from rich.console import Console
    from rich.text import Text

    from ...terminal.tables import print_table
    from .page import QUANTILES, duration, facts, findings, write_page

    page = Path(args.out) if args.out else file.with_suffix(".html")
    if not page.parent.is_dir():
        raise UserError(f"--out: there is no folder '{page.parent}'")
    toml = settings_for(file, found)
    write_page(page, fleet, found, name=file.name, toml=toml)
    console = Console()
    console.print(Text(f"{file}: {found.devices:,} devices, {found.rows:,} rows, {duration(found.span_s)}"))
    for sentence in [*findings(found), *remarks]:
        console.print(Text(f"- {sentence}"))
    rows = facts(found)
    columns = [(f"{q:.0%} below", [cells[i] for _, cells in rows]) for i, q in enumerate(QUANTILES)]
    print_table(console, "", ("", [name for name, _ in rows]), columns)
    console.print(Text("To use it:\n" + toml))
    console.print(Text(str(page)))
