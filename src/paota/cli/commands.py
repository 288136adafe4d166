"""All commands. Each lives in a module of its own with `add_parser(subparsers)` and `run(args) -> int`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..base.errors import UserError, did_you_mean, listed, nearest, plain, printable, unknown_name
from ..base.plugins import load_plugin
from ..base.system import leave
from ..experiment.files import choosing
from ..studies import fleet
from ..studies.bound import command as bound
from ..studies.live import command as watch
from ..studies.plan import command as plan
from ..studies.report import command as report
from ..studies.reproduce import command as reproduce
from ..studies.sweep import command as sweep
from . import deploy, device, keys, new, power, presets, settings
from . import run as run_command

COMMANDS = {
    "run": run_command, "presets": presets, "report": report, "reproduce": reproduce, "bound": bound, "power": power,
    "new": new, "deploy": deploy, "device": device, "keys": keys, "sweep": sweep, "plan": plan, "watch": watch,
    "settings": settings, "fleet": fleet,
}  # fmt: skip
WITH_PLUGINS = ("run", "report", "sweep", "plan")  # they read experiments, which may name things of the user's own
LEAVES_AT_ONCE = (
    "run",
    "report",
    "sweep",
    "plan",
    "bound",
)  # on Ctrl-C, until there is something that they have to save
OTHER_QUANTITIES = ("snr", "snrdb")  # words for a setting whose number is another one: the noise is not its ratio
LONGEST_SENTENCE = 1500  # what was given may stand in it, and may be anything


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: this program's arguments); its exit code as `cli.main` has it."""
    parser = build_parser()
    try:
        args = parser.parse_args(argv)
        args.as_program = argv is None  # else a caller in this very process, which must not be replaced
        if args.command is None:
            parser.print_help()
            return 0
        if args.as_program:
            signal.signal(signal.SIGINT, leave if args.command in LEAVES_AT_ONCE else signal.default_int_handler)
        for file in getattr(args, "plugin", ()):
            load_plugin(file)  # also for run folders, which are read without running anything that they name
        code: int = COMMANDS[args.command].run(args)
        return code
    except UserError as error:
        _say(error)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):  # as JAX calls it
            raise
        _say("out of memory: fewer devices an event, a smaller model or smaller batches need less")
        return 1
    except BrokenPipeError:  # the reader of our output went away, e.g. `paota presets paper | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a disk, a folder or a network that went away, a name that is too long
        _say(f"{error.strerror}: '{error.filename}'" if error.filename else error)
        return 1


def _say(sentence: object) -> None:
    text = printable(str(sentence))
    print(f"paota: {text if len(text) <= LONGEST_SENTENCE else text[:LONGEST_SENTENCE] + ' ...'}", file=sys.stderr)


class Parser(argparse.ArgumentParser):
    """argparse, but every mistake is one sentence, with the nearest valid name."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see '{self.prog} --help')")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown_name(
                "command" if action.dest == "command" else f"value of {action.dest}", value, action.choices
            )

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments, allow_abbrev=False)  # `--seed 3` must not mean `--seeds 3`

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        known, unknown = super().parse_known_args(words, namespace)
        flags = [word for word in unknown if word.startswith("-")]
        if flags:  # seen first by the command's own parser, which knows the flags that were meant
            raise self._unknown_option(flags[0], words)
        return known, unknown

    def _unknown_option(self, word: str, words: list[str]) -> UserError:
        """The sentence for an option that does not exist: it may be a setting, which --set changes."""
        flag, _, value = word.partition("=")
        value = value or _word_after(word, words)
        options = list(self._option_string_actions)
        if flag in ("--algorithm", "--algorithms") and "--set" in options and "--algorithms" not in options:
            wanted = [name.strip() for name in (value or "NAME").split(",")]
            return UserError(f"unknown option '{flag}': did you mean {choosing(wanted)}?")
        meant = [f"--set {key}" for key in self._settings_meant(flag, value)]
        if near := nearest(flag, options, cutoff=0.8 if meant else 0.6):
            meant.append(near)
        return UserError(f"unknown option '{flag}': {did_you_mean(meant) if meant else listed(sorted(options))}")

    def _settings_meant(self, flag: str, value: str) -> list[str]:
        if "--set" not in self._option_string_actions:
            return []
        from ..experiment.reference import meant_by  # every setting there is

        word = flag.lstrip("-")
        given = "VALUE" if not value or plain(word) in OTHER_QUANTITIES else value
        return [f"{setting.key}={given}" for setting in meant_by(word) if not setting.under]


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


def _word_after(word: str, words: list[str]) -> str:
    """The value that was given to an option; "" if there is none."""
    following = words[words.index(word) + 1 :] if word in words else []
    return following[0] if following and not following[0].startswith("--") else ""


class _Version(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):  # type: ignore[no-untyped-def]
        from importlib.metadata import version

        print(f"paota {version('paota')}")
        parser.exit()
