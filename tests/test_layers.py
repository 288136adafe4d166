"""Imports point one way: a folder of the package imports only what is below it."""

import ast
import re
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


FILES = sorted(ROOT.rglob("*.py"))
BY_NAME = {"base/registry.py", "results/folder.py", "results/result.py"}  # they name what is above them in texts


def folder_of(file):
    """Return the folder of a file; "" for a module beside the folders."""
    return file.relative_to(ROOT).parts[0] if file.parent != ROOT else ""


def tree_of(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def imports(file):
    """Yield (line, folder) for every import of this package, also within functions and for type checkers."""
    place = file.relative_to(ROOT).parts[:-1]
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["paota", *place[: len(place) - node.level + 1]] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            targets = [[*module, alias.name] for alias in node.names]
        else:
            continue
        yield from ((node.lineno, target[1]) for target in targets if target[0] == "paota" and len(target) > 1)


def imports_in_functions(file):
    """Yield (line, text) for every import within a function."""
    lines = file.read_text(encoding="utf-8").splitlines()
    functions = [n for n in ast.walk(tree_of(file)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {node for function in functions for node in ast.walk(function)}
    for node in sorted((n for n in inside if isinstance(n, ast.Import | ast.ImportFrom)), key=lambda n: n.lineno):
        yield node.lineno, "\n".join(lines[node.lineno - 1 : node.end_lineno])


def test_every_folder_has_a_layer():
    assert {folder_of(file) for file in FILES} - {""} == set(LEVEL)


@pytest.mark.parametrize("folder", LEVEL)
def test_folders_import_only_what_is_below(folder):
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in FILES
        if folder_of(file) == folder
        for line, name in imports(file)
        if name != folder and LEVEL.get(name, -1) >= LEVEL[folder]
    ]
    assert wrong == []


def test_only_some_modules_name_what_is_above_them():
    """A text such as "paota.studies.report" can be imported by name, which the other test does not see."""
    found = {
        file.relative_to(ROOT).as_posix()
        for file in FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in re.findall(r"^paota\.(\w+)[.:][\w.:]+$", node.value)
        if LEVEL.get(name, -1) > LEVEL.get(folder_of(file), len(LAYERS))
    }
    assert found == BY_NAME


def test_imports_in_functions_say_why():
    wrong = [
        f"{file.relative_to(ROOT)}:{line} {text.strip()}"
        for file in FILES
        for line, text in imports_in_functions(file)
        if not re.search(r"# .*(start-up time|optional)", text)
    ]
    assert wrong == []


def test_tests_have_the_names_of_what_they_test():
    """`tests/FOLDER/test_NAME.py` or `test_NAME_WHAT.py`. NAME is a module, or a function in the folder's `__init__.py`."""
    tests = Path(__file__).parent
    stray = []
    for file in sorted(tests.rglob("test_*.py")):
        folder = ROOT / file.parent.relative_to(tests)
        if folder == ROOT or not folder.is_dir():
            continue
        names = [module.stem for module in folder.glob("*.*")]
        names += [node.name for node in tree_of(folder / "__init__.py").body if isinstance(node, ast.FunctionDef)]
        if not f"{file.stem}_".startswith(tuple(f"test_{name}_" for name in names)):
            stray.append(str(file.relative_to(tests)))
    assert stray == []


def test_every_public_function_and_class_says_what_it_is():
    silent = []
    for file in FILES:
        for node in tree_of(file).body:
            if (
                isinstance(node, ast.FunctionDef | ast.ClassDef)
                and not node.name.startswith("_")
                and not ast.get_docstring(node)
            ):
                silent.append(f"{file.relative_to(ROOT)}: {node.name}")
    assert silent == []
