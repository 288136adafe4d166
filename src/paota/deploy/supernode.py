"""`flower-supernode`, looking for work more often: Flower's own waits 3 s after each look that found nothing.

python -m paota.deploy.supernode [--look-every-s 0.25] [--through SOCKET] ARGUMENTS OF flower-supernode
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any


def look_every(seconds: float) -> None:
    """No pause of this process's SuperNode is longer than `seconds`. Flower has no setting for it (1.41, 1.42)."""
    from flwr.supernode import start_client_internal as loop

    names = SimpleNamespace(**{name: getattr(time, name) for name in dir(time)})
    names.sleep = lambda pause_s: time.sleep(min(pause_s, seconds))
    setattr(loop, "time", names)  # noqa: B010  mypy knows that it is not meant to be changed


def reach_through(socket_file: str) -> None:
    """Let this process's SuperNode reach its server through `socket_file`; TLS still verifies the server's own name."""
    import httpx
    from flwr.supercore.protobuf import client

    class Client(httpx.Client):
        def __init__(self, *, verify: Any, **options: Any) -> None:
            super().__init__(transport=httpx.HTTPTransport(uds=socket_file, verify=verify), **options)

    names = SimpleNamespace(**{name: getattr(httpx, name) for name in httpx.__all__})
    names.Client = Client
    setattr(client, "httpx", names)  # noqa: B010


def main() -> None:
    from flwr.supernode.cli import flower_supernode

    for option, set_up in (("--look-every-s", lambda text: look_every(float(text))), ("--through", reach_through)):
        if option in sys.argv:
            at = sys.argv.index(option)
            set_up(sys.argv[at + 1])
            del sys.argv[at : at + 2]
    sys.argv[0] = "flower-supernode"
    flower_supernode()


if __name__ == "__main__":
    main()
