"""The command line. Each command lives in a module of its own with `add_parser(subparsers)` and `run(args) -> int`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..errors import UserError, unknown_name
from . import power, presets, report, run

COMMANDS = {"run": run, "presets": presets, "report": report, "power": power}


def main(argv: Sequence[str] | None = None) -> int:
    parser = build_parser()
    try:
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help()
            return 0
        code: int = COMMANDS[args.command].run(args)
        return code
    except UserError as error:
        print(f"paota: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("paota: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, e.g. `paota presets paper | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class Parser(argparse.ArgumentParser):
    """argparse, but a mistyped command or flag gets the nearest valid one, in one sentence."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UserError(f"{message} (see '{self.prog} --help')")


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="paota", description="Semi-asynchronous federated edge learning over the air.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser, action=_Commands)
    for module in COMMANDS.values():
        module.add_parser(commands)
    return parser


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    def __call__(self, parser, namespace, values, option_string=None):  # type: ignore[no-untyped-def]
        if values and values[0] not in self.choices:
            raise unknown_name("command", values[0], self.choices)
        super().__call__(parser, namespace, values, option_string)


class _Version(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):  # type: ignore[no-untyped-def]
        from importlib.metadata import version

        print(f"paota {version('paota')}")
        parser.exit()
