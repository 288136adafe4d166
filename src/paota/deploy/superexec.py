"""`flower-superexec`, which hands task tokens over in files: Flower's puts them among a process's arguments.

Every user of a machine can read the arguments of every process. Flower has no setting for it (1.41, 1.42), but its
processes take `--token-file` in place of `--token`. An executable of the same name stands first in the PATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

COMMAND = "flower-superexec"
EXECUTABLE = """\
#!{python}
from paota.deploy.superexec import main

main()
"""


def install(folder: Path) -> None:
    """Write the executable into `folder`."""
    folder.mkdir(exist_ok=True)
    file = folder / COMMAND
    file.write_text(EXECUTABLE.format(python=sys.executable))
    file.chmod(0o700)


def hide_tokens(folder: Path) -> None:
    """Let this process's SuperExec hand over each token in a file in `folder` that only this user can read."""
    from flwr.supercore.superexec.executor import subprocess_executor

    tokens: dict[subprocess.Popen[bytes], str] = {}

    def start(command: list[str], **popen: Any) -> subprocess.Popen[bytes]:
        for ended in [process for process in tokens if process.poll() is not None]:
            Path(tokens.pop(ended)).unlink()
        at = command.index("--token")
        descriptor, name = tempfile.mkstemp(prefix="token-", dir=folder)
        with os.fdopen(descriptor, "w") as file:
            file.write(command[at + 1])
        process = subprocess.Popen([*command[:at], "--token-file", name, *command[at + 2 :]], **popen)
        tokens[process] = name
        return process

    names = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)
    setattr(subprocess_executor, "subprocess", names)  # noqa: B010  mypy knows that it is not meant to be changed


def main() -> None:
    from flwr.supercore.cli.flower_superexec import flower_superexec

    hide_tokens(Path(sys.argv[0]).parent)
    sys.argv[0] = COMMAND
    flower_superexec()
