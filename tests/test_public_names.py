"""Every public name documents its arguments and its result."""

import dataclasses
import inspect
import re

import pytest

import paota

CLASSES = [name for name in paota.__all__ if inspect.isclass(getattr(paota, name))]
FUNCTIONS = [name for name in paota.__all__ if inspect.isfunction(getattr(paota, name))]
OTHERS = {"callbacks", "power", "Report"}  # two modules and a type alias


def methods_of(cls):
    """Yield (name, function) for the public methods of a class and of its bases in this package."""
    for name in dir(cls):
        thing = inspect.getattr_static(cls, name)
        thing = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
        if not name.startswith("_") and inspect.isfunction(thing) and thing.__module__.startswith("paota."):
            yield name, thing


def texts(cls, name):
    """Return the docstrings of a method in a class and its bases: an overriding method inherits the description."""
    found = (inspect.getattr_static(base, name, None) for base in cls.__mro__)
    return "\n".join(inspect.cleandoc(getattr(thing, "__func__", thing).__doc__ or "") for thing in found if thing)


def undocumented(parameters, text):
    """Return the parameters that a docstring neither lists under `Args:` nor names in backticks."""
    names = [name for name in parameters if name not in ("self", "cls")]
    return [name for name in names if not re.search(rf"^\s*\**{name}:|`[^`]*\b{name}\b[^`]*`", text, re.MULTILINE)]


def commented(cls):
    """Return the fields of a class and of its bases with a comment beside them."""
    sources = [inspect.getsource(base) for base in cls.__mro__ if base.__module__.startswith("paota.")]
    return {name for source in sources for name in re.findall(r"^    (\w+): .*  # \S", source, re.MULTILINE)}


def gives_something(function):
    """Return whether a function has a result."""
    return inspect.signature(function).return_annotation not in (None, "None", inspect.Signature.empty)


def check_function(function, text):
    assert text, "has no docstring"
    assert undocumented(inspect.signature(function).parameters, text) == []
    assert not gives_something(function) or re.search(r"\b([Rr]eturns?|[Yy]ields?):?\b", text), (
        "says nothing of its result"
    )


def test_all_public_names_are_checked():
    assert {*CLASSES, *FUNCTIONS, *OTHERS} == set(paota.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_document_arguments_and_result(name):
    function = getattr(paota, name)
    check_function(function, inspect.getdoc(function))


@pytest.mark.parametrize("name", CLASSES)
def test_classes_document_their_fields(name):
    cls = getattr(paota, name)
    assert cls.__doc__
    if dataclasses.is_dataclass(cls):
        fields = [field.name for field in dataclasses.fields(cls) if field.init and not field.metadata.get("doc")]
    elif issubclass(cls, tuple):
        fields = cls._fields
    elif cls.__init__ is object.__init__ or issubclass(cls, Exception):
        fields = []
    else:
        fields = inspect.signature(cls).parameters
    text = "\n".join(
        inspect.cleandoc(base.__doc__ or "") for base in cls.__mro__ if base.__module__.startswith("paota")
    )
    fields = [field for field in fields if not field.startswith("_") and field not in commented(cls)]
    assert undocumented(fields, text) == []


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name in CLASSES for method, _ in methods_of(getattr(paota, name))]
)
def test_methods_document_arguments_and_result(name, method):
    cls = getattr(paota, name)
    check_function(dict(methods_of(cls))[method], texts(cls, method))


@pytest.mark.parametrize(
    ("name", "thing"),
    [(name, thing) for name in CLASSES for thing, value in inspect.getmembers_static(getattr(paota, name))
     if isinstance(value, property) and not thing.startswith("_")],
)  # fmt: skip
def test_properties_are_documented(name, thing):
    assert inspect.getattr_static(getattr(paota, name), thing).fget.__doc__
