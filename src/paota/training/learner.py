"""Learners compute local training and evaluation: JAX for any model on any hardware, or a kernel for one kind of model.

A learner gets the global models and the samples' numbers and returns trained models. The engine, the algorithms and the
draws do not depend on the learner. `choose` takes the fastest learner that fits.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped, UInt32

from ..base.errors import unknown_name
from ..data.dataset import Scaling, kinds_of
from ..models.base import Model, Params, is_torch, loss_of, parameter_shapes, score_of
from ..models.layers import activated_by
from .batches import crop_and_flip
from .optimisers import transformation_of
from .settings import Training

if TYPE_CHECKING:
    from ..models.torch_module import TorchModel

EVALUATION_BLOCK = 10_000  # samples evaluated at once; bounds the memory of a forward pass
CONVOLVED_BLOCK = 40  # the same for convolutions on CPUs, whose images should stay in the cache
DEVICES_AT_ONCE = {"cpu": 16}  # trained side by side; more would leave the processor's cache
DEVICES_AT_ONCE_ELSEWHERE = 512


Samples: TypeAlias = PyTree  # samples as the learner encodes them
Index: TypeAlias = Int[Array, ""] | int


class TrainingInputs(NamedTuple):
    """Inputs of the local training of an event's devices. Axes: n devices, at most M steps, B samples a step."""

    slot: Int[Array, " n"]  # place of each device's start in the ring of global models
    ready: Bool[Array, " n"]
    sample: Int[Array, "n M B"]
    steps: Int[Array, " n"] | None  # of each device; None: all M
    rate: Float[Array, ...]  # learning rate: one for all, or [n]
    augmentation: Int[Array, "n M B 3"] | None = None  # of every image, from `draw_augmentation`
    shift: Float[Array, "n d"] | None = None  # added to every gradient; kernels do not know it
    draw: UInt32[Array, " n"] | None = None  # a random number for the layers of a PyTorch module that draw


class LocalUpdates(NamedTuple):
    """Results of the local training of an event's devices. Axes: n devices, d parameters."""

    local_model: Float[Array, "n d"]  # w_k
    update: Float[Array, "n d"]  # w_k - start
    loss: Float[Array, " n"]  # mean over the mini-batches of the training


class SampleEvaluation(NamedTuple):
    """Sums of one model's scores and losses over samples."""

    score: Float[Array, ""]  # weighted: correct answers, or the model's own score
    loss: Float[Array, ""]  # weighted: cross-entropy, or the model's own loss
    score_by_label: Float[Array, " C"]  # of the samples with each label, unweighted


Carry: TypeAlias = tuple[Params, PyTree]  # weights and optimiser state of one device
Batch: TypeAlias = tuple[Int[Array, " B"], Int[Array, "B 3"] | None]  # samples and their augmentation
EncodedData: TypeAlias = tuple[Samples, Shaped[Array, " N"], Float[Array, " N"]]  # samples, labels, weights


class Learner(Protocol):
    """A hashable object with pure and traceable `train` and `evaluate`."""

    @property
    def name(self) -> str: ...

    def encode(self, x: Shaped[np.ndarray, "N ..."]) -> Samples:
        """Return samples [N, *input_shape] in the form that `train` and `evaluate` need, a pytree of arrays."""
        ...

    def train(
        self, training: Training, inputs: TrainingInputs, ring: Float[Array, "V d"], x: Samples, y: Shaped[Array, " N"]
    ) -> LocalUpdates:
        """Train every device from its place in `ring` by the settings `training`.  # Eq. local_update

        A device that is not ready costs nothing, or little; its results are finite and without meaning.
        """
        ...

    def evaluate(self, model: Float[Array, " d"], samples: EncodedData, first: Index, count: int) -> SampleEvaluation:
        """Return sums over the samples `first`, ..., `first` + `count` - 1, as far as they exist."""
        ...


