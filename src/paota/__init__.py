"""paota: semi-asynchronous federated edge learning over the air.

>>> import paota
>>> result = paota.run({"rounds": 50, "air": {"n0_dbm_per_hz": -74}})
>>> result.time_to(0.8)

The names of this module are public; every other module may change. docs/api.md is their reference, docs/extend.md explains how
to add your own algorithm, channel, latency, partition, data set or model.
"""

from __future__ import annotations

import lazy_loader

# JAX is slow to import, so each name in the stub `__init__.pyi` is imported at its first use.
_lazily, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # start-up time

        return version("paota")
    return _lazily(name)
