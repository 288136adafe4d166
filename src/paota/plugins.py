"""Python files of the user's own that register algorithms, channels, ... before an experiment is read.

An experiment file names them in `plugins`, the command line in `--plugin`.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from .errors import UserError

_LOADED: dict[Path, ModuleType] = {}


def load_plugin(path: str | Path, where: str = "--plugin") -> None:
    """Import a Python file once; it calls `paota.register`. `where` names in messages who asked for it."""
    import_file(path, where)


def import_file(path: str | Path, where: str) -> ModuleType:
    """The module in a Python file, imported once; `where` names in messages who asked for it."""
    file = Path(path).resolve()
    if file in _LOADED:
        return _LOADED[file]
    if not file.is_file():
        raise UserError(f"{where}: no such file '{path}'")
    name = file.stem
    if name in sys.modules:  # a name of its own, or it would hide an installed module
        name = f"paota_plugin_{name}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{where}: '{path}' is not a Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except UserError:
        sys.modules.pop(name, None)
        raise
    except Exception as error:
        sys.modules.pop(name, None)
        raise UserError(f"{where}: '{path}' cannot be imported: {_sentence(error, file)}") from error
    _LOADED[file] = module
    return module


def _sentence(error: Exception, file: Path) -> str:
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if Path(entry.filename) == file]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    text = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return text if line is None else f"{text} (line {line})"
