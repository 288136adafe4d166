"""`paota completion`: bash takes the script, and it completes commands, options and names."""

import shutil
import subprocess

import pytest

from paota.cli import main
from paota.cli.commands import build_parser
from paota.experiment.files import preset_names

pytestmark = pytest.mark.bare

ASK = 'source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _paota; echo "${COMPREPLY[@]}"'


@pytest.fixture
def script(tmp_path, capsys):
    assert main(["completion", "bash"]) == 0
    file = tmp_path / "paota.bash"
    file.write_text(capsys.readouterr().out)
    return file


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("paota ru", "run"),
        ("paota run --dry", "--dry-run"),
        ("paota run --preset qui", "quick"),
        ("paota presets qui", "quick"),
        ("paota settings tim", "timing"),
        ("paota settings fedb", "fedbuff"),
        ("paota help swe", "sweep"),
        ("paota completion fi", "fish"),
        ("paota run my", ""),  # then bash completes file names
    ],
)
def test_bash_completes(typed, words, script):
    subprocess.run(["bash", "-n", script], check=True)
    done = subprocess.run(["bash", "-c", ASK, "bash", script, typed], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_option_and_preset_is_in_the_script(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    words = set(script.replace('"', " ").replace("'", " ").split())
    parser = build_parser()
    assert {*parser.summaries, "help", *preset_names()} <= words
    dashes = "" if shell == "fish" else "--"
    assert {f"{dashes}dry-run", f"{dashes}trust-plugins", f"{dashes}preset"} <= words
    if shutil.which(shell):
        subprocess.run([shell, "-n", "-c", script], check=True)


def test_an_unknown_shell_is_refused(capsys):
    assert main(["completion", "fisch"]) == 2
    assert "unknown value of shell 'fisch': did you mean 'fish'?" in capsys.readouterr().err
