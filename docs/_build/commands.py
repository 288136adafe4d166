"""The reference page of all commands, made from their parsers: `python docs/_build/commands.py > docs/commands.md`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from paota.cli.commands import build_parser

HEAD = """# Commands

All commands and their options. `paota COMMAND --help` prints the same in the terminal.

This page is written by `python docs/_build/commands.py > docs/commands.md`; a test keeps it true.
"""


def markdown() -> str:
    """The whole page."""
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help for action in commands._choices_actions}
    parts = [HEAD]
    for name, parser in commands.choices.items():
        parts.append(f"## `paota {name}`\n")
        parts.append(f"{_sentence(parser.description or helps.get(name) or '')}\n")
        parts.append("\n".join(_table(parser)) + "\n")
    return "\n".join(parts)


def _table(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield "| option | meaning |"
    yield "|---|---|"
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        metavar = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
        shown = " ".join(metavar) if isinstance(metavar, tuple) else str(metavar)
        takes_value = action.nargs != 0
        names = [f"`{flag} {shown}`" if takes_value else f"`{flag}`" for flag in action.option_strings] or [f"`{shown}`"]
        text = (action.help or "") % {"default": action.default, "prog": parser.prog}
        cells = [", ".join(names), " ".join(text.split())]
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "." if text else ""


if __name__ == "__main__":
    print(markdown(), end="")
