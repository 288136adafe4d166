"""`paota completion`: a script that completes commands, options and names in a shell, made from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from ..base.registry import ALGORITHMS
from ..base.types import Subcommands
from ..experiment import reference
from ..experiment.files import preset_names
from .new import KINDS

BASH = """_paota() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    COMPREPLY=()
    case "$COMP_CWORD ${{COMP_WORDS[1]}} $before $word" in
        "1 "*) words="{commands}" ;;
        *" --preset "*) words="{presets}" ;;
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _paota paota
"""
ZSH = "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"
HOW = 'eval "$(paota completion bash)" in bash (zsh: the same with zsh), paota completion fish | source in fish'


def add_parser(commands: Subcommands) -> None:
    """Add the command; its script covers all commands that the parser has when it runs."""
    parser = commands.add_parser(
        "completion",
        help="print a script for your shell that completes commands and options",
        description="Print a script that completes commands, options and names. Put a line into the start-up file of your "
        f"shell: {HOW}.",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")
    parser.set_defaults(execute=lambda args: show(args.shell, commands.choices))


def show(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> int:
    """Print the script for a shell, from the parsers by command."""
    options = {name: [o for o in parser._option_string_actions if o != "-h"] for name, parser in parsers.items()}
    names = {
        name: [str(word) for action in parser._actions if not action.option_strings for word in action.choices or ()]
        for name, parser in parsers.items()
    }
    names |= {"help": [*parsers], "new": [*KINDS], "presets": preset_names()}
    names["settings"] = [*reference.sections(), *ALGORITHMS]
    if shell == "fish":
        lines = ["complete -c paota -n __fish_use_subcommand -f -a '{}'".format(" ".join([*parsers, "help"]))]
        for name, words in names.items():
            inside = f"complete -c paota -n '__fish_seen_subcommand_from {name}'"
            lines += [f"{inside} -f -a '{' '.join(words)}'"] if words else []
            for option in options.get(name, ()):
                values = f" -x -a '{' '.join(preset_names())}'" if option == "--preset" else ""
                lines.append(f"{inside} -l {option.removeprefix('--')}{values}")
        print("\n".join(lines))
        return 0
    cases = [f'        *" {name} "*" -"*) words="{" ".join(words)}" ;;' for name, words in options.items()]
    cases += [f'        *" {name} {name} "*) words="{" ".join(words)}" ;;' for name, words in names.items() if words]
    script = BASH.format(
        commands=" ".join([*parsers, "help"]), presets=" ".join(preset_names()), cases="\n".join(cases)
    )
    print((ZSH if shell == "zsh" else "") + script, end="")
    return 0
