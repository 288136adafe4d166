"""`paota new KIND NAME`: a working and tested skeleton of your own algorithm, model, channel, ..."""

from __future__ import annotations

import argparse
import keyword
import re
from pathlib import Path

from ..base.errors import UserError, unknown_name
from ..base.files import filled, write_text
from ..base.registry import KINDS as REGISTRIES
from ..base.types import Subcommands

SKELETONS = Path(__file__).parent / "skeletons"
KINDS = ("algorithm", "channel", "dataset", "latency", "model", "scheme")


def add_parser(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "new",
        help="write the skeleton of your own algorithm, model, channel, ...",
        description="Write a working NAME.py, its test and an experiment that uses it into this folder.",
    )
    parser.add_argument("kind", metavar="|".join(KINDS), help="what to write")
    parser.add_argument("name", metavar="NAME", help="its name in experiment files, e.g. my-policy")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    if args.kind not in KINDS:
        raise unknown_name("kind of skeleton", args.kind, KINDS, {"data": "dataset", "fading": "channel"})
    files = skeleton(args.kind, args.name)
    for file in files:
        if Path(file).exists():
            raise UserError(f"'{file}' exists already: choose another name, or another folder")
    for file, text in files.items():
        write_text(Path(file), text)
    _, test, experiment = files
    print(f"wrote {', '.join(files)}\n\ntry it:\n  paota run {experiment}\n  pytest {test}")
    return 0


def skeleton(kind: str, name: str) -> dict[str, str]:
    """Return the texts of the files of a skeleton, by file name."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > 40:
        raise UserError(f"'{name}' is not a valid {kind} name: use small letters, digits and hyphens, e.g. my-policy")
    registered = "algorithm" if kind == "scheme" else kind  # an algorithm brings its scheme
    if name in REGISTRIES[registered]:
        raise UserError(f"the {registered} '{name}' exists already")
    module = name.replace("-", "_")
    if keyword.iskeyword(module):
        raise UserError(f"'{name}' is a reserved word of Python: choose another name")
    words = {"NAME": name, "MODULE": module, "CLASS": "".join(part.capitalize() for part in name.split("-"))}
    files = {f"{module}.py": f"{kind}.py", f"test_{module}.py": f"test_{kind}.py", f"{module}.toml": f"{kind}.toml"}
    return {file: filled(SKELETONS / f"{template}.in", words) for file, template in files.items()}
