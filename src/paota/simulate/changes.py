"""Changes of the user's code between two runs: a compiled program holds the values that global variables had."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import weakref
from collections.abc import Callable

from ..base.registry import KINDS

_digests: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()  # of functions and classes


def forget_changed_code(model: object) -> None:
    """Delete all compiled programs if a registered thing or a part of `model`, or a variable that it uses, has changed."""
    parts = (getattr(model, name, None) for name in ("build", "init", "apply", "loss", "score", "module"))
    things = [thing for registry in KINDS.values() for thing in registry.added.values()]
    changed = False
    for thing in (*things, *parts):
        code = thing if callable(thing) and hasattr(thing, "__qualname__") else type(thing)
        if code.__module__.partition(".")[0] in ("paota", "builtins", "torch", "jax", "flax", "equinox"):
            continue
        with contextlib.suppress(TypeError):  # a method, or another object that lives only now
            changed |= _digests.get(code, now := _digest(code)) != now
            _digests[code] = now
    if changed:
        _forget_programs()


def _digest(code: Callable[..., object]) -> str:
    """Return a hash of a function or class with its closures and the global variables that it uses."""
    import cloudpickle  # start-up time

    module = sys.modules.get(code.__module__)
    try:
        if module is not None and code.__module__ != "__main__":
            cloudpickle.register_pickle_by_value(module)
        return hashlib.sha256(cloudpickle.dumps(code)).hexdigest()
    except Exception as error:  # of objects that cannot be pickled: their changes are not seen
        return repr(error)
    finally:
        with contextlib.suppress(ValueError, AttributeError):
            cloudpickle.unregister_pickle_by_value(module)


def _forget_programs() -> None:
    import jax  # start-up time

    from .. import engine  # start-up time
    from ..engine import evaluation  # start-up time
    from ..models import check, custom  # start-up time
    from ..training import learner  # start-up time

    engine.forget_programs()
    jax.clear_caches()
    for cached in (evaluation._compiled, check.check_model, custom._built, learner._convolves, learner._unravel):
        cached.cache_clear()
