"""The same experiment on real devices: Flower carries the messages, `paota` brings deadline, staleness, power and air.

The server's loop (`coordinator`) is Algorithm 1 in real time; what it computes at a deadline is the simulator's own
code. `roster` and `answers` hold every decision about devices that die, come late or send nonsense, and know nothing of
Flower; `grid`, `server_app` and `client_app` are the only modules that import it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..errors import UserError

if TYPE_CHECKING:
    from .client_app import (
        LocalResult,
        LocalTask,
        answer_hello,
        answer_order,
        device_data,
        prepare_jax,
        train_with_jax,
        training_of,
    )
    from .launch import run_here
    from .server_app import serve

# Where each public name lives. Imported when first used, so that a sentence can say that Flower is missing.
_HOME = {
    "LocalResult": "client_app", "LocalTask": "client_app", "answer_hello": "client_app", "answer_order": "client_app",
    "device_data": "client_app", "prepare_jax": "client_app", "run_here": "launch",
    "serve": "server_app", "train_with_jax": "client_app", "training_of": "client_app",
}  # fmt: skip

__all__ = [
    "LocalResult", "LocalTask", "answer_hello", "answer_order", "device_data", "prepare_jax", "require_flower", "run_here",
    "serve", "train_with_jax", "training_of",
]  # fmt: skip


def require_flower() -> None:
    """A sentence instead of an ImportError for whoever has not installed the extra."""
    if find_spec("flwr") is None:
        raise UserError("a deployment needs Flower, which is not installed: pip install 'paota[flower]'")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        require_flower()
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module 'paota.flower' has no attribute '{name}'")
