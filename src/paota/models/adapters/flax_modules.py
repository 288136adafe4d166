"""Modules of Flax, linen and nnx, as models. Flax takes images as paota keeps them, [B, height, width, channels]."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ...base.errors import UserError
from ..base import Params
from .base import Adapted, batch_norm, dropout


@dataclass(frozen=True, kw_only=True, eq=False)
class LinenModel(Adapted):
    """A linen module; it holds no values, so `init` makes new ones for every seed."""

    written_name = "flax"

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        with _no_draws():
            variables = dict(self.module.init(key, jnp.zeros((1, *input_shape))))
        params = variables.pop("params", {})
        if variables:
            raise _stateful(type(self.module).__name__, "batch_stats" in variables, ", ".join(variables))
        return params

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        with _no_draws():
            return self.module.apply({"params": params}, x)


@contextlib.contextmanager
def _no_draws() -> Iterator[None]:
    """A sentence for a layer that asks for randomness while it is applied."""
    from flax.errors import InvalidRngError

    try:
        yield
    except InvalidRngError:
        raise dropout("a layer (Dropout?)") from None


@dataclass(frozen=True, kw_only=True, eq=False)
class NnxModel(Adapted):
    """An nnx module; the parameters are its `nnx.Param`s."""

    written_name = "flax-nnx"

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        from flax import nnx

        return nnx.to_pure_dict(_split(self.module if self.rebuild is None else self.rebuild(key))[1])

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        return self.trained(params)(x)

    def trained(self, params: Params) -> Any:
        """A copy of the user's own module with these parameters."""
        from flax import nnx

        structure, state, rest = _split(self.module)
        nnx.replace_by_pure_dict(state, params)
        return nnx.merge(structure, state, rest)


def _split(module: Any) -> tuple[Any, Any, Any]:
    """(structure, parameters, generators of layers that do not draw)."""
    from flax import nnx

    for _, layer in nnx.iter_modules(module):
        if isinstance(layer, nnx.Dropout) and not layer.deterministic and layer.rate > 0:
            raise dropout("Dropout")
    parts: Any = nnx.split(module, nnx.Param, nnx.RngState, ...)
    structure, params, generators, rest = parts
    if left := nnx.to_flat_state(rest):
        kinds = {type(variable).__name__ for _, variable in left}
        raise _stateful(type(module).__name__, "BatchStat" in kinds, ", ".join(sorted(kinds)))
    return structure, params, generators


def _stateful(name: str, statistics: bool, kinds: str) -> UserError:
    if statistics:
        return batch_norm("BatchNorm")
    return UserError(f"model: {name} keeps variables that are no parameters ({kinds}), and nobody would update them")
