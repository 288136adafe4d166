"""The learner for PyTorch modules, called on the host from the compiled program.

JAX decides which device trains on which samples, from which model and at which rate, as for every learner. Samples stay
on the host: the program holds only a number that stands for them.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Shaped

from ..base.system import cores
from ..data.dataset import kinds_of
from ..models.torch_module import GENERATOR
from .batches import PADDING
from .learner import EncodedData, Index, LocalUpdates, SampleEvaluation, Samples, TrainingInputs
from .optimisers import Adam, Optimiser, Sgd
from .settings import Training

if TYPE_CHECKING:
    import torch

    from ..data.dataset import Scaling
    from ..models.torch_module import TorchModel, Workspace

EVALUATED_AT_ONCE = 1_000  # samples; more would leave the processor's cache
T = TypeVar("T")

_samples: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()
_numbers = itertools.count()


@dataclass(frozen=True)
class TorchLearner:
    """A `Learner` for a PyTorch module: plain SGD, momentum and Adam with all other settings of `[training]`."""

    model: TorchModel
    num_classes: int
    scaling: Scaling | None = None

    @property
    def name(self) -> str:
        import torch  # optional

        return f"PyTorch {torch.__version__}"

    def encode(self, x: Shaped[np.ndarray, "N ..."]) -> Samples:
        """Return a number that stands for `x`, which must be kept alive elsewhere (the data set does)."""
        number = next(_numbers)
        _samples[number] = x
        return np.int32(number)

    def train(
        self, training: Training, inputs: TrainingInputs, ring: Float[Array, "V d"], x: Samples, y: Shaped[Array, " N"]
    ) -> LocalUpdates:
        n = len(inputs.slot)
        shapes = jax.ShapeDtypeStruct((n, ring.shape[1]), ring.dtype), jax.ShapeDtypeStruct((n,), ring.dtype)
        local, loss = jax.pure_callback(self._train, shapes, training, inputs, y[inputs.sample], ring, x)
        return LocalUpdates(local, local - ring[inputs.slot], loss)

    def evaluate(self, model: Float[Array, " d"], samples: EncodedData, first: Index, count: int) -> SampleEvaluation:
        x, y, weight = samples
        shapes = [jax.ShapeDtypeStruct(shape, weight.dtype) for shape in ((), (), (self.num_classes,))]
        result = SampleEvaluation(*shapes)  # type: ignore[arg-type]  # shapes in place of arrays
        return jax.pure_callback(functools.partial(self._evaluate, count), result, model, (x, y, weight), first)

    def _train(
        self, training: Training, inputs: TrainingInputs, labels: ArrayLike, ring: ArrayLike, number: ArrayLike
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """Return (local models, losses); a device that is not ready keeps its start."""
        import torch  # optional

        slot, ready, sample, rate = map(np.asarray, (inputs.slot, inputs.ready, inputs.sample, inputs.rate))
        steps = np.full(len(slot), sample.shape[1]) if inputs.steps is None else np.asarray(inputs.steps)
        rates = np.broadcast_to(rate, slot.shape)
        augmentation = None if inputs.augmentation is None else np.asarray(inputs.augmentation)
        shift = None if inputs.shift is None else np.asarray(inputs.shift)
        expected, x = np.array(labels), _samples[int(np.asarray(number))]
        starts = np.asarray(ring)[slot]
        local, losses = starts.copy(), np.zeros(len(slot), starts.dtype)

        def train_one(k: int) -> None:
            def batch(m: int) -> tuple[np.ndarray, np.ndarray]:
                images = x[sample[k, m]]
                return images if augmentation is None else cropped(images, augmentation[k, m]), expected[k, m]

            with self.model.workspace() as work:
                work.begin(starts[k], train=True)
                shifted = None if shift is None else torch.tensor(shift[k]).to(work.weights.device)
                step = step_of(training, work.weights, float(rates[k]), shifted)
                losses[k] = self._one_device(work, step, batch, int(steps[k]), float(rates[k]))
                local[k] = work.weights.cpu().numpy()

        devices = np.flatnonzero(ready)
        jobs = [functools.partial(train_one, int(k)) for k in devices]
        self._compute("train", jobs, np.asarray(inputs.draw)[devices].tolist())
        return local, losses

    def _compute(self, kind: str, jobs: Sequence[Callable[[], T]], seeds: Sequence[int]) -> list[T]:
        """Return the results of `jobs` of one `kind`, side by side on one core each.

        PyTorch has one generator of random numbers. If the module draws from it, the jobs run one after the other, each
        from its own seed. The first job of its kind, which runs alone and twice, shows whether it does.
        """
        import torch  # optional

        drawing, devices = self.model.drawing, self.model.devices

        def alone(count: int) -> list[T]:
            results = []
            with GENERATOR, torch.random.fork_rng(devices):
                for job, seed in zip(jobs[:count], seeds, strict=False):
                    before = torch.manual_seed(seed).get_state()
                    results.append(job())
                    drawing[kind] = bool(devices) or not torch.equal(before, torch.get_rng_state())
            return results

        if kind not in drawing:
            _threads().submit(alone, 1).result()
        if drawing.get(kind):
            return _threads().submit(alone, len(jobs)).result()
        return list(_threads().map(lambda job: job(), jobs))

    def _one_device(
        self, work: Workspace, step: Step | None, batch: Callable[[int], tuple[np.ndarray, np.ndarray]],
        steps: int, rate: float,
    ) -> float:  # fmt: skip
        """Make `steps` local steps from `work.weights`, in place; return their mean loss.  # Eq. local_update

        `batch(m)` returns samples and labels of step m.
        """
        import torch  # optional

        total = 0.0
        for m in range(steps):
            images, labels = batch(m)
            loss = self.model.loss_of(work.outputs(images, self.scaling), work.labels(labels)).mean()
            gradients = torch.autograd.grad(loss, work.parameters, materialize_grads=True)
            with torch.no_grad():
                if step is None:
                    torch._foreach_add_(work.parameters, gradients, alpha=-rate)
                else:
                    step(torch.cat([gradient.reshape(-1) for gradient in gradients]))
            total += loss.item()
        return total / steps

    def _evaluate(
        self, count: int, model: ArrayLike, samples: tuple[ArrayLike, ArrayLike, ArrayLike], first: ArrayLike
    ) -> SampleEvaluation:
        import torch  # optional

        number, y, weight = samples
        labels, shares, x = np.array(y), np.array(weight), _samples[int(np.asarray(number))]
        begin = int(np.asarray(first))
        end = min(begin + count, len(labels))
        weights = np.asarray(model)

        def evaluate_block(at: int) -> tuple[float, float, np.ndarray]:
            block = slice(at, min(at + EVALUATED_AT_ONCE, end))
            with self.model.workspace() as work, torch.inference_mode():
                work.begin(weights, train=False)
                outputs, expected = work.outputs(np.array(x[block]), self.scaling), work.labels(labels[block])
                scores = self.model.score_of(outputs, expected).cpu().numpy()
                losses = self.model.loss_of(outputs, expected).cpu().numpy()
            by_label = np.bincount(kinds_of(labels[block]), scores, minlength=self.num_classes)
            return shares[block] @ scores, shares[block] @ losses, by_label

        blocks = range(begin, end, EVALUATED_AT_ONCE)
        parts = self._compute("evaluate", [functools.partial(evaluate_block, at) for at in blocks], list(blocks))
        sums = [np.asarray(sum(part), shares.dtype) for part in zip(*parts, strict=True)]
        return SampleEvaluation(*sums)  # type: ignore[arg-type]  # arrays of the host


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads for PyTorch, with one core each, which is faster than PyTorch's own and keeps bits on any machine."""
    return ThreadPoolExecutor(cores(), thread_name_prefix="paota torch", initializer=_take_one_core)


