"""The global model as it travels: named arrays, one for each parameter, in place of one flat vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Malformed(Exception):
    """Arrays that are not the model that was asked for; the text says what is wrong."""


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the parameters in the order of the flat vector [d]."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, params: Any) -> Layout:
        """The layout of a JAX pytree; a layer's weight is called "0.weight", as PyTorch users expect."""
        import jax

        leaves = jax.tree_util.tree_flatten_with_path(params)[0]
        names = tuple(jax.tree_util.keystr(path, simple=True, separator=".") or "parameters" for path, _ in leaves)
        return cls(names, tuple(tuple(leaf.shape) for _, leaf in leaves))

    @property
    def size(self) -> int:
        """d."""
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)

    def split(self, flat: NDArray[Any]) -> dict[str, NDArray[np.float32]]:
        ends = np.cumsum([int(np.prod(shape, dtype=np.int64)) for shape in self.shapes])
        parts = np.split(np.asarray(flat, np.float32), ends[:-1])
        return {n: part.reshape(s) for n, part, s in zip(self.names, parts, self.shapes, strict=True)}

    def join(self, arrays: Mapping[str, Any]) -> NDArray[np.float32]:
        """The flat vector. Whatever is missing, superfluous or of another shape or type is refused."""
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
            with np.errstate(over="ignore"):  # beyond float32 becomes infinite, which is refused as such
                parts.append(array.astype(np.float32).ravel())
        return np.concatenate(parts)
