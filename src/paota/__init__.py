"""paota: semi-asynchronous federated edge learning over the air.

>>> import paota
>>> result = paota.run({"rounds": 50, "air": {"n0_dbm_per_hz": -74}})
>>> result.time_to(0.8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import power, theory
    from .errors import UserError
    from .experiment import Experiment
    from .registry import register
    from .runs.folder import load
    from .runs.results import Result
    from .simulate import run
    from .sweeps import sweep

__all__ = ["Experiment", "Result", "UserError", "load", "power", "register", "run", "sweep", "theory"]

# Imported when first used: `import paota` and `paota --help` must not wait for JAX.
_HOME = {
    "Experiment": "experiment",
    "Result": "runs.results",
    "UserError": "errors",
    "load": "runs.folder",
    "register": "registry",
    "run": "simulate",
    "sweep": "sweeps",
}
_MODULES = ("power", "theory")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'paota' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
