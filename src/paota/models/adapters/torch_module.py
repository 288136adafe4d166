"""A PyTorch module as a model. PyTorch computes it, on the host; its parameters are one vector [d]."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...base.errors import UserError
from ..check import SAMPLES, Trial, label_type, needs_classes
from .base import Adapted, batch_norm, dropout

if TYPE_CHECKING:
    from ...data.dataset import Scaling

GENERATOR = threading.Lock()  # PyTorch has one for the whole process, and seeds are begun in threads


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchModel(Adapted):
    """`loss` and `score` are given and give tensors. The module itself is never changed: copies of it are trained."""

    written_name = "torch"
    idle: list[Workspace] = field(default_factory=list, repr=False)

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> jax.Array:
        """w^0 [d]."""
        trainable = parameters(self.module)
        if self.rebuild is None:
            return jnp.asarray(_flat(trainable), float)
        shape = jax.ShapeDtypeStruct((sum(p.numel() for p in trainable),), jnp.float32)
        return jax.pure_callback(self._anew, shape, jax.random.bits(key)).astype(float)

    def try_out(self, input_shape: tuple[int, ...], num_classes: int) -> Trial:
        """The shapes that come of samples of zeros."""
        with self.workspace() as work:
            outputs = work.outputs(np.zeros((SAMPLES, *input_shape), np.float32)).detach()
            if needs_classes(self) and tuple(outputs.shape) != (SAMPLES, num_classes):
                return Trial(tuple(outputs.shape), None, None)
            labels = work.labels(np.zeros(SAMPLES, label_type(num_classes)))
            loss, score = self.loss_of(outputs, labels), self.score_of(outputs, labels)
        return Trial(tuple(outputs.shape), tuple(loss.shape), tuple(score.shape))

    def loss_of(self, outputs: Any, labels: Any) -> Any:
        """Of each sample, [B]."""
        import torch

        if self.loss is not None:
            return self.loss(outputs, labels)
        return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")

    def score_of(self, outputs: Any, labels: Any) -> Any:
        """Of each sample, [B]."""
        if self.score is not None:
            return self.score(outputs, labels)
        return (outputs.argmax(-1) == labels).float()

    def trained(self, params: Any) -> Any:
        """A copy of the user's own module with these parameters [d], ready to predict."""
        module = copy.deepcopy(self.module)
        Workspace(module).load(np.asarray(params))
        return module.eval()

    def outputs(self, params: Any, x: np.ndarray, scaling: Scaling | None) -> np.ndarray:
        """Of samples [B, *input_shape] as the data set holds them, with the parameters [d]."""
        import torch

        work = Workspace(copy.deepcopy(self.module))
        work.load(np.asarray(params))
        work.module.eval()
        with torch.no_grad():
            return np.asarray(work.outputs(np.array(x), scaling).cpu())

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """A copy of the module for one thread at a time."""
        try:
            mine = self.idle.pop()
        except IndexError:
            mine = Workspace(copy.deepcopy(self.module))
        yield mine
        self.idle.append(mine)

    def _anew(self, bits: Any) -> np.ndarray:
        import torch

        assert self.rebuild is not None
        with GENERATOR, torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.asarray(bits)))
            return _flat(parameters(self.rebuild(None)))  # no JAX inside a callback: it may wait for ever


class Workspace:
    """A copy of a module whose parameters are parts of one vector `weights` [d]."""

    def __init__(self, module: Any) -> None:
        import torch

        self.module, self.parameters = module, parameters(module)
        self.weights = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        first = 0
        for p in self.parameters:
            p.data = self.weights[first : first + p.numel()].view_as(p)
            first += p.numel()

    def load(self, weights: np.ndarray) -> None:
        """Take over other weights [d]."""
        import torch

        with torch.no_grad():
            self.weights.copy_(torch.from_numpy(np.array(weights, np.float32)))

    def outputs(self, x: np.ndarray, scaling: Scaling | None = None) -> Any:
        """Of samples [B, *input_shape] as the data set holds them; images arrive as [B, channels, height, width].

        As `training.learner.as_float` does, bytes are scaled to [0, 1], and then normalised where a `scaling` is given.
        """
        import torch

        batch = torch.from_numpy(x).to(self.weights.device)
        batch = batch.float().div_(255) if batch.dtype == torch.uint8 else batch
        if scaling is not None:
            mean, std = (torch.tensor(numbers, device=batch.device) for numbers in (scaling.mean, scaling.std))
            batch = (batch - mean) / std
        return self.module(batch.permute(0, 3, 1, 2) if batch.ndim == 4 else batch)

    def labels(self, y: np.ndarray) -> Any:
        """Whole numbers as PyTorch wants them."""
        import torch

        labels = torch.from_numpy(y).to(self.weights.device)
        return labels if labels.is_floating_point() else labels.long()


def parameters(module: Any) -> list[Any]:
    """Those that are learned (`requires_grad`), in PyTorch's order. Layers that cannot be averaged are refused."""
    import torch
    from torch.nn.modules import batchnorm
    from torch.nn.modules import dropout as dropouts

    for layer in module.modules():
        if isinstance(layer, batchnorm._NormBase) and layer.track_running_stats:
            raise batch_norm(type(layer).__name__)
        if isinstance(layer, dropouts._DropoutNd) and layer.p > 0:
            raise dropout(type(layer).__name__)
        if isinstance(layer, torch.nn.modules.lazy.LazyModuleMixin):
            raise UserError(f"model: {type(layer).__name__} has no parameters yet; give its sizes, or call it once")
    learned = [p for p in module.parameters() if p.requires_grad]
    if not learned:
        raise UserError(f"model: {type(module).__name__} has no parameters to learn")
    for name, p in module.named_parameters():
        if p.requires_grad and p.dtype != torch.float32:
            raise UserError(f"model: its parameter {name} is {p.dtype}, and paota learns torch.float32: call .float()")
    return learned


def _flat(tensors: list[Any]) -> np.ndarray:
    flat: np.ndarray = np.concatenate([p.detach().cpu().numpy().reshape(-1) for p in tensors])
    return flat
