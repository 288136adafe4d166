"""`flower-superlink`, with more patience for its own processes: Flower's starts another one after 30 s without a sign.

On a busy machine that is too soon, and every further process makes it busier: none of them ever comes to life.

    python -m paota.deploy.superlink ARGUMENTS OF flower-superlink
"""

from __future__ import annotations

import sys

SIGN_OF_LIFE_S = 120  # for a process to start; twice that, later, to be seen to be alive


def be_patient() -> None:
    """Of this process's SuperLink. Flower has no setting for it (1.41, 1.42)."""
    from flwr.supercore.corestate import in_memory_corestate, sql_corestate

    for module in (in_memory_corestate, sql_corestate):
        if not hasattr(module, "HEARTBEAT_DEFAULT_INTERVAL"):
            raise AttributeError(f"{module.__name__} has no HEARTBEAT_DEFAULT_INTERVAL any more")
        setattr(module, "HEARTBEAT_DEFAULT_INTERVAL", SIGN_OF_LIFE_S)  # noqa: B010  mypy takes it for a constant


def main() -> None:
    from flwr.superlink.cli import flower_superlink

    be_patient()
    sys.argv[0] = "flower-superlink"
    flower_superlink()


if __name__ == "__main__":
    main()
