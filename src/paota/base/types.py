"""Type aliases for plain data and for NumPy arrays. Trees of arrays are jaxtyping's `PyTree`.

Some aliases are texts, so that this module does not import NumPy, which would slow the start of every command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import argparse

    import numpy as np
    from numpy.typing import NDArray

Table: TypeAlias = dict[str, Any]  # table of a TOML or JSON file, with values of any type
Settings: TypeAlias = Mapping[str, Any]  # the same, read-only
Json: TypeAlias = Any  # a value that json.loads may give
NumPyArray: TypeAlias = "NDArray[Any]"  # of any dtype
Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"
Bools: TypeAlias = "NDArray[np.bool_]"
Subcommands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # the object with `add_parser`
