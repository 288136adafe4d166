"""The learner for multi-layer perceptrons on bytes or floats: the fused CPU kernel in `mlp.cc`.

It uses the mini-batches and the mathematics of the generic learner. Sums are taken in another order, so the two agree
to rounding. Where the kernel cannot be used, `unsuitable` returns the reason.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int32, Shaped, UInt16

from ...models.base import Model
from ...models.mlp import Mlp, Softmax
from ..learner import EncodedData, Index, LocalUpdates, SampleEvaluation, TrainingInputs
from ..settings import Training
from . import build

TARGETS = (("paota_mlp_train", "PaotaTrain"), ("paota_mlp_judge", "PaotaJudge"))
BLOCK = 16  # inputs; a vector of floats
MAX_PARAMETERS = 2**20  # a larger network does not fit into a core's cache, and large matrix products are faster


class BlockRows(NamedTuple):
    """Rows of bytes or floats cut into blocks of 16; blocks of zeros are left out.

    Row i is blocks `start[i]:start[i + 1]`. A block is four runs of 4 neighbours. `quad` is the place in a row where
    each run begins, or -1 for padding.
    """

    quad: Int32[np.ndarray, " 4*blocks_per_row"]
    start: Int32[np.ndarray, " N+1"]
    block: UInt16[np.ndarray, " stored"]  # number of each stored block in its row
    value: Shaped[np.ndarray, " 16*stored"]  # uint8 or float32


@dataclass(frozen=True)
class FusedMlp:
    """A `Learner` for networks with ReLU between layers of `widths` units."""

    widths: tuple[int, ...]

    @property
    def name(self) -> str:
        return "fused kernel"

    def encode(self, x: Shaped[np.ndarray, "N ..."]) -> BlockRows:
        return block_rows(x)

    def train(
        self, training: Training, inputs: TrainingInputs, ring: Float[Array, "V d"], x: BlockRows,
        y: Int[Array, " N"],
    ) -> LocalUpdates:  # fmt: skip
        """Train by plain SGD with one rate and M steps for all devices; `choose` sees to that."""
        build.register("mlp", TARGETS)
        slot, ready, sample, steps, rate, augmentation, *_ = inputs
        if steps is not None or jnp.ndim(rate) or augmentation is not None:
            raise ValueError(
                "the kernel makes the same steps with the same rate for all devices, on samples as they are"
            )
        matrix = jax.ShapeDtypeStruct((len(slot), ring.shape[1]), jnp.float32)
        results = (matrix, matrix, jax.ShapeDtypeStruct((len(slot),), jnp.float32))
        call = jax.ffi.ffi_call("paota_mlp_train", results)
        return LocalUpdates(*call(ring, slot, ready, sample, rate, *x, y, widths=np.array(self.widths, np.int32)))

    def evaluate(self, model: Float[Array, " d"], samples: EncodedData, first: Index, count: int) -> SampleEvaluation:
        build.register("mlp", TARGETS)
        x, y, weight = samples
        results = [jax.ShapeDtypeStruct((length,), jnp.float32) for length in (2, self.widths[-1])]
        call = jax.ffi.ffi_call("paota_mlp_judge", results)
        limits = jnp.stack([jnp.asarray(first, jnp.int32), jnp.asarray(first + count, jnp.int32)])
        (right, loss), by_label = call(model, limits, *x, y, weight, widths=np.array(self.widths, np.int32))
        return SampleEvaluation(right, loss, by_label)


def unsuitable(model: Model, x: Shaped[np.ndarray, "N ..."], num_classes: int) -> str | None:
    """Return the reason why the kernel cannot train `model` on rows like `x`; None if it can."""
    if type(model) not in (Mlp, Softmax):
        return f"no kernel for {type(model).__name__}"
    if x.dtype not in (np.uint8, np.float32):
        return f"no kernel for {x.dtype} data"
    if jax.default_backend() != "cpu":
        return f"no kernel for {jax.default_backend()}"
    if jnp.zeros(()).dtype != jnp.float32:
        return "no kernel for float64"
    widths = widths_of(model, x.shape[1:], num_classes)
    if sum(a * b for a, b in itertools.pairwise(widths)) > MAX_PARAMETERS:
        return "the model is too large for the kernel"
    if widths[0] > 2**20 or x.size // BLOCK >= 2**31:
        return "the data are too large for the kernel"
    try:
        build.library("mlp")
    except build.CannotBuild as error:
        return str(error)
    return None


def widths_of(model: Model, input_shape: tuple[int, ...], num_classes: int) -> tuple[int, ...]:
    """Return the number of units of each layer, inputs and outputs included."""
    hidden = model.hidden if isinstance(model, Mlp) else ()
    return (math.prod(input_shape), *hidden, num_classes)


def block_rows(x: Shaped[np.ndarray, "N ..."]) -> BlockRows:
    """Return samples of bytes or floats in the form of the kernel."""
    rows = x.reshape(len(x), -1)
    quad = quads(x.shape[1:])
    column = (quad[:, None] + np.arange(4)).ravel()
    inside = (quad[:, None] >= 0).repeat(4, axis=1).ravel() & (column < rows.shape[1])
    blocks = len(quad) // 4
    start, block, value = [np.zeros(1, np.int64)], [], []
    for part in np.array_split(rows, max(1, rows.size // 2**26)):  # large data are not copied at once
        ordered = np.where(inside, part[:, np.where(inside, column, 0)], x.dtype.type(0)).reshape(
            len(part), blocks, BLOCK
        )
        lit = ordered.any(axis=2)
        start.append(start[-1][-1] + np.cumsum(lit.sum(axis=1)))
        block.append(np.broadcast_to(np.arange(blocks, dtype=np.uint16), lit.shape)[lit])
        value.append(ordered[lit].ravel())
    return BlockRows(quad, np.concatenate(start).astype(np.int32), np.concatenate(block), np.concatenate(value))


def quads(shape: tuple[int, ...]) -> Int32[np.ndarray, " 4*blocks_per_row"]:
    """Return where the runs of 4 begin. Blocks are 4 x 4 pixels of an image, or 16 neighbours of a row."""
    size = math.prod(shape)
    row = size // shape[0]
    if len(shape) < 2 or row % 4:
        begin = np.arange(0, -(-size // BLOCK) * BLOCK, 4)
        return np.where(begin < size, begin, -1).astype(np.int32)
    top, left, line = np.meshgrid(np.arange(0, shape[0], 4), np.arange(0, row, 4), np.arange(4), indexing="ij")
    return np.where(top + line < shape[0], (top + line) * row + left, -1).ravel().astype(np.int32)
