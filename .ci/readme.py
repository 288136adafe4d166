"""Run the README's own commands in bare virtual environments, on the oldest and on the newest supported Python.

    python3 .ci/readme.py            what CI does: all tests on the newest Python, those marked `bare` on the oldest
    python3 .ci/readme.py 3.12       one version, all tests

The commands are the README's shell blocks that begin with `pip install`. They run in a clone of the last commit, with
nothing installed but what they install, and without a browser.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def supported() -> list[str]:
    """The Python versions that pyproject.toml names, oldest first."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in classifiers]
    return sorted((match[1] for match in found if match), key=lambda version: int(version.split(".")[1]))


def interpreter(version: str) -> str:
    """The path of a Python of this version, from PATH or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))]
    for path in filter(None, candidates):  # a pyenv shim exists even where its version does not run
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    sys.exit(f"Python {version} is missing: install it, for example with 'pyenv install {version}'")


def commands() -> list[str]:
    """The README's shell blocks that install something: first what a user runs, then the tests."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    found = [block for block in blocks if block.startswith("pip install")]
    if [("pytest" in block) for block in found] != [False, True]:
        sys.exit("README.md: expected one block that installs and runs, and one that installs and tests")
    return found


def check(version: str, *, everything: bool) -> None:
    """Run the commands on one Python; the tests marked `bare` are enough unless `everything`."""
    python = interpreter(version)
    with tempfile.TemporaryDirectory(prefix="readme-") as folder:
        work = Path(folder)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(work / "clone")], check=True)
        subprocess.run([python, "-m", "venv", str(work / "venv")], check=True)
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("PAOTA", "PYTHON", "XLA"))
        }
        environment |= {
            "PATH": os.pathsep.join([str(work / "venv" / "bin"), os.environ["PATH"]]),
            "PAOTA_TEST_BROWSER": "none",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTEST_ADDOPTS": "" if everything else "-m bare",
        }
        for command in commands():
            print(f"\nPython {version}: {command.strip()}", flush=True)
            shell = ["bash", "-euo", "pipefail", "-c", command]
            done = subprocess.run(shell, cwd=work / "clone", env=environment)
            if done.returncode:
                sys.exit(f"Python {version}: exit code {done.returncode}: {command.strip()}")


if __name__ == "__main__":
    if sys.argv[1:]:
        for version in sys.argv[1:]:
            check(version, everything=True)
    else:
        oldest, *_, newest = supported()
        check(newest, everything=True)
        check(oldest, everything=False)
