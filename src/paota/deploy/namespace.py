"""A private network namespace (Linux): no other user of the machine reaches what listens on its 127.0.0.1.

Flower's SuperLink and SuperNode answer on loopback without asking for credentials: the control API to any user, the
runtime API to any process that wants a task. So both run in a namespace of their own. A `gateway` outside lets devices
through to the SuperLink's fleet API, a `relay` outside lets a SuperNode through to its server.

    python private.py COMMAND...     runs COMMAND there; says why not and exits with 2 where the system does not allow it

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

LOOPBACK = "PAOTA_LOOPBACK"  # environment variable: "private", set for the command
REFUSED = (
    "paota: this system allows no private network namespace, without which every user of this machine can act as you in "
    "the deployment: --shared-loopback starts it nevertheless (docs/trust.md)"
)
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
    if not private:
        print(REFUSED, file=sys.stderr)
        sys.exit(2)
    os.environ[LOOPBACK] = "private"
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
