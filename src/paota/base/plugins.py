"""Python code of the user's own that an experiment names: files that register algorithms, channels, ..., and models.

An experiment file names such files in `plugins`, the command line in `--plugin`. Code that a folder names is imported only
if the user trusts the folder, or has named the same code in this process before.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from .errors import UserError

_LOADED: dict[str, ModuleType | None] = {}  # code that the user has named in this process; None until it is imported


def trust(names: Iterable[str]) -> None:
    """Remember that the user has named this code: whole paths of files, `file.py:build` or `module:build`."""
    for name in names:
        _LOADED.setdefault(name, None)


def refuse_untrusted(names: Iterable[str]) -> None:
    """Raise a `UserError` if the user of this process has named some of this code neither to paota nor in an `import`."""
    unknown = [name for name in names if name not in _LOADED and _imported(name) is None]
    if unknown:
        raise UserError(
            f"the Python code that this folder names is not run unasked: look at {' and '.join(map(repr, unknown))}, then "
            "give --trust-plugins (in Python: paota.load(..., trust_plugins=True))"
        )


def whole_path(path: Path, where: str) -> str:
    """The path without links and relative parts; `where` names in messages who gave it."""
    try:
        return str(path.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a name too long or with a NUL in it
        raise UserError(f"{where}: '{path}' is not the path of a file ({error})") from None


def _imported(name: str) -> ModuleType | None:
    """The module of a file that an `import` has run already. A function in a module is other code than the module."""
    modules = list(sys.modules.values()) if name.endswith(".py") else []
    return next((module for module in modules if getattr(module, "__file__", None) == name), None)


def load_plugin(path: str | Path, where: str = "--plugin") -> None:
    """Import a Python file once; it calls `paota.register`. `where` names in messages who asked for it."""
    import_file(path, where)


def import_file(path: str | Path, where: str) -> ModuleType:
    """The module in a Python file, imported once; `where` names in messages who asked for it."""
    whole = whole_path(Path(path), where)
    if module := _LOADED.get(whole) or _imported(whole):
        return module
    file = Path(whole)
    if not os.path.isfile(file):  # noqa: PTH113  false, too, for a name that is too long
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
    _LOADED[whole] = module
    return module


def _sentence(error: Exception, file: Path) -> str:
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if Path(entry.filename) == file]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    text = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return text if line is None else f"{text} (line {line})"
