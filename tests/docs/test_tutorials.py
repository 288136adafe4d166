"""The code, experiment files and commands of README and docs are valid, and the tutorials' code runs."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

import paota
from paota.cli.commands import build_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = sorted((ROOT / "docs").glob("tutorial-*.md"))

pytestmark = pytest.mark.usefixtures("clean_registries")


def blocks(file, language):
    return re.findall(
        rf"^ *```{language}[^\n]*\n(.*?)^ *```", file.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.mark.parametrize("file", [file for file in TUTORIALS if blocks(file, "python")], ids=lambda file: file.stem)
def test_the_code_of_a_tutorial_runs(file, tmp_path, monkeypatch):
    if "import torch" in file.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "tutorial"}
    for block in blocks(file, "python"):
        exec(compile(block, file.name, "exec"), namespace)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.stem)
def test_experiment_files_are_valid(file):
    """A block of TOML is an experiment or, where the page adds its own names, at least valid TOML."""
    for block in blocks(file, "toml"):
        table = tomllib.loads(block)
        if file in TUTORIALS:
            paota.Experiment.from_dict(table)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.stem)
def test_commands_exist_with_their_options(file):
    """Every `paota ...` line of a shell block is understood by the parser; what a reader fills in is left out."""
    parser = build_parser()
    for block in blocks(file, "(?:sh|bash)"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|", line.partition("  #")[0].partition(" # ")[0]):
                words = shlex.split(part.replace("<the folder>", "DIR").replace("<the simulation>", "DIR"))
                if words[:1] == ["paota"]:
                    parser.parse_args(words[1:])
