"""Two programs around a deployment's processes: a private network for them, and an end for all of them.

    python isolation.py private COMMAND...   runs COMMAND in a private network namespace (Linux); where the system allows
                                             none, it says so and exits with 2
    python isolation.py reap [FOLDER]        reads process numbers, one per line; when standard input closes, it ends
                                             their process groups and removes FOLDER

Flower's SuperLink and SuperNode answer on loopback without asking for credentials: the control API to any user, the
runtime API to any process that asks for a task. In a network namespace of their own, no other user of the machine reaches
them. A `gateway` outside lets devices through to the SuperLink's fleet API, a relay lets a SuperNode through to its server.

The file is run by its path with nothing but the standard library: a process with threads may not leave its user
namespace, and the reaper must not depend on what it ends. The reaper runs in a separate session, so
signals for the others do not reach it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LOOPBACK = "PAOTA_LOOPBACK"  # environment variable: "private", set for the command
REFUSED = (
    "paota: this system allows no private network namespace, without which every user of this machine can act as you in "
    "the deployment: --shared-loopback starts it nevertheless (docs/trust.md)"
)
_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def own_loopback() -> bool:
    """Move this process into a new network namespace that has only a loopback. Return whether that worked."""
    if not sys.platform.startswith("linux"):
        return False
    user, group = os.getuid(), os.getgid()
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    if unshare(_NEWNET) != 0:  # needs privileges, which a new user namespace has
        if unshare(_NEWUSER | _NEWNET) != 0:
            return False
        with suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    import fcntl  # optional: not on every system

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(control, _GET_FLAGS, request))[1]
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14s", b"lo", flags | _UP, b""))
    return True


def run_private(command: list[str]) -> None:
    """Become `command` in a private network namespace."""
    try:
        private = own_loopback()
    except OSError:
        private = False
    if not private:
        print(REFUSED, file=sys.stderr)
        sys.exit(2)
    os.environ[LOOPBACK] = "private"
    os.execvp(command[0], command)


def groups_below(leaders: Sequence[int]) -> set[int]:
    """Return the process groups of `leaders` and of all their descendants: some of Flower's helpers lead groups."""
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


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group. Return whether the group still exists."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # gone; its number may belong to another user by now
        return False
    return True


def reap(folders: Sequence[str]) -> None:
    """Wait until standard input closes, then end the process groups named there and remove `folders`.

    A negative number takes a process off the list. A SIGTERM to all processes of a service must not end the reaper first.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    leaders: set[int] = set()
    for line in sys.stdin:
        pid = int(line)
        leaders.add(pid) if pid > 0 else leaders.discard(-pid)
    groups = groups_below(sorted(leaders)) if leaders else set()
    for number, patience_s in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for group in groups:
            signal_group(group, number)
        latest = time.monotonic() + patience_s
        while groups and time.monotonic() < latest:
            groups = {group for group in groups if signal_group(group, 0)}
            time.sleep(0.05)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    {"private": run_private, "reap": reap}[sys.argv[1]](sys.argv[2:])
