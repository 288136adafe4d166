"""Kill a run with SIGKILL again and again, resume it, and compare bytes with a run that was left alone.

python benchmarks/crash.py --kills 100
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from types import ModuleType


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    args = parser.parse_args()
    crash = load_test_module()
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder, "whole"), Path(folder, "killed")
        rounds = 400 * args.kills
        crash.complete(*crash.flags(rounds), "--out", str(whole), cwd=folder)
        hits = crash.kill_until_done(killed, rounds, args.kills, args.seed)
        crash.assert_same_results(whole, killed)
    print(f"{hits} kills, and every result is byte-equal to the uninterrupted run's")
    return 0


def load_test_module() -> ModuleType:
    """The killing itself is written once, in the test."""
    path = Path(__file__).parents[1] / "tests" / "core" / "test_resume.py"
    spec = importlib.util.spec_from_file_location("crash_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
