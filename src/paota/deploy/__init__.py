"""An experiment on real devices. Flower carries the messages; `paota` adds deadline, staleness, power and the air.

The server (`server`) drives an algorithm's scheme on the wall clock; its rounds are the simulator's own. `roster` and
`answers` handle devices that fail, come late or send nonsense, and know nothing of Flower. Only `flower_transport`,
`server_app`, `client` and the programs below import it.

The processes of a deployment (`paota deploy --listen`; without it, the SuperNodes are in the same namespace):

    server's machine
      paota deploy                                     cli.deploy, launch: becomes the namespace's first process
      ├── gateway                                      outside the namespace: fleet API only, checks signatures
      ├── reaper                                       isolation: ends all others when `paota deploy` is gone
      └── [private network namespace]                  isolation
          ├── SuperLink                                flower_programs: keeps messages
          │   └── SuperExec -> ServerApp               flower_programs, server_app: drives the scheme
          └── flwr run                                 follows the log
    device's machine
      paota device                                     cli.deploy
      ├── relay                                        gateway: outside the namespace, leads to the server
      ├── reaper
      └── [private network namespace]
          ├── SuperNode                                flower_programs: fetches messages
          │   └── flwr-clientapp (programs/)           hands each message to the fork server
          └── fork server -> ClientApp per message     device_processes, client
              └── trainer                              device_processes, training: the only one with JAX

The ServerApp writes the outcome into a file. Its path comes in an environment variable (`processes.OUTCOME`).
"""

from __future__ import annotations

from importlib.util import find_spec

import lazy_loader

from ..base.errors import UserError, install_command

# Names are imported when they are used, so that a sentence can report that Flower is missing.
_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def require_flower() -> None:
    """Raise a `UserError` where the extra is not installed."""
    if find_spec("flwr") is None:
        raise UserError(f"a deployment needs Flower, which is not installed: {install_command('flower')}")


def __getattr__(name: str) -> object:
    if name in __all__:
        require_flower()
    return _lazily(name)
