"""How local training and judging are computed: by JAX for any model on any hardware, or by a kernel for one kind.

A learner gets the global models and the samples' numbers and gives trained models back; the engine, the algorithms and
the draws are the same whichever learner works. `choose` takes the fastest one that can do the job.
"""

from __future__ import annotations

import functools
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from ..base.errors import UserError, unknown_name
from ..data.dataset import Scaling, kinds_of
from ..models.base import Model, is_torch, loss_of, score_of
from ..models.layers import activated_by
from .augmentation import crop_and_flip
from .optimisers import transformation_of
from .settings import Training

if TYPE_CHECKING:
    from ..models.adapters.torch_module import TorchModel

EVALUATION_BLOCK = 10_000  # samples judged at once; bounds the memory of a forward pass
CONVOLVED_BLOCK = 40  # the same for convolutions on CPUs, whose images should stay in the cache
DEVICES_AT_ONCE = {"cpu": 16}  # trained side by side; more would leave the processor's cache
DEVICES_AT_ONCE_ELSEWHERE = 512


class Orders(NamedTuple):
    """What the devices of an event shall do. Axes: n devices, M steps at most, B samples a step."""

    slot: Int[Array, " n"]  # where in the ring of global models each starts
    ready: Bool[Array, " n"]
    sample: Int[Array, "n M B"]
    steps: Int[Array, " n"] | None  # that each makes; None: all M
    rate: Float[Array, ...]  # learning rate: one for all, or [n]
    augmentation: Int[Array, "n M B 3"] | None = None  # of every image, as `crop_and_flip` wants it
    shift: Float[Array, "n d"] | None = None  # added to every gradient; only `GenericLearner` knows it


class Trained(NamedTuple):
    """What the devices of an event bring back. Axes: n devices, d parameters."""

    local_model: jax.Array  # w_k [n, d]
    update: jax.Array  # w_k - start [n, d]
    loss: jax.Array  # mean over the mini-batches just seen [n]


class SampleEvaluation(NamedTuple):
    """Sums over samples of one model's answers. The last one counts every sample once, whatever its weight."""

    score: jax.Array  # weighted: correct answers, or the model's own score
    loss: jax.Array  # weighted: cross-entropy, or the model's own loss
    score_by_label: Float[Array, " C"]  # of the samples with each label


class Learner(Protocol):
    """Hashable, with pure and traceable `train` and `evaluate`."""

    @property
    def name(self) -> str: ...

    def encode(self, x: NDArray[Any]) -> Any:
        """Samples [N, *input_shape] in the form that `train` and `evaluate` want them, a pytree of arrays."""
        ...

    def train(self, training: Training, orders: Orders, ring: Float[Array, "V d"], x: Any, y: jax.Array) -> Trained:
        """Local training of every device from its place in `ring`, as `training` says.  # Eq. local_update

        A device that is not ready costs nothing, or little; what is said of it is finite and means nothing.
        """
        ...

    def evaluate(
        self, model: jax.Array, x: Any, y: jax.Array, weight: jax.Array, first: Any, count: int
    ) -> SampleEvaluation:
        """Sums over the samples `first`, ..., `first` + `count` - 1, as many of them as there are."""
        ...


