"""An Equinox module, which maps one sample to its outputs, as a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from ...base.errors import UserError
from ..base import Params
from .base import Adapted, batch_norm, channels_first, dropout


@dataclass(frozen=True, kw_only=True, eq=False)
class EquinoxModel(Adapted):
    """The parameters are the module's float arrays; everything else stays as it is."""

    written_name = "equinox"

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        return _split(self.module if self.rebuild is None else self.rebuild(key))[0]

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        return jax.vmap(self.trained(params))(channels_first(x))

    def trained(self, params: Params) -> Any:
        """The user's own module with these parameters."""
        import equinox

        return equinox.combine(params, _split(self.module)[1])


def _split(module: Any) -> tuple[Any, Any]:
    """(float arrays, the rest), both in the form of the module."""
    import equinox
    from equinox import nn

    special = (nn.StateIndex, nn.Dropout)  # the first is what BatchNorm and its like keep their state by
    for node in jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, special)):
        if isinstance(node, nn.StateIndex):
            raise batch_norm("a stateful layer (BatchNorm?)")
        if isinstance(node, nn.Dropout) and not node.inference and node.p > 0:
            raise dropout("Dropout")
        if equinox.is_array(node) and not jax.numpy.issubdtype(node.dtype, jax.numpy.floating):
            raise UserError(
                f"model: {type(module).__name__} holds an array of {node.dtype}, and only floats can be learned: keep "
                "other arrays as NumPy constants outside the module"
            )
    return equinox.partition(module, equinox.is_inexact_array)
