"""All commands. A module adds them with `add_parser(subparsers)` and runs one with `run(args) -> int`.

A module with several commands sets the function of each as the default of `execute`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NoReturn

from ..base.errors import UserError, did_you_mean, listed, nearest, plain, printable, unknown_name
from ..base.plugins import load_plugin
from ..base.system import leave
from ..base.types import Json
from ..experiment.files import choosing
from ..experiment.reference import meant_by
from ..studies import fleet
from ..studies.bound import command as bound
from ..studies.live import command as watch
from ..studies.plan import command as plan
from ..studies.report import command as report
from ..studies.reproduce import command as reproduce
from ..studies.sweep import command as sweep
from . import completion, deploy, new, power, reference
from . import run as run_command

MODULES = (run_command, reference, report, watch, sweep, plan, reproduce, bound, power, fleet, deploy, new, completion)
# Title: its commands, and two examples.
GROUPS = {
    "Start": (
        ("run", "report", "watch", "presets", "algorithms", "settings"),
        ("paota run --preset quick", "paota run --set timing.period_s=6 --seeds 3"),
    ),
    "Study": (
        ("sweep", "plan", "reproduce", "bound", "power", "fleet"),
        ("paota sweep --preset quick --over timing.period_s=4,8,12", "paota plan experiment.toml"),
    ),
    "Deploy": (
        ("deploy", "device", "keys"),
        ("paota deploy --preset quick --set data.devices=5", "paota deploy --listen 0.0.0.0:8000 --keys keys"),
    ),
    "Extend": (("new", "completion"), ("paota new algorithm my-policy", "paota run my_policy.toml")),
}
WITH_PLUGINS = ("run", "report", "sweep", "plan")  # they read experiments, which may name a plug-in's things
LEAVES_AT_ONCE = ("run", "report", "sweep", "plan", "bound")  # on Ctrl-C, until there is something to save
OTHER_QUANTITIES = ("snr", "snrdb")  # words for a setting that holds another quantity: noise, not its ratio
LONGEST_SENTENCE = 1500  # characters: a sentence may quote any text that was given


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: this program's arguments) and return its exit code, as `cli.main` has it."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    parser = build_parser()
    try:
        args = parser.parse_args(words)
        args.as_program = argv is None  # else a caller in this very process, which must not be replaced
        if args.command is None:
            parser.print_help()
            return 0
        if args.as_program:
            signal.signal(signal.SIGINT, leave if args.command in LEAVES_AT_ONCE else signal.default_int_handler)
        for file in getattr(args, "plugin", ()):
            load_plugin(file)  # also for run folders, which are read without running the code that they name
        execute: Callable[[argparse.Namespace], int] = args.execute
        return execute(args)
    except UserError as error:
        _say(error)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):  # JAX's word
            raise
        _say("out of memory: fewer devices per event, a smaller model or smaller batches need less")
        return 1
    except BrokenPipeError:  # the reader of our output is gone, e.g. `paota presets paper | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a disk, a folder or a network is gone, or a name is too long
        _say(f"{error.strerror}: '{error.filename}'" if error.filename else error.strerror or error)
        return 1


def _say(sentence: object) -> None:
    text = printable(str(sentence))
    print(f"paota: {text if len(text) <= LONGEST_SENTENCE else text[:LONGEST_SENTENCE] + ' ...'}", file=sys.stderr)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose every mistake is one sentence with the nearest valid name."""

    def __init__(self, **arguments: Json) -> None:
        super().__init__(**arguments, allow_abbrev=False)  # `--seed 3` must not mean `--seeds 3`

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see '{self.prog} --help')")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            what = "command" if action.dest == "command" else f"value of {action.dest}"
            raise unknown_name(what, value, action.choices)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        known, unknown = super().parse_known_args(words, namespace)
        flags = [word for word in unknown if word.startswith("-")]
        if flags:  # the command's own parser comes first, and knows the flags that may be meant
            raise self._unknown_option(flags[0], words)
        return known, unknown

    def _unknown_option(self, word: str, words: list[str]) -> UserError:
        """Return the sentence for an option that does not exist. It may be a setting, which --set changes."""
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
        word = flag.lstrip("-")
        given = "VALUE" if not value or plain(word) in OTHER_QUANTITIES else value
        return [f"{setting.key}={given}" for setting in meant_by(word) if not setting.under]


class _Overview(Parser):
    """The parser of the program: its help lists the commands in groups, with examples."""

    summaries: dict[str, str | None]  # by command

    def format_help(self) -> str:
        width = shutil.get_terminal_size().columns - 2
        lines = [*textwrap.wrap(f"{self.description} 'paota help COMMAND' explains a command.", width)]
        for title, (names, examples) in GROUPS.items():
            lines += ["", f"{title}:"]
            for name in names:
                summary = f"  {name:12}{self.summaries[name]}"
                lines += textwrap.wrap(summary, max(width, 40), subsequent_indent=" " * 14)
            lines += [f"    $ {example}" for example in examples]
        return "\n".join([self.format_usage(), *lines, "", "paota --version prints the version.", ""])


def build_parser() -> Parser:
    """Return the parser of all commands."""
    parser = _Overview(prog="paota", description="Semi-asynchronous federated edge learning over the air.")
    parser.add_argument("--version", action=_Version, nargs=0)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for module in MODULES:
        known = set(commands.choices)
        module.add_parser(commands)
        for name in set(commands.choices) - known:
            if commands.choices[name].get_default("execute") is None:
                commands.choices[name].set_defaults(execute=module.run)  # type: ignore[attr-defined]
    parser.summaries = {action.dest: action.help for action in commands._choices_actions}
    for name in WITH_PLUGINS:
        commands.choices[name].add_argument(
            "--plugin", action="append", default=[], metavar="FILE.py",
            help="import a Python file that registers your own algorithms, channels, ...",
        )  # fmt: skip
    return parser


def _word_after(word: str, words: Sequence[str]) -> str:
    """Return the value that was given to an option; "" if there is none."""
    following = list(words)[list(words).index(word) + 1 :] if word in words else []
    return following[0] if following and not following[0].startswith("--") else ""


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # start-up time

        print(f"paota {version('paota')}")
        parser.exit()
