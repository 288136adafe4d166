"""The interface between the server's loop and the outside: a clock, and messages to and from devices."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from jaxtyping import Float, PyTree

Arrays = Mapping[str, np.ndarray]  # a model as it travels: one named array for each parameter


class Clock(Protocol):
    """Real seconds, from any origin."""

    def now(self) -> float: ...
    def sleep_until(self, when: float) -> None: ...


class RealClock:
    """The clock of a real deployment. Tests use one that jumps."""

    def now(self) -> float:
        return time.monotonic()

    def sleep_until(self, when: float) -> None:
        time.sleep(max(0.0, when - time.monotonic()))


class Malformed(Exception):
    """Arrays that do not fit the model. The text says what is wrong."""


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the parameters, in the order of the flat vector [d]."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, params: PyTree) -> Layout:
        """Return the layout of a JAX pytree. A layer's weight is called "0.weight", as in PyTorch."""
        import jax  # start-up time: a device's client process may not import JAX

        leaves = jax.tree_util.tree_flatten_with_path(params)[0]
        names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") or "parameters" for path, _ in leaves)
        return cls(names, tuple(tuple(leaf.shape) for _, leaf in leaves))

    @property
    def size(self) -> int:
        """The number of parameters, d."""
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)

    def split(self, flat: Float[np.ndarray, " d"]) -> dict[str, np.ndarray]:
        """Return the named arrays of a flat vector."""
        ends = np.cumsum([int(np.prod(shape, dtype=np.int64)) for shape in self.shapes])
        parts = np.split(np.asarray(flat, np.float32), ends[:-1])
        return {n: part.reshape(s) for n, part, s in zip(self.names, parts, self.shapes, strict=True)}

    def join(self, arrays: Arrays) -> Float[np.ndarray, " d"]:
        """Return the flat vector of named arrays. Raise `Malformed` for a wrong name, shape or type."""
        if set(arrays) != set(self.names):
            wrong = sorted(set(arrays) ^ set(self.names))
            raise Malformed(f"its arrays are not those of the model (see '{wrong[0]}')"[:200])
        parts = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            array = np.asarray(arrays[name])
            if array.shape != shape:
                raise Malformed(f"'{name}' has shape {array.shape}, not {shape}")
            if array.dtype.kind != "f":
                raise Malformed(f"'{name}' holds {array.dtype}, not floats")
            with np.errstate(over="ignore"):  # a value beyond float32 becomes infinite, and `accept` refuses it
                parts.append(array.astype(np.float32).ravel())
        return np.concatenate(parts)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request for one local training."""

    node: int
    device: int
    version: int  # of the global model to start from
    training: int  # local trainings that the device has begun before


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The unchecked reply to a message: an error, or arrays and numbers."""

    message: str
    error: str | None = None
    error_kind: str = "error"
    arrays: Arrays = field(default_factory=dict)
    numbers: Mapping[str, object] = field(default_factory=dict)


class Post(Protocol):
    """Messages to and from devices. No method waits for a device."""

    def reachable(self) -> set[int]:
        """Return the nodes that are connected now."""
        ...

    def joined(self) -> dict[int, int]:
        """Return the nodes that have reported their device since the last call: {node: device}."""
        ...

    def send(
        self, orders: Sequence[Order], model: Float[np.ndarray, " d"], shifts: Float[np.ndarray, "n d"] | None = None
    ) -> list[str | None]:
        """Send `model` with its order to each node.

        Args:
            orders: one for each of n devices.
            model: the newest global model.
            shifts: a vector for each device to add to its gradients.

        Returns:
            The ids of the messages, None for a message that could not be sent.
        """
        ...

    def fetch(self, messages: Collection[str]) -> list[Answer]:
        """Return the answers to `messages` that have arrived and have not been fetched yet."""
        ...