@dataclass(frozen=True)
class GenericLearner:
    """Any model, wherever JAX runs: devices are trained side by side in blocks, and empty blocks are left out."""

    model: Model
    input_shape: tuple[int, ...]
    num_classes: int
    scaling: Scaling | None = None

    @property
    def name(self) -> str:
        return "generic"

    def encode(self, x: NDArray[Any]) -> NDArray[Any]:
        return x

    def train(
        self, training: Training, orders: Orders, ring: Float[Array, "V d"], x: jax.Array, y: jax.Array
    ) -> Trained:
        n = len(orders.slot)
        block = min(n, self.devices_at_once())

        def train_block(first: Any) -> Trained:
            def part(column: jax.Array) -> jax.Array:
                return jax.lax.dynamic_slice_in_dim(column, first, block) if jnp.ndim(column) else column

            return self._side_by_side(training, jax.tree.map(part, orders), ring, x, y)

        if block == n:
            return train_block(0)

        def one_more(i: jax.Array, done: Trained) -> Trained:
            first = jnp.minimum(i * block, n - block)  # the last block may overlap: same work, same result
            new = train_block(first)
            return jax.tree.map(lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, first, axis=0), done, new)

        nothing = jax.tree.map(lambda a: jnp.zeros((n, *a.shape[1:]), a.dtype), jax.eval_shape(lambda: train_block(0)))
        last = jnp.max(jnp.where(orders.ready, jnp.arange(n) + 1, 0))
        return jax.lax.fori_loop(0, (last + block - 1) // block, one_more, nothing)

    def evaluate(
        self, model: jax.Array, x: jax.Array, y: jax.Array, weight: jax.Array, first: Any, count: int
    ) -> SampleEvaluation:
        params = self.unravel(model)
        block = min(count, CONVOLVED_BLOCK if self._convolves_on_cpu() else EVALUATION_BLOCK)

        def one_more(i: Any, sums: SampleEvaluation, size: int = block) -> SampleEvaluation:
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
        sums = jax.lax.fori_loop(0, blocks, one_more, nothing)
        return one_more(blocks, sums, rest) if rest else sums

    def devices_at_once(self) -> int:
        """How many devices are trained side by side."""
        if self._convolves_on_cpu():
            return 1  # convolutions with a kernel of their own for each device are slow side by side on CPUs
        return DEVICES_AT_ONCE.get(jax.default_backend(), DEVICES_AT_ONCE_ELSEWHERE)

    def unravel(self, flat: jax.Array) -> Any:
        return _unravel(self.model, self.input_shape, self.num_classes)(flat)

    def _convolves_on_cpu(self) -> bool:
        """Whether the model convolves where that wants care; if so, JAX is told how to do it quickly."""
        if jax.default_backend() != "cpu" or not _convolves(self.model, self.input_shape, self.num_classes):
            return False
        from .convolution import install

        install()
        return True

    def _kernels(self) -> AbstractContextManager[None]:
        """Where the layers of `models.layers` may call kernels."""
        from .kernels import convolution

        return (
            activated_by(convolution.activate)
            if self._convolves_on_cpu() and convolution.available()
            else nullcontext()
        )

    def _side_by_side(
        self, training: Training, orders: Orders, ring: Float[Array, "V d"], x: jax.Array, y: jax.Array
    ) -> Trained:
        transformation = transformation_of(training)
        # Where devices make different numbers of steps, a block is done with its busiest one.
        most = None if orders.steps is None else jnp.max(jnp.where(orders.ready, orders.steps, 0))

        def loss(params: Any, indices: jax.Array, draws: jax.Array | None) -> jax.Array:
            images = x[indices] if draws is None else crop_and_flip(x[indices], draws)
            logits = self.model.apply(
                params, as_float(images, self.scaling)
            )  # bytes are gathered, and scaled only then
            return loss_of(self.model)(logits, y[indices]).mean()

        def one_device(
            slot: jax.Array, sample: jax.Array, steps: Any, rate: jax.Array, augmentation: Any, shift: Any
        ) -> Trained:
            start = ring[slot]
            origin = self.unravel(start)

            def step(carry: tuple[Any, Any], batch: tuple[Any, Any]) -> tuple[tuple[Any, Any], jax.Array]:
                params, memory = carry
                value, gradient = jax.value_and_grad(loss)(params, *batch)
                if shift is not None:
                    gradient = jax.tree.map(jnp.add, gradient, self.unravel(shift))
                if (mu := training.proximal) is not None:
                    gradient = jax.tree.map(lambda g, w, w0: g + mu * (w - w0), gradient, params, origin)
                direction, memory = transformation.update(gradient, memory, params)
                return (jax.tree.map(lambda w, u: w - rate * u, params, direction), memory), value

            begin, batches = (origin, transformation.init(origin)), (sample, augmentation)
            if most is None:
                (params, _), losses = jax.lax.scan(step, begin, batches)
                mean = losses.mean()
            else:
                (params, _), mean = _some_steps(step, begin, batches, steps, most)
            local = ravel_pytree(params)[0]
            return Trained(local, local - start, mean)

        axes = (0, 0, None if orders.steps is None else 0, 0 if jnp.ndim(orders.rate) else None, 0, 0)
        columns = (orders.slot, orders.sample, orders.steps, orders.rate, orders.augmentation, orders.shift)
        if self.devices_at_once() > 1:
            return jax.vmap(one_device, in_axes=axes)(*columns)
        alone: list[Any] = [
            jax.tree.map(lambda a: a[0], c) if axis == 0 else c for c, axis in zip(columns, axes, strict=True)
        ]
        with self._kernels():
            return jax.tree.map(lambda a: a[None], one_device(*alone))


def _some_steps(step: Any, begin: Any, batches: Any, steps: jax.Array, most: jax.Array) -> tuple[Any, jax.Array]:
    """`step` over the first `steps` of the `batches`, and the mean loss; `most` >= `steps` bounds the loop."""

    def masked(i: jax.Array, carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        old, total = carry
        new, value = step(old, jax.tree.map(lambda column: column[i], batches))
        mine = i < steps
        return jax.tree.map(lambda a, b: jnp.where(mine, a, b), new, old), total + jnp.where(mine, value, 0.0)

    end, total = jax.lax.fori_loop(0, most, masked, (begin, jnp.zeros(())))
    return end, total / steps


@functools.lru_cache(maxsize=64)
def _convolves(model: Model, input_shape: tuple[int, ...], num_classes: int) -> bool:
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape, num_classes))
    x = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
    return "conv_general_dilated" in str(jax.make_jaxpr(model.apply)(params, x))


@functools.lru_cache(maxsize=64)
def _unravel(model: Model, input_shape: tuple[int, ...], num_classes: int) -> Any:
    with jax.ensure_compile_time_eval():
        example = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape, num_classes))
        return ravel_pytree(jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), example))[1]


def as_float(x: jax.Array, scaling: Scaling | None = None) -> jax.Array:
    """Pixels 0..255 are stored as bytes (a quarter of the memory traffic) and scaled to [0, 1] where they are used.

    With a `scaling`, every channel is then normalised.
    """
    value = x.astype(float) / 255 if x.dtype == jnp.uint8 else x.astype(float)
    if scaling is None:
        return value
    return (value - jnp.asarray(scaling.mean, value.dtype)) / jnp.asarray(scaling.std, value.dtype)


def choose(
    model: Model, x: NDArray[Any], num_classes: int, training: Training, scaling: Scaling | None = None,
    shifted: bool = False,
) -> tuple[Learner, str]:  # fmt: skip
    """The learner for this model, data and way of training, and one line that says which and why.

    `shifted`: whether the algorithm adds something of its own to the gradients.
    The environment variable `PAOTA_LEARNER` = "generic" keeps kernels out.
    """
    if is_torch(model):
        if shifted:
            raise UserError("an algorithm that shifts gradients cannot train a model that is computed outside JAX")
        from .torch_learner import TorchLearner  # optional: PyTorch

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
    from .kernels import mlp

    if (why := mlp.unsuitable(model, x, num_classes)) is not None:
        return generic, f"generic ({why})"
    fused = mlp.FusedMlp(mlp.widths_of(model, tuple(x.shape[1:]), num_classes))
    return fused, fused.name
