"""paota: semi-asynchronous federated edge learning over the air.

>>> import paota
>>> result = paota.run({"rounds": 50, "air": {"n0_dbm_per_hz": -74}})
>>> result.time_to(0.8)

What stands here is public; every other module may change. docs/api.md explains it all, docs/extend.md how to add an
algorithm, a channel, a latency, a partition, a data set or a model of your own.
"""

from __future__ import annotations

import lazy_loader

# `import paota` and `paota --help` must not wait for JAX: the stub `__init__.pyi` lists the names, which are imported when used.
_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # start-up time

        return version("paota")
    return _lazily(name)
