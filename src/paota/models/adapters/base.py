"""What the adapters share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ...base.errors import UserError
from ..base import Judge


@dataclass(frozen=True, kw_only=True, eq=False)
class Adapted:
    """A module of another library.

    `module`'s own values are w^0 of every seed, unless `rebuild(key)` makes another one for each. Two are equal where they
    hold the same module: modules hold arrays, which neither hash nor compare.
    """

    module: Any = None
    rebuild: Callable[[jax.Array | None], Any] | None = None
    loss: Judge | None = None
    score: Judge | None = None
    score_name: str | None = None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._identity == other._identity  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return id(self.module), self.rebuild, self.loss, self.score, self.score_name


def channels_first(x: Any) -> Any:
    """Images [B, height, width, channels] as Equinox and PyTorch want them, [B, channels, height, width]; else `x`."""
    return jnp.moveaxis(x, -1, 1) if x.ndim == 4 else x


def batch_norm(kind: str) -> UserError:
    """The sentence for a layer whose output depends on its company in the batch."""
    return UserError(
        f"model: {kind} keeps running statistics, which devices with different data cannot average; use GroupNorm "
        "(or LayerNorm) instead"
    )


def dropout(kind: str) -> UserError:
    """The sentence for a layer that draws from randomness of its own."""
    return UserError(
        f"model: {kind} draws at random while it trains, outside the draws that make runs repeatable; leave it out, or "
        "set its rate to 0, and use training.weight_decay against overfitting"
    )
