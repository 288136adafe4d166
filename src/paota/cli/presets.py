"""`paota presets`: the experiment files that come with the package."""

from __future__ import annotations

import argparse
from typing import Any

from ..experiment.files import PRESETS, preset_names, read_preset


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("presets", help="list the experiments that come with the package, or print one")
    parser.add_argument("name", nargs="?", help="print this preset as a TOML file to start from")


def run(args: argparse.Namespace) -> int:
    if args.name is not None:
        read_preset(args.name)  # refuses an unknown name
        print((PRESETS / f"{args.name}.toml").read_text(encoding="utf-8"), end="")
        return 0
    for name in preset_names():
        first_line = (PRESETS / f"{name}.toml").read_text(encoding="utf-8").splitlines()[0]
        print(f"{name:12} {first_line.lstrip('# ')}")
    return 0
