"""`flower-supernode`, looking for work more often: Flower's own waits 3 s after each look that found nothing.

python -m paota.flower.node [--look-every-s 0.25] ARGUMENTS OF flower-supernode
"""

from __future__ import annotations

import sys
from types import SimpleNamespace


def look_every(seconds: float) -> None:
    """No pause of this process's SuperNode is longer than `seconds`. Flower has no setting for it (1.41, 1.42)."""
    from flwr.supernode import start_client_internal as loop

    clock = loop.time
    names = SimpleNamespace(**{name: getattr(clock, name) for name in dir(clock)})
    names.sleep = lambda pause_s: clock.sleep(min(pause_s, seconds))
    loop.time = names  # type: ignore[assignment]


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
