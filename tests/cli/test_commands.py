"""The overview of all commands, and hints for wrong words."""

import os
import subprocess
import sys

import pytest

from paota.cli import main
from paota.cli.commands import GROUPS, build_parser

pytestmark = pytest.mark.bare


def test_start_needs_no_jax():
    code = "import sys, paota.cli.commands as c; c.build_parser(); assert 'jax' not in sys.modules, 'jax was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})


def test_a_closed_pipe_is_no_error():
    script = f"{sys.executable} -m paota presets paper | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_the_overview_has_every_command_in_one_group_and_two_examples_each(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    parser = build_parser()
    named = [name for names, _ in GROUPS.values() for name in names]
    assert sorted(named) == sorted(parser.summaries)
    shown = parser.format_help()
    assert max(map(len, shown.splitlines())) <= 80
    for title, (_, examples) in GROUPS.items():
        assert f"\n{title}:\n" in shown
        assert len(examples) == 2
    for words in ([], ["help"], ["--help"]):
        if words:
            with pytest.raises(SystemExit, match="0"):
                main(words)
        else:
            assert main(words) == 0
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("example", [example for _, examples in GROUPS.values() for example in examples])
def test_the_examples_have_arguments_that_their_commands_take(example):
    build_parser().parse_args(example.split()[1:])


def test_help_explains_a_command(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["help", "run"])
    assert capsys.readouterr().out.startswith("usage: paota run")
    assert main(["help", "rn"]) == 2
    assert "unknown command 'rn': did you mean 'run'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("run fedprox", 'algorithms=[{name="local-sgd", training={proximal=0.01}}]'),
        ("run --algorithms fedprox", 'algorithms=[{name="local-sgd", training={proximal=0.01}}]'),
        ('run --set algorithms=[{name="fedprox"}]', "did you mean 'local-sgd' with training={proximal=0.01}?"),
        ("run --set timing.period_s=4..12", "paota sweep --over timing.period_s=4:12:STEP"),
        ("sweep --over timing.period_s=4..12", "paota sweep --over timing.period_s=4:12:STEP"),
        ("run --set experiment.rounds=5", "unknown setting 'experiment.rounds': did you mean 'rounds'?"),
    ],
)
def test_wrong_words_get_the_right_hint(words, hint, capsys):
    assert main(words.split(" ")) == 2
    assert hint in capsys.readouterr().err
