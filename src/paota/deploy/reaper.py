"""No orphans: ends process groups when the process that started them is gone, however it ended.

    python guard.py [FOLDER]     reads process numbers, one a line; when standard input closes, ends their groups and
                                 removes FOLDER

It is run by its path with nothing but the standard library, and leads a session of its own, so that no signal meant for
the others reaches it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence


def groups_below(leaders: Sequence[int]) -> set[int]:
    """The process groups of `leaders` and all their descendants: some of Flower's helpers lead groups of their own."""
    try:
        listing = subprocess.run(["ps", "-eo", "pid=,ppid=,pgid="], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # no `ps`: helpers notice on their own that the leader is gone
        return set(leaders)
    rows = [tuple(map(int, line.split())) for line in listing.splitlines()]
    family = set(leaders)
    while True:
        grown = family | {pid for pid, parent, _ in rows if parent in family}
        if grown == family:
            return set(leaders) | {group for pid, _, group in rows if pid in family}
        family = grown


def signal_group(group: int, how: int) -> bool:
    """Whether there was anybody left to get it."""
    try:
        os.killpg(group, how)
    except (ProcessLookupError, PermissionError):  # gone, or by now somebody else's
        return False
    return True


def main() -> None:
    leaders: set[int] = set()
    for line in sys.stdin:
        number = int(line)
        leaders.add(number) if number > 0 else leaders.discard(-number)
    groups = groups_below(sorted(leaders)) if leaders else set()
    for how, patience_s in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for group in groups:
            signal_group(group, how)
        latest = time.monotonic() + patience_s
        while groups and time.monotonic() < latest:
            groups = {group for group in groups if signal_group(group, 0)}
            time.sleep(0.05)
    for folder in sys.argv[1:]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
