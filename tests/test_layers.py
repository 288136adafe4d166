"""Imports point one way: a folder of the package imports only what is below it."""

import ast
from pathlib import Path

import pytest

import paota

ROOT = Path(paota.__file__).parent
LAYERS = (  # bottom to top; folders on one line do not import each other
    ("base",),
    ("server", "timing", "data", "pages"),
    ("models",),
    ("training",),
    ("air",),
    ("faults", "power"),
    ("algorithms",),
    ("experiment",),
    ("engine",),
    ("results",),
    ("callbacks",),
    ("terminal",),
    ("simulate",),
    ("studies",),
    ("deploy",),
    ("cli",),
)
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}


def imports(file):
    """Yield (line, folder, inside a function) for every import of this package."""
    place = file.relative_to(ROOT).parts[:-1]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = place[: len(place) - node.level + 1]
            whole = [*base, *(node.module or "").split(".")] if node.module else list(base)
            names = whole[:1] or [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("paota."):
            names = [node.module.split(".")[1]]
        else:
            continue
        for name in names:
            yield node.lineno, name, id(node) in inside


FILES = [file for file in sorted(ROOT.rglob("*.py")) if len(file.relative_to(ROOT).parts) > 1]


def test_every_folder_has_a_layer():
    assert {file.relative_to(ROOT).parts[0] for file in FILES} == set(LEVEL)


@pytest.mark.parametrize("folder", LEVEL)
def test_folders_import_only_what_is_below(folder):
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in FILES
        if file.relative_to(ROOT).parts[0] == folder
        for line, name, _ in imports(file)
        if name != folder and LEVEL.get(name, -1) >= LEVEL[folder]
    ]
    assert wrong == []