def _take_one_core() -> None:
    import torch  # optional

    torch.set_num_threads(1)
    torch.get_num_threads()  # settles it for this thread alone


def cropped(images: Shaped[np.ndarray, "B H W *C"], draws: Int[np.ndarray, "B 3"]) -> Shaped[np.ndarray, "B H W *C"]:
    """Return the images moved and mirrored, as `batches.crop_and_flip` does it, on the host."""
    height, width = images.shape[1:3]
    padded = np.pad(images, [(0, 0), (PADDING, PADDING), (PADDING, PADDING)] + [(0, 0)] * (images.ndim - 3))
    column = np.where(draws[:, 2:] == 1, np.arange(width)[::-1], np.arange(width)) + draws[:, 1:2]
    row = np.arange(height) + draws[:, :1]
    return padded[np.arange(len(images))[:, None, None], row[:, :, None], column[:, None, :]]


Step = Callable[["torch.Tensor"], None]  # changes the weights by a gradient [d]


def step_of(training: Training, weights: torch.Tensor, rate: float, shift: torch.Tensor | None = None) -> Step | None:
    """Return what changes `weights` [d] in place by a gradient, as `optimisers.transformation_of` does.

    The optimiser begins anew. `shift` [d] is added to every gradient. Plain SGD takes the gradient itself: None.
    """

    proximal, longest, decay = (
        None if number is None else float(number)
        for number in (training.proximal, training.max_gradient_norm, training.weight_decay)
    )
    if isinstance(training.optimiser, Sgd) and shift is None and proximal is longest is decay is None:
        return None
    start = weights.clone()
    optimiser = _optimiser(training.optimiser, weights, rate)

    def step(gradient: torch.Tensor) -> None:
        if shift is not None:
            gradient += shift
        if proximal is not None:
            gradient.add_(weights - start, alpha=proximal)
        if longest is not None and (length := float(gradient.norm())) >= longest:
            gradient.mul_(longest / length)
        if decay is not None:
            gradient.add_(weights, alpha=decay)
        weights.grad = gradient
        optimiser.step()

    return step


def _optimiser(optimiser: Optimiser, weights: torch.Tensor, rate: float) -> torch.optim.Optimizer:
    import torch  # optional

    if isinstance(optimiser, Adam):
        betas = float(optimiser.beta1), float(optimiser.beta2)
        return torch.optim.Adam([weights], rate, betas, float(optimiser.epsilon))
    momentum = float(getattr(optimiser, "momentum", 0.0))
    return torch.optim.SGD([weights], rate, momentum, nesterov=momentum > 0 and getattr(optimiser, "nesterov", False))
