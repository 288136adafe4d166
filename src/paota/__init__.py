"""paota: semi-asynchronous federated edge learning over the air.

>>> import paota
>>> result = paota.run({"rounds": 50, "air": {"n0_dbm_per_hz": -74}})
>>> result.time_to(0.8)

What stands here is public; every other module may change. docs/api.md explains it all, docs/extend.md how to add an
algorithm, a channel, a latency, a partition, a data set or a model of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import callbacks, power, theory
    from .air.digital import Shares
    from .air.uplink import Uplink
    from .algorithms.base import (
        Algorithm,
        Amplitudes,
        Event,
        Heard,
        Report,
        Step,
        SynchronousAlgorithm,
        Work,
        average,
        normalise,
        weights,
    )  # fmt: skip
    from .algorithms.by_hand import aggregate_by_hand
    from .algorithms.staleness import staleness_weight
    from .callbacks.base import Callback, Round
    from .data.dataset import Dataset
    from .data.shards import Shards
    from .engine.server import Served
    from .engine.sharding import join_cluster
    from .errors import CallbackError, UserError
    from .experiment import Experiment
    from .models.base import FunctionModel
    from .models.own import as_model
    from .planner import Recommendation, plan
    from .power.policy import amplitude_cap
    from .power.settings import Power
    from .registry import register
    from .runs.folder import load
    from .runs.results import Result, Trajectory
    from .settings import setting
    from .simulate import run
    from .sweeps import Sweep, sweep
    from .timing.adaptive import ShareReadyOrRestart
    from .timing.schemes import Asynchronous, Buffered, Grouped, Periodic, ShareReady, Synchronous, Tiered

# Where each public name lives. Imported when first used: `import paota` and `paota --help` must not wait for JAX.
_HOME = {
    "run": "simulate", "sweep": "sweeps", "plan": "planner", "Recommendation": "planner", "load": "runs.folder",
    "register": "registry",
    "Experiment": "experiment", "Result": "runs.results", "UserError": "errors", "setting": "settings",
    "Algorithm": "algorithms.base", "SynchronousAlgorithm": "algorithms.base", "Work": "algorithms.base",
    "Report": "algorithms.base", "Event": "algorithms.base", "Amplitudes": "algorithms.base",
    "Heard": "algorithms.base", "Step": "algorithms.base", "average": "algorithms.base", "weights": "algorithms.base",
    "normalise": "algorithms.base", "staleness_weight": "algorithms.staleness",
    "aggregate_by_hand": "algorithms.by_hand", "amplitude_cap": "power.policy", "Power": "power.settings",
    "Uplink": "air.uplink", "Shares": "air.digital", "Periodic": "timing.schemes", "Synchronous": "timing.schemes",
    "Asynchronous": "timing.schemes", "Buffered": "timing.schemes", "Grouped": "timing.schemes",
    "ShareReady": "timing.schemes", "ShareReadyOrRestart": "timing.adaptive", "Tiered": "timing.schemes",
    "join_cluster": "engine.sharding", "Dataset": "data.dataset", "Shards": "data.shards", "FunctionModel": "models.base",
    "as_model": "models.own", "Trajectory": "runs.results", "Sweep": "sweeps", "Served": "engine.server",
    "Callback": "callbacks.base", "Round": "callbacks.base", "CallbackError": "errors",
}  # fmt: skip
_MODULES = ("callbacks", "power", "theory")

__all__ = [
    "Algorithm", "Amplitudes", "Asynchronous", "Buffered", "Callback", "CallbackError", "Dataset", "Event",
    "Experiment", "FunctionModel", "Grouped", "Heard", "Periodic", "Power", "Recommendation", "Report", "Result",
    "Round", "Served",
    "Shards", "ShareReady", "ShareReadyOrRestart", "Shares", "Step", "Sweep", "Synchronous", "SynchronousAlgorithm", "Tiered",
    "Trajectory",
    "Uplink", "UserError", "Work", "aggregate_by_hand", "amplitude_cap", "as_model", "average", "callbacks",
    "join_cluster", "load", "normalise", "plan", "power", "register", "run", "setting", "staleness_weight", "sweep", "theory",
    "weights",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        return version("paota")
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'paota' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
