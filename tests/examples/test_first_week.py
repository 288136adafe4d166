"""The script of a researcher's first week runs as a user would run it."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "first_week.py"


def test_the_script_runs(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch")
    ended = subprocess.run([sys.executable, str(SCRIPT)], cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr
