"""The same experiment on real devices: Flower carries the messages, `paota` brings deadline, staleness, power and air.

The server (`server`) drives an algorithm's scheme on the wall clock; the rounds that it computes are the simulator's own.
`roster` and `answers` hold every decision about devices that fail, come late or send nonsense, and know nothing of
Flower; `flower_transport`, `server_app` and `client` are the only modules that import it. `launch` starts the processes.
"""

from __future__ import annotations

from importlib.util import find_spec

import lazy_loader

from ..base.errors import UserError, install_command

# Names are imported when they are used, so that a sentence can say that Flower is missing.
_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def require_flower() -> None:
    """Raise a sentence instead of an ImportError where the extra is not installed."""
    if find_spec("flwr") is None:
        raise UserError(f"a deployment needs Flower, which is not installed: {install_command('flower')}")


def __getattr__(name: str) -> object:
    if name in __all__:
        require_flower()
    return _lazily(name)
