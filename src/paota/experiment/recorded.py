"""The experiment of a run folder that cannot be run again here: it needs code that this process does not know or trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RecordedExperiment:
    """The experiment of a run folder that names things this process does not know: the table as it was written."""

    table: Mapping[str, Any]
    why: str  # what is not known, in a sentence

    def __repr__(self) -> str:
        return f"<paota.RecordedExperiment '{self.name}', as data only: {self.why.partition(':')[0]}>"

    @property
    def name(self) -> str:
        """What the run is called."""
        return str(self.table.get("name", "run"))

    @property
    def targets(self) -> tuple[float, ...]:
        """Test accuracies to reach."""
        return tuple(float(target) for target in self.table.get("targets", ()))

    def to_dict(self) -> dict[str, Any]:
        """As an experiment file has it."""
        return dict(self.table)
