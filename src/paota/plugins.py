"""Python files of the user's own that register algorithms, channels, ... before an experiment is read (`--plugin`)."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path

from .errors import UserError

_LOADED: set[Path] = set()


def load_plugin(path: str | Path) -> None:
    """Import a Python file once; it calls `paota.register`."""
    file = Path(path).resolve()
    if file in _LOADED:
        return
    if not file.is_file():
        raise UserError(f"--plugin: no such file '{path}'")
    name = file.stem
    if name in sys.modules:  # a name of its own, or it would hide an installed module
        name = f"paota_plugin_{name}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"--plugin: '{path}' is not a Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except UserError:
        sys.modules.pop(name, None)
        raise
    except Exception as error:
        sys.modules.pop(name, None)
        raise UserError(f"--plugin: '{path}' cannot be imported: {_sentence(error, file)}") from error
    _LOADED.add(file)


def _sentence(error: Exception, file: Path) -> str:
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if Path(entry.filename) == file]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    text = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return text if line is None else f"{text} (line {line})"
