"""`paota presets`, `paota algorithms` and `paota settings`: complete lists, and nothing cut off."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from paota.base.registry import ALGORITHMS
from paota.cli import main
from paota.experiment.files import PRESETS, preset_names

pytestmark = pytest.mark.bare


def test_presets_are_listed_with_their_whole_description_and_printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["presets"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 60
    words = " ".join(shown.split())
    for name in preset_names():
        lines = (PRESETS / f"{name}.toml").read_text(encoding="utf-8").splitlines()
        head = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
        assert f"{name} {' '.join(' '.join(head).replace('#', ' ').split())}" in words
    assert main(["presets", "quick"]) == 0
    assert "[[algorithms]]" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 200])
def test_algorithms_are_listed_in_one_line_each_with_uplink_and_scheme(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["algorithms"]) == 0
    head, *lines, _, hint = capsys.readouterr().out.splitlines()
    assert head.split() == ["algorithm", "uplink", "scheme"]
    assert [line.split()[0] for line in lines] == list(ALGORITHMS)
    assert all(len(line) <= columns for line in lines)
    by_name = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    assert by_name["paota"].startswith("air periodic PAOTA, the paper's Algorithm 1")
    assert by_name["fedbuff"].startswith("digital buffered the server collects B updates")
    assert by_name["paota-plus"].startswith("air first-to-finish")
    assert any(line.endswith(" ...") for line in lines) == (columns == 80)
    assert hint.endswith("paota settings NAME")


@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        ("paota", "algorithms.LABEL.payload"),
        ("experiment.rounds", "rounds"),
        ("timing.period_s", "timing.period_s"),
        ("fedprox", "training.proximal"),
        ("timing", "timing.period_s"),
    ],
)
def test_settings_of_an_algorithm_a_section_or_one_key(wanted, key, capsys):
    assert main(["settings", wanted]) == 0
    assert key in {line.split()[0] for line in capsys.readouterr().out.splitlines() if line}


def test_an_algorithm_without_options_says_so(capsys):
    assert main(["settings", "fedasync"]) == 0
    assert main(["settings", "threshold"]) == 0
    assert "threshold" in capsys.readouterr().out


@pytest.mark.parametrize(("wanted", "paged"), [([], True), (["timing"], True), (["timing.period_s"], False)])
def test_long_settings_are_paged_on_a_terminal_only(wanted, paged):
    """A pseudo-terminal of ten lines; the pager marks every line."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 80, 0, 0))
    code = f"from paota.cli import main; main({['settings', *wanted]})"
    environment = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=terminal, stdout=terminal, stderr=terminal,
        env={**environment, "TERM": "xterm", "PAGER": "sed s/^/PAGE:/"},
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(reader, 65_536):
            shown += part
    os.close(reader)
    assert child.wait() == 0
    assert b"timing.period_s" in shown
    assert (b"PAGE:" in shown) is paged


def test_redirected_settings_are_not_paged():
    done = subprocess.run(
        [sys.executable, "-c", "from paota.cli import main; main(['settings'])"], capture_output=True, text=True, check=True,
        env={**os.environ, "PAGER": "sed s/^/PAGE:/"},
    )  # fmt: skip
    assert "timing.period_s" in done.stdout
    assert "PAGE:" not in done.stdout
