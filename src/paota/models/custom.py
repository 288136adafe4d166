"""The user's models: a module of Equinox, Flax or PyTorch, two functions, or the name of a function in a file.

`as_model` finds the adapter; nothing here imports a library that the user has not imported. Some models depend on the
shape of the data: `fitted` builds those.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from ..base.errors import UserError, install_command
from ..base.plugins import import_file
from ..base.registry import MODELS
from .base import FunctionModel, Model, SampleMetric, WithMetrics, is_torch

KINDS = "an Equinox, Flax or PyTorch module, a pair (init, apply), an object with init and apply, or what builds one"
ADAPTERS = {  # (library, the class of its modules) -> module and class of the adapter
    ("torch", "nn.Module"): "torch_module:TorchModel",
    ("equinox", "Module"): "adapters:EquinoxModel",
    ("flax.linen", "Module"): "adapters:LinenModel",
    ("flax.nnx", "Module"): "adapters:NnxModel",
}


def as_model(
    thing: Any, *, loss: SampleMetric | None = None, score: SampleMetric | None = None, score_name: str | None = None
) -> Any:
    """Return a model that paota can train.

    Args:
        thing: an Equinox, Flax or PyTorch module, a pair (init, apply), an object with init and apply, or a function or
            class that builds one, which is called with those of `key`, `input_shape` and `num_classes` that it names.
        loss: loss(outputs, y), [B], in place of cross-entropy (default: the attribute of `thing`, if it has one).
        score: score(outputs, y), [B], in place of accuracy (likewise).
        score_name: the name of the score (likewise).
    """
    given: dict[str, Any] = {"loss": loss, "score": score, "score_name": score_name}
    own = {name: one if one is not None else getattr(thing, name, None) for name, one in given.items()}
    if isinstance(thing, tuple | list) and len(thing) == 2 and all(map(callable, thing)):
        return FunctionModel(init=thing[0], apply=thing[1], **own)
    if hasattr(thing, "for_data"):
        return dataclasses.replace(thing, **own) if isinstance(thing, BuiltModel) else thing
    if inspect.isclass(thing) or inspect.isroutine(thing):
        return BuiltModel(build=thing, **(given if inspect.isclass(thing) else own))  # an instance has a class's own
    if callable(thing) and (adapter := _adapter_of(type(thing))) is not None:
        return adapter(module=thing, **own)
    if hasattr(thing, "written_name") or (_is_registered(thing) and not (loss or score)):
        return thing if not (loss or score or score_name) else dataclasses.replace(thing, **own)
    if callable(getattr(thing, "init", None)) and callable(getattr(thing, "apply", None)):
        return FunctionModel(init=thing.init, apply=thing.apply, **own)
    raise UserError(f"model: {type(thing).__name__} cannot be used as a model; give {KINDS}")


def fitted(model: Any, input_shape: tuple[int, ...], num_classes: int) -> Model:
    """Return `model`, built or imported first if need be, for samples of this shape."""
    while hasattr(model, "for_data"):
        model = model.for_data(input_shape, num_classes)
    return model


def jax_model(model: Model, where: str) -> Model:
    """Return `model` if JAX computes it, else raise an error that names `where` it is needed."""
    if is_torch(model):
        raise UserError(f"{where} needs a model that JAX computes, and a PyTorch module is not: use `paota run` for it")
    return model


@dataclass(frozen=True, kw_only=True)
class BuiltModel(WithMetrics):
    """A function or class that makes a module, called with those of (key, input_shape, num_classes) that it names.

    Every seed starts from a new module if the function names `key` (or, for Flax nnx, `rngs`), and always for PyTorch.
    """

    build: Callable[..., Any] | None = None
    written_name = "builder"

    def for_data(self, input_shape: tuple[int, ...], num_classes: int) -> Any:
        """Return the model for samples of this shape and number of classes."""
        if self.build is None:
            raise given_in_python(self)
        return _built(self, input_shape, num_classes)


@functools.lru_cache(maxsize=64)
def _built(model: BuiltModel, input_shape: tuple[int, ...], num_classes: int) -> Any:
    assert model.build is not None
    name = getattr(model.build, "__qualname__", repr(model.build))
    named = _parameters(model.build, name)
    make = functools.partial(_make, model.build, {"input_shape": input_shape, "num_classes": num_classes}, named, name)
    made = as_model(make(jax.random.key(0)), loss=model.loss, score=model.score, score_name=model.score_name)
    if hasattr(made, "for_data"):
        raise UserError(f"model: {name} must return a model, not another function or class")
    anew = hasattr(made, "rebuild") and (made.written_name == "torch" or named & {"key", "rngs"})
    return dataclasses.replace(made, rebuild=make) if anew else made


def _make(build: Callable[..., Any], known: dict[str, Any], named: set[str], name: str, key: Any) -> Any:
    """Call `build` with the arguments that it names; PyTorch's own generator is not touched."""
    given: dict[str, Any] = {**known, "key": key}
    if "rngs" in named:
        from flax import nnx  # optional

        given["rngs"] = nnx.Rngs(key)
    try:
        return build(**{name: value for name, value in given.items() if name in named})
    except UserError:
        raise
    except ModuleNotFoundError as error:
        raise _missing(error, f"model: {name}") from error
    except Exception as error:
        raise UserError(f"model: {name} failed: {type(error).__name__}: {error}") from error


