"""How orders reach the devices and answers come back, as the server's loop sees it; `grid` does it with Flower."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from .answers import Answer


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one device is asked for."""

    node: int
    device: int
    version: int
    training: int


class Post(Protocol):
    """How messages reach the devices; nothing here waits for anybody."""

    def reachable(self) -> set[int]:
        """Nodes that are connected now."""
        ...

    def joined(self) -> dict[int, int]:
        """Nodes that have said since the last call which device they are: {node: device}."""
        ...

    def send(
        self, orders: Sequence[Order], model: NDArray[Any], shifts: NDArray[Any] | None = None
    ) -> list[str | None]:
        """Send `model` [d] with its order to each node; the message ids, None where it could not be sent.

        `shifts` [n, d]: what each device shall add to its gradients.
        """
        ...

    def fetch(self, messages: Collection[str]) -> list[Answer]:
        """The answers to `messages` that have arrived and have not been fetched yet."""
        ...
