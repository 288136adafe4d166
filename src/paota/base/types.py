"""Type aliases for plain data and for NumPy arrays. Trees of arrays are jaxtyping's `PyTree`.

The aliases of arrays are texts, so that this module does not import NumPy, which would slow every command's start.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Table: TypeAlias = dict[str, Any]  # a table of a TOML or JSON file: keys to values of any type
Settings: TypeAlias = Mapping[str, Any]  # the same, read-only
Json: TypeAlias = Any  # a value that json.loads may give
AnyArray: TypeAlias = "NDArray[Any]"  # of any dtype
Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"
Bools: TypeAlias = "NDArray[np.bool_]"
if TYPE_CHECKING:
    Subcommands: TypeAlias = argparse._SubParsersAction[
        argparse.ArgumentParser
    ]  # the object that `add_parser` belongs to
else:
    Subcommands = argparse._SubParsersAction
