"""Names for plain data, so that signatures say what they hold. Trees of arrays are jaxtyping's `PyTree`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

Table: TypeAlias = dict[str, Any]  # a table of a TOML or JSON file: keys to values of any type
Settings: TypeAlias = Mapping[str, Any]  # the same, not to be changed
Json: TypeAlias = Any  # a value that json.loads may give
if TYPE_CHECKING:
    Subcommands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # what `add_parser` belongs to
else:
    Subcommands = argparse._SubParsersAction