@dataclass(frozen=True)
class GenericLearner:
    """The learner for any model, wherever JAX runs. It trains devices side by side in blocks and skips empty blocks."""

    model: Model
    input_shape: tuple[int, ...]
    num_classes: int
    scaling: Scaling | None = None

    @property
    def name(self) -> str:
        return "generic"

    def encode(self, x: Shaped[np.ndarray, "N ..."]) -> Shaped[np.ndarray, "N ..."]:
        return x

    def train(
        self, training: Training, inputs: TrainingInputs, ring: Float[Array, "V d"], x: Samples, y: Shaped[Array, " N"]
    ) -> LocalUpdates:
        n = len(inputs.slot)
        block = min(n, self.devices_at_once())

        def train_block(first: Index) -> LocalUpdates:
            def part(column: jax.Array) -> jax.Array:
                return jax.lax.dynamic_slice_in_dim(column, first, block) if jnp.ndim(column) else column

            return self._side_by_side(training, jax.tree.map(part, inputs), ring, x, y)

        if block == n:
            return train_block(0)

        def add_block(i: jax.Array, done: LocalUpdates) -> LocalUpdates:
            first = jnp.minimum(i * block, n - block)  # the last block may overlap the one before: same result
            new = train_block(first)
            return jax.tree.map(lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, first, axis=0), done, new)

        nothing = jax.tree.map(lambda a: jnp.zeros((n, *a.shape[1:]), a.dtype), jax.eval_shape(lambda: train_block(0)))
        last = jnp.max(jnp.where(inputs.ready, jnp.arange(n) + 1, 0))
        return jax.lax.fori_loop(0, (last + block - 1) // block, add_block, nothing)

    def evaluate(self, model: Float[Array, " d"], samples: EncodedData, first: Index, count: int) -> SampleEvaluation:
        x, y, weight = samples
        params = self.unravel(model)
        block = min(count, CONVOLVED_BLOCK if self._convolves_on_cpu() else EVALUATION_BLOCK)

        def add_block(i: Index, sums: SampleEvaluation, size: int = block) -> SampleEvaluation:
            wanted = first + i * block
            begin = jnp.clip(wanted, 0, len(y) - size)  # a range may end beyond the last sample
            images, labels, share = (jax.lax.dynamic_slice_in_dim(a, begin, size) for a in (x, y, weight))
            mine = begin + jnp.arange(size) >= wanted
            share = jnp.where(mine, share, 0.0)
            with self._kernels():
                logits = self.model.apply(params, as_float(images, self.scaling))
            score = score_of(self.model)(logits, labels).astype(share.dtype)
            return SampleEvaluation(
                sums.score + share @ score,
                sums.loss + share @ loss_of(self.model)(logits, labels),
                sums.score_by_label.at[kinds_of(labels)].add(jnp.where(mine, score, 0.0)),
            )

        blocks, rest = divmod(count, block)
        nothing = SampleEvaluation(jnp.zeros(()), jnp.zeros(()), jnp.zeros(self.num_classes))
        sums = jax.lax.fori_loop(0, blocks, add_block, nothing)
        return add_block(blocks, sums, rest) if rest else sums

    def devices_at_once(self) -> int:
        """Return the number of devices that are trained side by side."""
        if self._convolves_on_cpu():
            return 1  # convolutions with a kernel of their own for each device are slow side by side on CPUs
        return DEVICES_AT_ONCE.get(jax.default_backend(), DEVICES_AT_ONCE_ELSEWHERE)

    def unravel(self, flat: Float[Array, " d"]) -> Params:
        return _unravel(self.model, self.input_shape, self.num_classes)(flat)

    def _convolves_on_cpu(self) -> bool:
        """Return True if the model convolves on a CPU; then also install the fast convolutions."""
        if jax.default_backend() != "cpu" or not _convolves(self.model, self.input_shape, self.num_classes):
            return False
        from .convolution import install  # start-up time

        install()
        return True

    def _kernels(self) -> AbstractContextManager[None]:
        """Return the context in which the layers of `models.layers` may call kernels."""
        from .kernels import convolution  # start-up time

        return (
            activated_by(convolution.activate)
            if self._convolves_on_cpu() and convolution.available()
            else nullcontext()
        )

    def _side_by_side(
        self, training: Training, inputs: TrainingInputs, ring: Float[Array, "V d"], x: Samples, y: Shaped[Array, " N"]
    ) -> LocalUpdates:
        transformation = transformation_of(training)
        # Where devices make different numbers of steps, the longest training of a block bounds its loop.
        most = None if inputs.steps is None else jnp.max(jnp.where(inputs.ready, inputs.steps, 0))

        def loss(params: Params, indices: jax.Array, draws: jax.Array | None) -> jax.Array:
            images = x[indices] if draws is None else crop_and_flip(x[indices], draws)
            logits = self.model.apply(params, as_float(images, self.scaling))  # bytes are scaled after the gathering
            return loss_of(self.model)(logits, y[indices]).mean()

        def one_device(device: TrainingInputs) -> LocalUpdates:
            start = ring[device.slot]
            origin = self.unravel(start)

            def step(carry: Carry, batch: Batch) -> tuple[Carry, jax.Array]:
                params, memory = carry
                value, gradient = jax.value_and_grad(loss)(params, *batch)
                if device.shift is not None:
                    gradient = jax.tree.map(jnp.add, gradient, self.unravel(device.shift))
                if (mu := training.proximal) is not None:
                    gradient = jax.tree.map(lambda g, w, w0: g + mu * (w - w0), gradient, params, origin)
                direction, memory = transformation.update(gradient, memory, params)
                return (jax.tree.map(lambda w, u: w - device.rate * u, params, direction), memory), value

            begin, batches = (origin, transformation.init(origin)), (device.sample, device.augmentation)
            if most is None or device.steps is None:
                (params, _), losses = jax.lax.scan(step, begin, batches)
                mean = losses.mean()
            else:
                (params, _), mean = _some_steps(step, begin, batches, device.steps, most)
            local = ravel_pytree(params)[0]
            return LocalUpdates(local, local - start, mean)

        by_device = inputs._replace(ready=None)  # type: ignore[arg-type]  # all devices of a block are trained
        if self.devices_at_once() > 1:
            axes = TrainingInputs(0, 0, 0, 0, 0 if jnp.ndim(inputs.rate) else None, 0, 0)  # type: ignore[arg-type]
            return jax.vmap(one_device, in_axes=(axes,))(by_device)
        alone = jax.tree.map(lambda a: a[0] if jnp.ndim(a) else a, by_device)
        with self._kernels():
            return jax.tree.map(lambda a: a[None], one_device(alone))


def _some_steps(
    step: Callable[[Carry, Batch], tuple[Carry, jax.Array]], begin: Carry, batches: Batch, steps: jax.Array,
    most: jax.Array,
) -> tuple[Carry, jax.Array]:  # fmt: skip
    """Apply `step` to the first `steps` of the `batches`; return the end and the mean loss.

    `most` >= `steps` bounds the loop.
    """

    def masked(i: jax.Array, carry: tuple[Carry, jax.Array]) -> tuple[Carry, jax.Array]:
        old, total = carry
        new, value = step(old, jax.tree.map(lambda column: column[i], batches))
        mine = i < steps
        return jax.tree.map(lambda a, b: jnp.where(mine, a, b), new, old), total + jnp.where(mine, value, 0.0)

    end, total = jax.lax.fori_loop(0, most, masked, (begin, jnp.zeros(())))
    return end, total / steps


@functools.lru_cache(maxsize=64)
def _convolves(model: Model, input_shape: tuple[int, ...], num_classes: int) -> bool:
    params = parameter_shapes(model, input_shape, num_classes)
    x = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
    return "conv_general_dilated" in str(jax.make_jaxpr(model.apply)(params, x))


@functools.lru_cache(maxsize=64)
def _unravel(model: Model, input_shape: tuple[int, ...], num_classes: int) -> Callable[[jax.Array], Params]:
    with jax.ensure_compile_time_eval():
        example = parameter_shapes(model, input_shape, num_classes)
        return ravel_pytree(jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), example))[1]