def _parameters(build: Callable[..., Any], name: str) -> set[str]:
    """Return those of the known arguments that `build` names."""
    known = {"key", "rngs", "input_shape", "num_classes"}
    try:
        # Metaclasses hide what a class takes: ask its constructor, without `self`.
        asked = inspect.signature(build.__init__ if inspect.isclass(build) else build).parameters.values()
        parameters = list(asked)[1:] if inspect.isclass(build) else list(asked)
    except (TypeError, ValueError):
        return set()
    free = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    for parameter in parameters:
        unknown = parameter.default is inspect.Parameter.empty and parameter.kind not in free
        if unknown and parameter.name not in known:
            raise UserError(
                f"model: {name} asks for '{parameter.name}', and only key, input_shape and num_classes can be given "
                "(and rngs, for Flax nnx)"
            )
    return known & {parameter.name for parameter in parameters}


@dataclass(frozen=True, kw_only=True)
class ImportedModel:
    """`model.name = "module:attribute"`: imported when a run is prepared, not when a file or a run folder is read."""

    written_name: str  # "module:attribute" or "path/to/file.py:attribute"

    @classmethod
    def beside(cls, base: Path, name: str) -> ImportedModel:
        """Return the model with its absolute path, if the module is a file in the folder `base`."""
        module, _, attribute = name.rpartition(":")
        file = base / (module if module.endswith(".py") else module.replace(".", "/") + ".py")
        there = os.path.isfile(file)  # noqa: PTH113  false, too, for what is no path at all
        return cls(written_name=f"{file.resolve()}:{attribute}" if there else name)

    def for_data(self, input_shape: tuple[int, ...], num_classes: int) -> Any:
        """Import the code and return the model."""
        module, _, attribute = self.written_name.rpartition(":")
        where = f"model.name '{self.written_name}'"
        try:
            code = import_file(module, where) if module.endswith(".py") else importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise _missing(error, where) from error
        except UserError as error:
            if isinstance(error.__cause__, ModuleNotFoundError):
                raise _missing(error.__cause__, where) from error
            raise
        except Exception as error:
            raise UserError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
        if not hasattr(code, attribute):
            raise UserError(f"{where}: there is no '{attribute}' in {module}")
        return as_model(getattr(code, attribute))


def given_in_python(model: Any) -> UserError:
    """Return the error for a model that was given in Python, of which a file has only the kind."""
    return UserError(
        f"model.name '{model.written_name}' stands for a model that was given in Python; name another model, or a "
        'function that makes one, as "my_module:build"'
    )


def _adapter_of(kind: type) -> Any:
    """Return the adapter for a module class; a library that is not imported has made no module."""
    for (library, base), place in ADAPTERS.items():
        found: Any = sys.modules.get(library)
        for part in base.split("."):
            found = getattr(found, part, None)
        if isinstance(found, type) and issubclass(kind, found):
            module, _, name = place.partition(":")
            return getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return None


def _is_registered(thing: Any) -> bool:
    return dataclasses.is_dataclass(thing) and any(MODELS[name] is type(thing) for name in MODELS)


def _missing(error: ModuleNotFoundError, where: str) -> UserError:
    command = install_command("torch") if error.name == "torch" else f"pip install {error.name}"
    return UserError(f"{where} needs {error.name}, which is not installed: {command}")
