"""Python code of the user in an experiment: files that register algorithms, channels, ..., and models.

An experiment file names such files in `plugins`, the command line in `--plugin`. Code that a run folder names is imported
only if the user trusts the folder, or has named the same code in this process before.
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

_LOADED: dict[str, ModuleType | None] = {}  # code that the user named in this process; None until its import


def trust(names: Iterable[str]) -> None:
    """Trust code that the user has named: absolute paths of files, `file.py:build` or `module:build`."""
    for name in names:
        _LOADED.setdefault(name, None)


def refuse_untrusted(names: Iterable[str]) -> None:
    """Raise a `UserError` for code that the user has neither named to paota nor imported in this process."""
    unknown = [name for name in names if name not in _LOADED and _imported(name) is None]
    if unknown:
        raise UserError(
            f"the Python code that this folder names is not run without your consent: read "
            f"{' and '.join(map(repr, unknown))}, then "
            "give --trust-plugins (in Python: paota.load(..., trust_plugins=True))"
        )


def whole_path(path: Path, where: str) -> str:
    """Return the absolute path without links; `where` is the origin of the path in messages."""
    try:
        return str(path.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, or a name that is too long or contains NUL
        raise UserError(f"{where}: '{path}' is not the path of a file ({error})") from None


def _imported(name: str) -> ModuleType | None:
    """Return the module of a file that an `import` has already run; None for others, and for functions in modules."""
    modules = list(sys.modules.values()) if name.endswith(".py") else []
    return next((module for module in modules if getattr(module, "__file__", None) == name), None)


def plugin_modules() -> set[str]:
    """Return the names of the modules that were imported as plug-ins."""
    return {module.__name__ for module in _LOADED.values() if module is not None}


def load_plugin(path: str | Path, where: str = "--plugin") -> None:
    """Import a Python file once, which calls `paota.register`; `where` is the origin of the path in messages."""
    import_file(path, where)


def import_file(path: str | Path, where: str) -> ModuleType:
    """Return the module in a Python file, imported once; `where` is the origin of the path in messages."""
    whole = whole_path(Path(path), where)
    if module := _LOADED.get(whole) or _imported(whole):
        return module
    file = Path(whole)
    if not os.path.isfile(file):  # noqa: PTH113  also false for a name that is too long
        raise UserError(f"{where}: no such file '{path}'")
    name = file.stem
    if name in sys.modules:  # another name, so that it does not hide an installed module
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
