"""Checks of a model before a run starts. A model that cannot be trained gets an error in one sentence."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..base.errors import UserError
from ..base.rng import Purpose, device_key
from ..base.system import require_memory
from .base import Model, Params, loss_of, parameter_shapes, score_of
from .custom import given_in_python

SAMPLES = 2  # of the trial


class Trial(NamedTuple):
    """Shapes of what the model made of SAMPLES samples."""

    outputs: tuple[int, ...]
    loss: tuple[int, ...] | None  # None if the outputs already have the wrong shape
    score: tuple[int, ...] | None


@functools.lru_cache(maxsize=64)
def check_model(model: Model, input_shape: tuple[int, ...], num_classes: int, seed: int) -> None:
    """Raise a `UserError` if `model` cannot learn samples [*input_shape] of `num_classes` classes.

    The initial model of `seed` must be finite.
    """
    if hasattr(model, "written_name") and None in (getattr(model, "module", 0), getattr(model, "init", 0)):
        raise given_in_python(model)
    shapes = f"samples of shape {input_shape} and {num_classes} classes"
    try:
        params = parameter_shapes(model, input_shape, num_classes)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"model: its init fails for {shapes}: {_short(error)}") from error
    if num_classes == 1 and needs_classes(model):
        raise UserError(
            "model: the data set's labels are regression targets, so the model needs its own loss and score: "
            "paota.as_model(net, loss=..., score=...)"
        )
    _check_types(params)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    require_memory(3 * 4 * size, f"model: to train its {size:,} parameters", "make it smaller")  # start, model, update
    _check_values(model.init(device_key(seed, Purpose.INITIAL_MODEL), input_shape, num_classes))
    classes = num_classes if needs_classes(model) else None
    try_out = getattr(model, "try_out", None) or functools.partial(_try_out, model, params)
    try:
        trial = try_out(input_shape, num_classes)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"model: it fails on {shapes}: {_short(error)}") from error
    _check_shapes(trial, classes)


def label_type(num_classes: int) -> type[np.generic]:
    """Return the type of a data set's labels; a single class stands for the targets of a regression."""
    return np.float32 if num_classes == 1 else np.int32


def needs_classes(model: object) -> bool:
    """Return True if the model is trained or evaluated by cross-entropy or accuracy, which need outputs [B, classes]."""
    return None in (getattr(model, "loss", None), getattr(model, "score", None))


def _check_types(params: Params) -> None:
    leaves = jax.tree_util.tree_leaves_with_path(params)
    if not sum(leaf.size for _, leaf in leaves):
        raise UserError("model: it has no parameters to learn")
    for path, leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise UserError(
                f"model: its parameter {jax.tree_util.keystr(path)} is {leaf.dtype}, and only floats can be learned: "
                "keep other arrays out of the parameters"
            )


def _check_values(params: Params) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not np.isfinite(np.asarray(leaf)).all():
            where = jax.tree_util.keystr(path) or "the parameters"
            raise UserError(f"model: its init puts NaN or infinite values into {where}")


def _try_out(model: Model, params: Params, input_shape: tuple[int, ...], num_classes: int) -> Trial:
    """Apply the model to shapes alone; nothing is computed."""
    x = jax.ShapeDtypeStruct((SAMPLES, *input_shape), jnp.float32)
    y = jax.ShapeDtypeStruct((SAMPLES,), label_type(num_classes))
    outputs = jax.eval_shape(model.apply, params, x)
    if not hasattr(outputs, "shape"):
        raise UserError(f"model: its output must be one array, not {type(outputs).__name__}")
    if needs_classes(model) and outputs.shape != (SAMPLES, num_classes):
        return Trial(outputs.shape, None, None)
    loss, score = (jax.eval_shape(metric, outputs, y) for metric in (loss_of(model), score_of(model)))
    return Trial(outputs.shape, loss.shape, score.shape)


def _check_shapes(trial: Trial, classes: int | None) -> None:
    """Raise a `UserError` for wrong shapes. `classes` is the required width of the outputs; None: any shape."""
    if classes is not None and trial.outputs != (SAMPLES, classes):
        raise UserError(
            f"model: for a batch of {SAMPLES} its output has shape {trial.outputs}, and it must be [B, classes] = "
            f"({SAMPLES}, {classes}); a model for another task needs its own loss and score"
        )
    for name, shape in (("loss", trial.loss), ("score", trial.score)):
        if shape != (SAMPLES,):
            hint = '; a loss of torch.nn does so with reduction="none"' if shape == () else ""
            raise UserError(
                f"model: for a batch of {SAMPLES} its {name} has shape {shape}, and it must give one number for each "
                f"sample, [B] = ({SAMPLES},){hint}"
            )


def _short(error: Exception) -> str:
    """Return the first line of a library's error."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
