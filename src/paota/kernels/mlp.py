"""Multi-layer perceptrons on bytes, trained by the fused CPU kernel in `mlp.cc`.

Same mini-batches and same mathematics as the generic path; sums are taken in another order, so the two agree to
rounding. Where the kernel cannot be used, `unsuitable` says why.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..learner import Trained
from ..models.base import Model
from ..models.mlp import Mlp
from ..models.softmax import Softmax
from . import build

MAX_PARAMETERS = 2**20  # beyond, a network no longer lives in a core's cache, and large matrix products win


class SparseRows(NamedTuple):
    """Rows of bytes, of which only those above 0 are kept: row i is `start[i]:start[i + 1]`."""

    start: Any  # int32 [N + 1]
    pixel: Any  # uint16
    value: Any  # uint8


@dataclass(frozen=True)
class FusedMlp:
    """A `Learner` for networks with ReLU between layers of `widths` units."""

    widths: tuple[int, ...]

    @property
    def name(self) -> str:
        return "fused kernel"

    def encode(self, x: NDArray[np.uint8]) -> SparseRows:
        return sparse_rows(x)

    def train(
        self,
        learning_rate: jax.Array,
        ring: jax.Array,
        slot: jax.Array,
        ready: jax.Array,
        sample: jax.Array,
        x: SparseRows,
        y: jax.Array,
    ) -> Trained:
        register()
        matrix = jax.ShapeDtypeStruct((len(slot), ring.shape[1]), jnp.float32)
        results = (matrix, matrix, jax.ShapeDtypeStruct((len(slot),), jnp.float32))
        call = jax.ffi.ffi_call("paota_mlp_train", results)
        return Trained(*call(ring, slot, ready, sample, learning_rate, *x, y, widths=np.array(self.widths, np.int32)))

    def judge(
        self, model: jax.Array, x: SparseRows, y: jax.Array, weight: jax.Array, first: Any, count: int
    ) -> tuple[jax.Array, jax.Array]:
        register()
        call = jax.ffi.ffi_call("paota_mlp_judge", jax.ShapeDtypeStruct((2,), jnp.float32))
        samples = jnp.stack([jnp.asarray(first, jnp.int32), jnp.asarray(first + count, jnp.int32)])
        right, loss = call(model, samples, *x, y, weight, widths=np.array(self.widths, np.int32))
        return right, loss


def unsuitable(model: Any, x: NDArray[Any], num_classes: int) -> str | None:
    """Why the kernel cannot train `model` on rows like `x`; None if it can."""
    if type(model) not in (Mlp, Softmax):
        return f"no kernel for {type(model).__name__}"
    if x.dtype != np.uint8:
        return f"no kernel for {x.dtype} data"
    if jax.default_backend() != "cpu":
        return f"no kernel for {jax.default_backend()}"
    if jnp.zeros(()).dtype != jnp.float32:
        return "no kernel for float64"
    widths = widths_of(model, x.shape[1:], num_classes)
    if sum(a * b for a, b in itertools.pairwise(widths)) > MAX_PARAMETERS:
        return "the model is too large for the kernel"
    if widths[0] > 2**16 or np.count_nonzero(x) >= 2**31:
        return "the data are too large for the kernel"
    try:
        build.library("mlp")
    except build.CannotBuild as error:
        return str(error)
    return None


def widths_of(model: Model, input_shape: tuple[int, ...], num_classes: int) -> tuple[int, ...]:
    hidden = model.hidden if isinstance(model, Mlp) else ()
    return (math.prod(input_shape), *hidden, num_classes)


def sparse_rows(x: NDArray[np.uint8]) -> SparseRows:
    rows = x.reshape(len(x), -1)
    lit = rows != 0
    start = np.concatenate([[0], np.cumsum(lit.sum(axis=1))]).astype(np.int32)
    pixel = np.broadcast_to(np.arange(rows.shape[1], dtype=np.uint16), rows.shape)[lit]
    return SparseRows(start, pixel, rows[lit])


@functools.cache
def register() -> None:
    """Make the kernel known to JAX, once a process."""
    library = build.library("mlp")
    jax.ffi.register_ffi_target("paota_mlp_train", jax.ffi.pycapsule(library.PaotaTrain), platform="cpu")
    jax.ffi.register_ffi_target("paota_mlp_judge", jax.ffi.pycapsule(library.PaotaJudge), platform="cpu")
