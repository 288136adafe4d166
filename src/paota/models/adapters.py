"""Modules of Equinox and Flax as models. Each library is imported only where one of its modules is given.

Flax takes images as paota keeps them, [B, height, width, channels]; Equinox takes channels first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..base.errors import UserError
from .base import Params, WithMetrics

Module = Any  # a module of a library that need not be installed


@dataclass(frozen=True, kw_only=True, eq=False)
class Adapted(WithMetrics):
    """A module of another library.

    `module`'s own values are w^0 of every seed, unless `rebuild(key)` makes another module for each. Two adapted models
    are equal if they hold the same module: modules hold arrays, which neither hash nor compare.
    """

    module: Module = None
    rebuild: Callable[[jax.Array | None], Module] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Adapted) and type(self) is type(other) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        return id(self.module), self.rebuild, self.loss, self.score, self.score_name

    def _module_for(self, key: jax.Array) -> Module:
        return self.module if self.rebuild is None else self.rebuild(key)


def batch_norm(kind: str) -> UserError:
    """Return the error for a layer whose output depends on the other samples of a batch."""
    return UserError(
        f"model: {kind} keeps running statistics, which devices with different data cannot average; use GroupNorm "
        "(or LayerNorm) instead"
    )


def dropout(kind: str) -> UserError:
    """Return the error for a layer that draws its own random numbers."""
    return UserError(
        f"model: {kind} draws at random while it trains, outside the draws that make runs repeatable; leave it out, or "
        "set its rate to 0, and use training.weight_decay against overfitting"
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class EquinoxModel(Adapted):
    """An Equinox module, which maps one sample to its outputs.

    The parameters are the module's float arrays; everything else stays as it is.
    """

    written_name = "equinox"

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        return _split_equinox(self._module_for(key))[0]

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> jax.Array:
        return jax.vmap(self.trained(params))(jnp.moveaxis(x, -1, 1) if x.ndim == 4 else x)

    def trained(self, params: Params) -> Module:
        """Return the user's own module with these parameters."""
        import equinox  # optional

        return equinox.combine(params, _split_equinox(self.module)[1])


def _split_equinox(module: Module) -> tuple[Params, Module]:
    """Return (float arrays, the rest), both in the form of the module."""
    import equinox  # optional
    from equinox import nn  # optional

    special = (nn.StateIndex, nn.Dropout)  # BatchNorm and similar layers keep their state by a StateIndex
    for node in jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, special)):
        if isinstance(node, nn.StateIndex):
            raise batch_norm("a stateful layer (BatchNorm?)")
        if isinstance(node, nn.Dropout) and not node.inference and node.p > 0:
            raise dropout("Dropout")
        if equinox.is_array(node) and not jnp.issubdtype(node.dtype, jnp.floating):
            raise UserError(
                f"model: {type(module).__name__} holds an array of {node.dtype}, and only floats can be learned: keep "
                "other arrays as NumPy constants outside the module"
            )
    return equinox.partition(module, equinox.is_inexact_array)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinenModel(Adapted):
    """A Flax linen module; it holds no values, so `init` makes new ones for every seed."""

    written_name = "flax"

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        with _no_draws():
            variables = dict(self.module.init(key, jnp.zeros((1, *input_shape))))
        params = variables.pop("params", {})
        if variables:
            raise _stateful(type(self.module).__name__, "batch_stats" in variables, ", ".join(variables))
        return params

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> jax.Array:
        with _no_draws():
            return self.module.apply({"params": params}, x)


@contextlib.contextmanager
def _no_draws() -> Iterator[None]:
    """Refuse a layer that asks for randomness while it is applied."""
    from flax.errors import InvalidRngError  # optional

    try:
        yield
    except InvalidRngError:
        raise dropout("a layer (Dropout?)") from None


@dataclass(frozen=True, kw_only=True, eq=False)
class NnxModel(Adapted):
    """A Flax nnx module; the parameters are its `nnx.Param`s."""

    written_name = "flax-nnx"

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        from flax import nnx  # optional

        return nnx.to_pure_dict(_split_nnx(self._module_for(key))[1])

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> jax.Array:
        return self.trained(params)(x)

    def trained(self, params: Params) -> Module:
        """Return a copy of the user's own module with these parameters."""
        from flax import nnx  # optional

        structure, state, generators = _split_nnx(self.module)
        nnx.replace_by_pure_dict(state, params)
        return nnx.merge(structure, state, generators)


def _split_nnx(module: Module) -> tuple[Module, Params, Module]:
    """Return (structure, parameters, generators of layers that do not draw)."""
    from flax import nnx  # optional

    for _, layer in nnx.iter_modules(module):
        if isinstance(layer, nnx.Dropout) and not layer.deterministic and layer.rate > 0:
            raise dropout("Dropout")
    parts: Module = nnx.split(module, nnx.Param, nnx.RngState, ...)
    structure, params, generators, rest = parts
    if left := nnx.to_flat_state(rest):
        kinds = {type(variable).__name__ for _, variable in left}
        raise _stateful(type(module).__name__, "BatchStat" in kinds, ", ".join(sorted(kinds)))
    return structure, params, generators


def _stateful(name: str, statistics: bool, kinds: str) -> UserError:
    if statistics:
        return batch_norm("BatchNorm")
    return UserError(
        f"model: {name} keeps variables that are no parameters ({kinds}), and training does not update them"
    )
