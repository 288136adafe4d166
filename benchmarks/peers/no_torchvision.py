"""A substitute for torchvision, which two frameworks import at start for image sets that are not used here.

Its usual builds want CUDA and refuse a PyTorch without it. Any name can be imported from it; using one fails.
"""

import importlib.abc
import importlib.machinery
import sys
import types


class _Absent(type):
    def __getattr__(cls, name):
        raise AttributeError(f"torchvision is not installed here ({name} was asked for)")


class _Module(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(name, (), {"__init__": lambda self, *args, **kwargs: None})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] == "torchvision":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, _Finder())
