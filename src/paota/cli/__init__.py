"""The command line. Each command lives in a module of its own with `add_parser(subparsers)` and `run(args) -> int`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..errors import UserError, unknown_name
from ..plugins import load_plugin
from . import bound, deploy, new, power, presets, report, reproduce, run, sweep

COMMANDS = {
    "run": run, "presets": presets, "report": report, "reproduce": reproduce, "bound": bound, "power": power,
    "new": new, "deploy": deploy, "sweep": sweep,
}  # fmt: skip
WITH_PLUGINS = ("run", "report", "sweep")  # the commands that read experiments, which may name things of the user's own


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    0; 1 if something failed, 2 for a mistake of the user's, 3 if a run diverged, 130 after Ctrl-C.
    """
    parser = build_parser()
    try:
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help()
            return 0
        for file in getattr(args, "plugin", ()):
            load_plugin(file)
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
    """argparse, but every mistake is one sentence, with the nearest valid name."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see '{self.prog} --help')")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown_name(
                "command" if action.dest == "command" else f"value of {action.dest}", value, action.choices
            )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, unknown = super().parse_known_args(args, namespace)
        flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if flags:  # seen first by the command's own parser, which knows the flags that were meant
            raise unknown_name("option", flags[0], self._option_string_actions)
        return known, unknown


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = Parser(prog="paota", description="Semi-asynchronous federated edge learning over the air.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for module in COMMANDS.values():
        module.add_parser(commands)
    for name in WITH_PLUGINS:
        commands.choices[name].add_argument(
            "--plugin", action="append", default=[], metavar="FILE.py",
            help="import a Python file that registers algorithms, channels, ... of your own",
        )  # fmt: skip
    return parser


class _Version(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):  # type: ignore[no-untyped-def]
        from importlib.metadata import version

        print(f"paota {version('paota')}")
        parser.exit()
