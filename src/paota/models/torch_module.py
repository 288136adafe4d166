"""A PyTorch module as a model. PyTorch computes it, on the host; its parameters are one vector [d]."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Shaped

from ..base.errors import UserError
from .adapters import Adapted, Module, batch_norm
from .check import SAMPLES, Trial, label_type, needs_classes

if TYPE_CHECKING:
    import torch

    from ..data.dataset import Scaling

GENERATOR = threading.Lock()  # PyTorch has one for the whole process, and seeds start in threads


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchModel(Adapted):
    """`loss` and `score` take and return tensors. The module itself is never changed: copies of it are trained."""

    written_name = "torch"
    idle: list[Workspace] = field(default_factory=list, repr=False)
    drawing: dict[str, bool] = field(default_factory=dict, repr=False)  # whether it draws: to "train", to "evaluate"

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "idle": []}

    @property
    def devices(self) -> list[torch.device]:
        """The GPUs that hold the module."""
        return [device for device in {p.device for p in self.module.parameters()} if device.type != "cpu"]

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Float[Array, " d"]:
        """Return w^0."""
        trainable = parameters(self.module)
        if self.rebuild is None:
            return jnp.asarray(_flat(trainable), float)
        shape = jax.ShapeDtypeStruct((sum(p.numel() for p in trainable),), jnp.float32)
        return jax.pure_callback(self._rebuilt, shape, jax.random.bits(key)).astype(float)

    def try_out(self, input_shape: tuple[int, ...], num_classes: int) -> Trial:
        """Return the shapes that the model makes of samples of zeros."""
        import torch  # optional

        with self.workspace() as work, GENERATOR, torch.random.fork_rng(self.devices):
            outputs = work.outputs(np.zeros((SAMPLES, *input_shape), np.float32))
            if not isinstance(outputs, torch.Tensor):
                raise UserError(f"model: `forward` must return one tensor, not {type(outputs).__name__}")
            if needs_classes(self) and tuple(outputs.shape) != (SAMPLES, num_classes):
                return Trial(tuple(outputs.shape), None, None)
            labels = work.labels(np.zeros(SAMPLES, label_type(num_classes)))
            loss, score = self.loss_of(outputs, labels), self.score_of(outputs, labels)
        return Trial(tuple(outputs.shape), tuple(loss.shape), tuple(score.shape))

    def loss_of(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of each sample, [B]."""
        import torch  # optional

        if self.loss is not None:
            return self.loss(outputs, labels)  # type: ignore[arg-type, return-value]  # of tensors
        return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")

    def score_of(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the score of each sample, [B]."""
        if self.score is not None:
            return self.score(outputs, labels)  # type: ignore[arg-type, return-value]  # of tensors
        return (outputs.argmax(-1) == labels).float()

    def trained(self, params: ArrayLike) -> Module:
        """Return a copy of the user's own module with these parameters [d], ready to predict."""
        module = copy.deepcopy(self.module)
        Workspace(module).begin(np.asarray(params), train=False)
        return module

    def outputs(self, params: ArrayLike, x: Shaped[np.ndarray, "B ..."], scaling: Scaling | None) -> np.ndarray:
        """Return the outputs for samples [B, *input_shape] as the data set holds them, with the parameters [d]."""
        import torch  # optional

        work = Workspace(copy.deepcopy(self.module))
        work.begin(np.asarray(params), train=False)
        with torch.no_grad():
            return np.asarray(work.outputs(np.array(x), scaling).cpu())

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """Lend a copy of the module to one thread at a time."""
        try:
            work = self.idle.pop()
        except IndexError:
            work = Workspace(copy.deepcopy(self.module))
        yield work
        self.idle.append(work)

    def _rebuilt(self, bits: ArrayLike) -> np.ndarray:
        import torch  # optional

        assert self.rebuild is not None
        with GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.asarray(bits)))
            return _flat(parameters(self.rebuild(None)))  # no JAX inside a callback: it may deadlock


class Workspace:
    """A copy of a module whose parameters are parts of one vector `weights` [d]."""

    def __init__(self, module: Module) -> None:
        import torch  # optional

        self.module, self.parameters = module, parameters(module)
        self.buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
        self.weights = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        first = 0
        for p in self.parameters:
            p.data = self.weights[first : first + p.numel()].view_as(p)
            first += p.numel()

    def begin(self, weights: Float[np.ndarray, " d"], *, train: bool) -> None:
        """Copy other weights into the module, which is to `train` or to evaluate, with the buffers of its beginning."""
        import torch  # optional

        self.module.train(train)
        with torch.no_grad():
            self.weights.copy_(torch.from_numpy(np.array(weights, np.float32)))
            for buffer, first in self.buffers:
                buffer.copy_(first)

    def outputs(self, x: Shaped[np.ndarray, "B ..."], scaling: Scaling | None = None) -> torch.Tensor:
        """Return the outputs for samples [B, *input_shape] as the data set holds them.

        Bytes are scaled to [0, 1], and then normalised if there is a `scaling`, as `training.learner.as_float` does.
        The module gets images as [B, channels, height, width], those of samples [height, width] with one channel.
        """
        import torch  # optional

        batch = torch.from_numpy(x).to(self.weights.device)
        batch = batch.float().div_(255) if batch.dtype == torch.uint8 else batch
        if scaling is not None:
            mean, std = (torch.tensor(numbers, device=batch.device) for numbers in (scaling.mean, scaling.std))
            batch = (batch - mean) / std
        return self.module(channels_first(batch))

    def labels(self, y: Shaped[np.ndarray, " B"]) -> torch.Tensor:
        """Return labels in PyTorch's types."""
        import torch  # optional

        labels = torch.from_numpy(y).to(self.weights.device)
        return labels if labels.is_floating_point() else labels.long()


def channels_first(batch: torch.Tensor) -> torch.Tensor:
    """Return images [B, height, width, channels] or [B, height, width] as [B, channels, height, width]."""
    return batch.permute(0, 3, 1, 2) if batch.ndim == 4 else batch.unsqueeze(1) if batch.ndim == 3 else batch


def parameters(module: Module) -> list[torch.Tensor]:
    """Return the learned parameters (`requires_grad`), in PyTorch's order. Layers that cannot be averaged are refused."""
    import torch  # optional
    from torch.nn.modules import batchnorm  # optional

    for layer in module.modules():
        if isinstance(layer, batchnorm._NormBase) and layer.track_running_stats:
            raise batch_norm(type(layer).__name__)
        if isinstance(layer, torch.nn.modules.lazy.LazyModuleMixin):
            raise UserError(f"model: {type(layer).__name__} has no parameters yet; give its sizes, or call it once")
    learned = [p for p in module.parameters() if p.requires_grad]
    if not learned:
        raise UserError(f"model: {type(module).__name__} has no parameters to learn")
    for name, p in module.named_parameters():
        if p.requires_grad and p.dtype != torch.float32:
            raise UserError(f"model: its parameter {name} is {p.dtype}, and paota learns torch.float32: call .float()")
    return learned


def _flat(tensors: Sequence[torch.Tensor]) -> np.ndarray:
    return np.concatenate([p.detach().cpu().numpy().reshape(-1) for p in tensors])
