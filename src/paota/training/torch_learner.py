"""Local training and judging by PyTorch, called on the host from the compiled program.

Who trains on what, from where and at which rate is decided in JAX as for every learner. Samples stay where they are: the
program holds only a number that stands for them.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from ..data.dataset import kinds_of
from .augmentation import PADDING
from .learner import Orders, SampleEvaluation, Trained
from .optimisers import Adam, Momentum, Sgd
from .settings import Training

if TYPE_CHECKING:
    from ..data.dataset import Scaling
    from ..models.adapters.torch_module import TorchModel, Workspace

EVALUATED_AT_ONCE = 1_000  # samples; more would leave the processor's cache

_samples: weakref.WeakValueDictionary[int, NDArray[Any]] = weakref.WeakValueDictionary()
_numbers = itertools.count()


@dataclass(frozen=True)
class TorchLearner:
    """A `Learner` for a PyTorch module: plain SGD, momentum and Adam with everything else that `[training]` has."""

    model: TorchModel
    num_classes: int
    scaling: Scaling | None = None

    @property
    def name(self) -> str:
        import torch

        return f"PyTorch {torch.__version__}"

    def encode(self, x: NDArray[Any]) -> NDArray[Any]:
        """A number that stands for `x`, which must be kept alive elsewhere (the data set does)."""
        number = next(_numbers)
        _samples[number] = x
        return np.int32(number)  # type: ignore[return-value]  # a scalar is an array to JAX

    def train(self, training: Training, orders: Orders, ring: Float[Array, "V d"], x: Any, y: jax.Array) -> Trained:
        n = len(orders.slot)
        shapes = jax.ShapeDtypeStruct((n, ring.shape[1]), ring.dtype), jax.ShapeDtypeStruct((n,), ring.dtype)
        local, loss = jax.pure_callback(self._train, shapes, training, orders, y[orders.sample], ring, x)
        return Trained(local, local - ring[orders.slot], loss)

    def evaluate(
        self, model: jax.Array, x: Any, y: jax.Array, weight: jax.Array, first: Any, count: int
    ) -> SampleEvaluation:
        shapes: Any = [jax.ShapeDtypeStruct(shape, weight.dtype) for shape in ((), (), (self.num_classes,))]
        evaluation: SampleEvaluation = jax.pure_callback(
            functools.partial(self._evaluate, count), SampleEvaluation(*shapes), model, x, y, weight, first
        )
        return evaluation

    def _train(
        self, training: Training, orders: Orders, labels: Any, ring: Any, number: Any
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """(local models [n, d], losses [n]); a device that is not ready keeps its start."""
        import torch

        slot, ready, sample, rate = map(np.asarray, (orders.slot, orders.ready, orders.sample, orders.rate))
        steps = np.full(len(slot), sample.shape[1]) if orders.steps is None else np.asarray(orders.steps)
        rates = np.broadcast_to(rate, slot.shape)
        augmentation = None if orders.augmentation is None else np.asarray(orders.augmentation)
        labels, x = np.array(labels), _samples[int(number)]
        local = np.asarray(ring)[slot]
        losses = np.zeros(len(slot), local.dtype)
        with self.model.workspace() as work:
            work.module.train()
            for k in map(int, np.flatnonzero(ready)):
                with torch.no_grad():
                    work.weights.copy_(torch.from_numpy(local[k]))

                def batch(m: int, k: int = k) -> tuple[NDArray[Any], NDArray[Any]]:
                    images = x[sample[k, m]]
                    return images if augmentation is None else cropped(images, augmentation[k, m]), labels[k, m]

                direction = direction_of(training, work.weights)
                losses[k] = self._one_device(work, direction, batch, int(steps[k]), float(rates[k]))
                local[k] = work.weights.cpu().numpy()
        return local, losses

    def _one_device(
        self,
        work: Workspace,
        direction: Direction | None,
        batch: Callable[[int], tuple[Any, Any]],
        steps: int,
        rate: float,
    ) -> float:
        """`steps` local steps from `work.weights`, in place; the mean loss of their mini-batches.  # Eq. local_update

        `batch(m)`: samples and labels of step m.
        """
        import torch

        total = 0.0
        for m in range(steps):
            images, labels = batch(m)
            loss = self.model.loss_of(work.outputs(images, self.scaling), work.labels(labels)).mean()
            gradients = torch.autograd.grad(loss, work.parameters, materialize_grads=True)
            with torch.no_grad():
                if direction is None:
                    for parameter, gradient in zip(work.parameters, gradients, strict=True):
                        parameter.sub_(gradient, alpha=rate)
                else:
                    whole = torch.cat([gradient.reshape(-1) for gradient in gradients])
                    work.weights.sub_(direction(whole, work.weights), alpha=rate)
            total += loss.item()
        return total / steps

    def _evaluate(self, count: int, model: Any, number: Any, y: Any, weight: Any, first: Any) -> Any:
        import torch

        labels, shares, x = np.array(y), np.array(weight), _samples[int(number)]
        begin, end = int(first), min(int(first) + count, len(labels))
        score, loss, by_label = 0.0, 0.0, np.zeros(self.num_classes)
        with self.model.workspace() as work, torch.inference_mode():
            work.module.eval()
            work.weights.copy_(torch.from_numpy(np.array(model)))
            for at in range(begin, end, EVALUATED_AT_ONCE):
                block = slice(at, min(at + EVALUATED_AT_ONCE, end))
                outputs, expected = work.outputs(np.array(x[block]), self.scaling), work.labels(labels[block])
                scores = self.model.score_of(outputs, expected).cpu().numpy()
                score += shares[block] @ scores
                loss += shares[block] @ self.model.loss_of(outputs, expected).cpu().numpy()
                by_label += np.bincount(kinds_of(labels[block]), scores, minlength=self.num_classes)
        sums: Any = [np.asarray(part, shares.dtype) for part in (score, loss, by_label)]
        return SampleEvaluation(*sums)


def cropped(images: NDArray[Any], draws: NDArray[Any]) -> NDArray[Any]:
    """`augmentation.crop_and_flip` on the host: images [B, H, W] or [B, H, W, C], draws [B, 3]."""
    height, width = images.shape[1:3]
    padded = np.pad(images, [(0, 0), (PADDING, PADDING), (PADDING, PADDING)] + [(0, 0)] * (images.ndim - 3))
    column = np.where(draws[:, 2:] == 1, np.arange(width)[::-1], np.arange(width)) + draws[:, 1:2]
    row = np.arange(height) + draws[:, :1]
    taken: NDArray[Any] = padded[np.arange(len(images))[:, None, None], row[:, :, None], column[:, None, :]]
    return taken


Direction = Callable[[Any, Any], Any]  # (gradient [d], weights [d]) -> step u [d], before the learning rate


def direction_of(training: Training, start: Any) -> Direction | None:
    """What a local step makes of a gradient, as `optimisers.transformation_of` does, with a memory that begins here.

    `start` [d]: the weights at the beginning of the training. None for plain SGD, which takes the gradient itself.
    """
    proximal, longest, decay = (
        None if number is None else float(number)
        for number in (training.proximal, training.max_gradient_norm, training.weight_decay)
    )
    if isinstance(training.optimiser, Sgd) and proximal is longest is decay is None:
        return None
    origin = start.clone() if proximal is not None else start
    optimise = _optimiser(training.optimiser)

    def direction(gradient: Any, weights: Any) -> Any:
        if proximal is not None:
            gradient = gradient.add_(weights - origin, alpha=proximal)
        if longest is not None and (length := float(gradient.norm())) >= longest:
            gradient = gradient.mul_(longest / length)
        if decay is not None:
            gradient = gradient.add_(weights, alpha=decay)
        return optimise(gradient)

    return direction


def _optimiser(optimiser: Any) -> Callable[[Any], Any]:
    if isinstance(optimiser, Momentum):
        return _momentum(float(optimiser.momentum), optimiser.nesterov)
    if isinstance(optimiser, Adam):
        return _adam(float(optimiser.beta1), float(optimiser.beta2), float(optimiser.epsilon))
    return lambda gradient: gradient


def _momentum(momentum: float, nesterov: bool) -> Callable[[Any], Any]:
    memory: Any = 0.0

    def step(gradient: Any) -> Any:
        nonlocal memory
        memory = momentum * memory + gradient
        return gradient + momentum * memory if nesterov else memory

    return step


def _adam(beta1: float, beta2: float, epsilon: float) -> Callable[[Any], Any]:
    mean: Any = 0.0
    square: Any = 0.0
    count = 0

    def step(gradient: Any) -> Any:
        nonlocal mean, square, count
        count += 1
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        return mean / (1 - beta1**count) / ((square / (1 - beta2**count)).sqrt() + epsilon)

    return step