def as_float(x: Shaped[Array, ...], scaling: Scaling | None = None) -> Float[Array, ...]:
    """Return samples as floats; bytes 0..255, which need a quarter of the memory traffic, are scaled to [0, 1].

    A `scaling` then normalises every channel.
    """
    value = x.astype(float) / 255 if x.dtype == jnp.uint8 else x.astype(float)
    if scaling is None:
        return value
    return (value - jnp.asarray(scaling.mean, value.dtype)) / jnp.asarray(scaling.std, value.dtype)


def choose(
    model: Model, x: Shaped[np.ndarray, "N ..."], num_classes: int, training: Training,
    scaling: Scaling | None = None, shifted: bool = False,
) -> tuple[Learner, str]:  # fmt: skip
    """Return the learner for this model, data and training, and one line that names it and the reason.

    Args:
        model: the model to train.
        x: samples of the training data.
        num_classes: number of labels.
        training: the settings of `[training]`.
        scaling: normalisation of the samples.
        shifted: True if the algorithm adds a vector to the gradients.

    The environment variable `PAOTA_LEARNER` = "generic" turns kernels off.
    """
    if is_torch(model):
        from .torch_learner import TorchLearner  # optional

        learner = TorchLearner(cast("TorchModel", model), num_classes, scaling)
        return learner, learner.name
    wanted = os.environ.get("PAOTA_LEARNER", "auto")
    if wanted not in ("auto", "generic"):
        raise unknown_name("value of the environment variable PAOTA_LEARNER", wanted, ("auto", "generic"))
    generic = GenericLearner(model, tuple(x.shape[1:]), num_classes, scaling)
    if wanted == "generic":
        return generic, "generic (as PAOTA_LEARNER says)"
    if shifted:
        return generic, "generic (no kernel for an algorithm that shifts gradients)"
    if (beyond := training.beyond_plain_sgd) is not None:
        return generic, f"generic (no kernel for {beyond})"
    if scaling is not None:
        return generic, "generic (no kernel for data.normalise)"
    from .kernels import mlp  # start-up time

    if (why := mlp.unsuitable(model, x, num_classes)) is not None:
        return generic, f"generic ({why})"
    fused = mlp.FusedMlp(mlp.widths_of(model, tuple(x.shape[1:]), num_classes))
    return fused, fused.name
