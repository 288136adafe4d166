"""A loopback of one's own (Linux): what listens on 127.0.0.1 in here cannot be reached by anybody else on the machine.

Flower's SuperLink asks nobody on its control API for credentials, and offers it on the port that devices need. So
a deployment runs in a network namespace of its own, and a `gateway` outside lets devices through to what is theirs.

    python private.py COMMAND...     runs COMMAND there, or as it is (and says so) where the system does not allow it

It is run by its path with nothing but the standard library: a process with threads may not leave its user namespace.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

LOOPBACK = "PAOTA_LOOPBACK"  # environment variable: "private" or "shared", set for the command
_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def own_loopback() -> bool:
    """Move this process into a new network namespace with nothing but a loopback in it; whether that worked."""
    if not sys.platform.startswith("linux"):
        return False
    user, group = os.getuid(), os.getgid()
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    if unshare(_NEWNET) != 0:  # needs privileges, which a new user namespace brings along
        if unshare(_NEWUSER | _NEWNET) != 0:
            return False
        with suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(control, _GET_FLAGS, request))[1]
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14s", b"lo", flags | _UP, b""))
    return True


def main(command: list[str]) -> None:
    try:
        private = own_loopback()
    except OSError:
        private = False
    os.environ[LOOPBACK] = "private" if private else "shared"
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
