"""What does the paper's Theorem 1 say about a real run, printed and corrected, with constants from the run itself?

The printed and the corrected form assume weights that are independent of the mini-batch noise of the updates that they
weigh; `dependent` does not (see `theorem`). `regret` bounds the mean gap of a convex F at any learning rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .theorem import (
    Constants,
    System,
    Terms,
    averaged_gradient_bound,
    bound,
    contraction,
    descent,
    largest_learning_rate,
    lemma1,
    terms,
)

if TYPE_CHECKING:
    from .analysis import Analysis, analyse
    from .estimate import constants_of
    from .landscape import Landscape
    from .optimum import Optimum, minimise
    from .recording import Record, record
    from .regret import Regret, regret_of

__all__ = [
    "Analysis", "Constants", "Landscape", "Optimum", "Record", "Regret", "System", "Terms",
    "analyse", "averaged_gradient_bound", "bound", "constants_of", "contraction", "descent", "largest_learning_rate",
    "lemma1", "minimise", "record", "regret_of", "terms",
]  # fmt: skip

# These need JAX: imported when first used.
_HOME = {
    "Analysis": "analysis", "analyse": "analysis", "Landscape": "landscape", "constants_of": "estimate",
    "Optimum": "optimum", "minimise": "optimum", "Record": "recording", "record": "recording",
    "Regret": "regret", "regret_of": "regret",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module 'paota.theory' has no attribute '{name}'")
