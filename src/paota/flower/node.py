"""`flower-supernode`, looking for work more often: Flower's own waits 3 s after each look that found nothing.

python -m paota.flower.node [--look-every-s 0.25] ARGUMENTS OF flower-supernode
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace


def look_every(seconds: float) -> None:
    """No pause of this process's SuperNode is longer than `seconds`. Flower has no setting for it (1.41, 1.42)."""
    from flwr.supernode import start_client_internal as loop

    names = SimpleNamespace(**{name: getattr(time, name) for name in dir(time)})
    names.sleep = lambda pause_s: time.sleep(min(pause_s, seconds))
    setattr(loop, "time", names)  # noqa: B010  mypy knows that it is not meant to be changed


def main() -> None:
    from flwr.supernode.cli import flower_supernode

    if "--look-every-s" in sys.argv:
        at = sys.argv.index("--look-every-s")
        look_every(float(sys.argv[at + 1]))
        del sys.argv[at : at + 2]
    sys.argv[0] = "flower-supernode"
    flower_supernode()


if __name__ == "__main__":
    main()
