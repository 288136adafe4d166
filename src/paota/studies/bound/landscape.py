"""The objective F (Eq. sys_FL_task), its derivatives and its minimum: exact sums over all the data that devices hold.

F is not convex in general. `minimise` therefore returns the best value found from one start, not a proven minimum.
`Optimum` says how finished the search was: the gradient that is left, and the gain of the last steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize

from ...base.rng import Purpose, device_key, host_rng
from ...data.dataset import Dataset
from ...data.shards import Shards
from ...models.base import Model, loss_of, parameter_shapes
from ...training.learner import as_float

Floats = NDArray[np.float64]
Vector = Floats | Float[Array, " d"]  # a model, or a direction among the models
Samples = tuple[jax.Array, jax.Array, jax.Array]  # inputs, labels and the weight of each sample
AdamState = tuple[jax.Array, jax.Array, jax.Array, jax.Array]  # model, mean, mean square, steps

BLOCK = 6_000  # samples in one pass
PER_SAMPLE_BLOCK = 300  # per-sample gradients in memory at once
BATCH = 1000
FIRST_STEP = 0.01  # of Adam; falls to zero along a cosine
LAST_STRETCH = 0.2  # the share of the L-BFGS steps whose gain is reported


class Landscape:
    """F, its gradient, its curvature and the gradients of each device, for one data set and one partition."""

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

    def initial_model(self, seed: int) -> Float[Array, " d"]:
        """Return w^0 of the runs with this seed."""
        return ravel_pytree(self.model.init(device_key(seed, Purpose.INITIAL_MODEL), *self._shape))[0]

    def value_and_gradient(self, w: Vector) -> tuple[float, Floats]:
        """Return F(w) and grad F(w) [d]."""
        value, gradient = self._value_and_gradient(jnp.asarray(w), self.x, self.y, self.share)
        return float(value), np.asarray(gradient, dtype=np.float64)

    def largest_curvature(self, w: Vector, *, device: int | None = None, iterations: int = 12, seed: int = 0) -> float:
        """Estimate the largest |eigenvalue| of the Hessian at w by power iteration, from below.

        Args:
            w: The model, [d].
            device: The device k whose F_k is meant. By default, F is.
            iterations: Number of Hessian-vector products.
            seed: Seed of the first direction.
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

    def _samples_of(self, device: int) -> Samples:
        """Return one device's samples, padded to one of few lengths so that programs are shared."""
        mine = self.shards.of(device)
        padded = -(-len(mine) // PER_SAMPLE_BLOCK) * PER_SAMPLE_BLOCK
        rows = np.pad(mine, (0, padded - len(mine)))
        weight = (np.arange(padded) < len(mine)) / len(mine)
        return self.x[rows], self.y[rows], jnp.asarray(weight, float)

    def device_moments(self, w: Vector) -> tuple[Floats, Floats]:
        """Return grad F_k(w) [K, d], and the mean of |grad l_i|^2 over the samples of each device [K]."""
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

    def adam(self, w: Float[Array, " d"], seed: int, epochs: int) -> Float[Array, " d"]:
        """Return the model after `epochs` of Adam from `w`, on large batches and with falling steps.

        F is the plain mean over all entries of the shards. Shuffled batches of these entries are therefore unbiased.
        """
        entries = np.asarray(self.shards.indices)
        batch = min(BATCH, len(entries))
        steps = len(entries) // batch
        equal = jnp.full(batch, 1.0 / batch)

        def step(carry: AdamState, rows: Int[Array, " batch"]) -> tuple[AdamState, None]:
            w, mean, square, count = carry
            gradient = jax.grad(self._loss)(w, self.x[rows], self.y[rows], equal)
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            size = FIRST_STEP * 0.5 * (1 + jnp.cos(jnp.pi * count / (epochs * steps)))
            move = mean / (1 - 0.9 ** (count + 1)) / (jnp.sqrt(square / (1 - 0.999 ** (count + 1))) + 1e-8)
            return (w - size * move, mean, square, count + 1), None

        one_epoch = jax.jit(lambda carry, order: jax.lax.scan(step, carry, order)[0])
        carry: AdamState = (w, jnp.zeros_like(w), jnp.zeros_like(w), jnp.zeros(()))
        for epoch in range(epochs):
            order = host_rng(seed, Purpose.BATCH, epoch).permutation(entries)[: steps * batch]
            carry = one_epoch(carry, jnp.asarray(order.reshape(steps, batch)))
        return carry[0]


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """The best value of F found, and how finished the search was."""

    value: float
    gradient_norm: float
    last_gain: float  # the decrease of F over the last fifth of the L-BFGS steps
    model: Floats  # [d]


def minimise(landscape: Landscape, *, seed: int, epochs: int = 60, polish: int = 20) -> Optimum:
    """Search for F(w*) by centralised training on the objective that the devices share.

    Args:
        landscape: The objective.
        seed: Seed of the run, whose initial model is the start.
        epochs: Epochs of Adam on large batches with falling steps.
        polish: Steps of L-BFGS on all data that follow.
    """
    near = landscape.adam(landscape.initial_model(seed), seed, epochs)
    history: list[float] = []

    def value_and_gradient(w: Floats) -> tuple[float, Floats]:
        value, gradient = landscape.value_and_gradient(jnp.asarray(w, float))
        history.append(value)
        return value, gradient

    options = {"maxiter": polish, "maxfun": polish, "ftol": 0.0, "gtol": 0.0}
    found = scipy_minimize(value_and_gradient, np.asarray(near, float), jac=True, method="L-BFGS-B", options=options)
    best = np.minimum.accumulate(history)
    before = best[int((1 - LAST_STRETCH) * (len(best) - 1))]
    value, gradient = landscape.value_and_gradient(jnp.asarray(found.x, float))
    return Optimum(
        value=value,
        gradient_norm=float(np.linalg.norm(gradient)),
        last_gain=float(before - best[-1]),
        model=np.asarray(found.x),
    )
