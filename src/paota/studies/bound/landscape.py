"""The objective F (Eq. sys_FL_task) and its gradients at any model: exact sums over all the data that devices hold."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ...base.rng import Purpose, device_key
from ...data.dataset import Dataset
from ...data.shards import Shards
from ...models.base import Model, loss_of, parameter_shapes
from ...training.learner import as_float

BLOCK = 6_000  # samples in one pass
PER_SAMPLE_BLOCK = 300  # per-sample gradients in memory at once


class Landscape:
    """F, its gradient, curvature and the gradients of each device for one data set and one partition."""

    def __init__(self, dataset: Dataset, shards: Shards, model: Model) -> None:
        self.model, self.shards = model, shards
        self._shape = (tuple(dataset.input_shape), dataset.num_classes)
        # As floats once: gradients are asked for hundreds of times.
        self.x = as_float(jnp.asarray(dataset.x_train), dataset.scaling)
        self.y = jnp.asarray(dataset.y_train)
        share = np.bincount(shards.indices, minlength=len(dataset.y_train)) / len(shards.indices)
        self.share = jnp.asarray(share, float)  # a sample counts once for every device that holds it
        example = parameter_shapes(model, *self._shape)
        flat, self.unravel = ravel_pytree(jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), example))
        self.num_parameters = int(flat.size)
        self._value_and_gradient = jax.jit(self._sum_over_blocks)
        self._curvature_along = jax.jit(self._hessian_product)
        self._device_moments = jax.jit(self._moments)

    def initial_model(self, seed: int) -> jax.Array:
        """w^0 of the runs with this seed, [d]."""
        return ravel_pytree(self.model.init(device_key(seed, Purpose.INITIAL_MODEL), *self._shape))[0]

    def value_and_gradient(self, w: Any) -> tuple[float, NDArray[np.float64]]:
        """(F(w), grad F(w) [d])."""
        value, gradient = self._value_and_gradient(jnp.asarray(w), self.x, self.y, self.share)
        return float(value), np.asarray(gradient, dtype=np.float64)

    def largest_curvature(self, w: Any, *, device: int | None = None, iterations: int = 12, seed: int = 0) -> float:
        """|largest eigenvalue| of the Hessian at w by power iteration: a lower bound that rises to it.

        Of F, or of F_k for the device k = `device`.
        """
        data = (self.x, self.y, self.share) if device is None else self._samples_of(device)
        direction = np.random.default_rng(seed).standard_normal(self.num_parameters)
        length = 0.0
        for _ in range(iterations):
            direction /= np.linalg.norm(direction)
            product = self._curvature_along(jnp.asarray(w), jnp.asarray(direction, float), *data)
            direction = np.asarray(product, dtype=np.float64)
            length = float(np.linalg.norm(direction))
            if length == 0.0:
                break
        return length

    def _samples_of(self, device: int) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(x, y, weight) of one device's samples; padded to few different lengths, so that programs are shared."""
        mine = self.shards.of(device)
        padded = -(-len(mine) // PER_SAMPLE_BLOCK) * PER_SAMPLE_BLOCK
        rows = np.pad(mine, (0, padded - len(mine)))
        weight = (np.arange(padded) < len(mine)) / len(mine)
        return self.x[rows], self.y[rows], jnp.asarray(weight, float)

    def device_moments(self, w: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(grad F_k(w) [K, d], mean_i |grad l_i|^2 over the samples of each device [K])."""
        gradients, squares = [], []
        for k in range(self.shards.num_devices):
            x, y, weights = self._samples_of(k)
            total, square = np.zeros(self.num_parameters), 0.0
            for first in range(0, len(y), PER_SAMPLE_BLOCK):
                block = slice(first, first + PER_SAMPLE_BLOCK)
                one, its_square = self._device_moments(jnp.asarray(w), x[block], y[block], weights[block])
                total += np.asarray(one, dtype=np.float64)
                square += float(its_square)
            gradients.append(total)
            squares.append(square)
        return np.array(gradients), np.array(squares)

    def _loss(self, w: jax.Array, x: jax.Array, y: jax.Array, weight: jax.Array) -> jax.Array:
        return weight @ loss_of(self.model)(self.model.apply(self.unravel(w), x), y)

    def _sum_over_blocks(
        self, w: jax.Array, x: jax.Array, y: jax.Array, share: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        value, gradient = jnp.zeros(()), jnp.zeros_like(w)
        for first in range(0, len(y), BLOCK):
            block = slice(first, first + BLOCK)
            one, slope = jax.value_and_grad(self._loss)(w, x[block], y[block], share[block])
            value, gradient = value + one, gradient + slope
        return value, gradient

    def _hessian_product(self, w: jax.Array, v: jax.Array, x: jax.Array, y: jax.Array, share: jax.Array) -> jax.Array:
        along: jax.Array = jax.jvp(lambda at: self._sum_over_blocks(at, x, y, share)[1], (w,), (v,))[1]
        return along

    def _moments(self, w: jax.Array, x: jax.Array, y: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        one = jnp.ones(1)
        each = jax.vmap(lambda xi, yi: jax.grad(self._loss)(w, xi[None], yi[None], one))(x, y)
        return weight @ each, weight @ jnp.sum(each**2, axis=1)
