"""The sections of an experiment file, and what stands above them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..air.settings import Air
from ..base import settings
from ..base.errors import UserError, is_plain
from ..base.rng import LARGEST_SEED
from ..base.settings import setting
from ..data.settings import Data
from ..faults import Faults, Guards
from ..models.settings import ModelChoice
from ..power.settings import Power
from ..server import ServerSettings
from ..timing.settings import Timing
from ..training.settings import Evaluation, Training

SECTIONS = {
    "data": Data, "model": ModelChoice, "training": Training, "timing": Timing,
    "server": ServerSettings, "air": Air, "power": Power, "evaluation": Evaluation, "faults": Faults, "guards": Guards,
}  # fmt: skip
OVERRIDABLE = ("training", "server", "timing", "air", "power", "faults", "guards")


@dataclass(frozen=True, kw_only=True)
class TopSettings:
    """What stands above the sections of an experiment file."""

    name: str = setting("paper", doc="What the run is called.")
    rounds: int | None = setting(
        None,
        low=1,
        high=10_000_000,
        doc="Aggregations R; 100 unless `duration_s` is given.",
        aliases=("num_rounds", "communication_rounds", "iterations", "R", "T", "global_rounds"),
    )
    duration_s: float | None = setting(
        None, above=0, doc="Simulated time, in place of `rounds`.", aliases=("duration", "time", "simulated_time")
    )
    seed: int = setting(
        0,
        low=0,
        high=LARGEST_SEED,
        doc="Of the first repetition; the next ones count up.",
        aliases=("random_seed", "random_state"),
    )
    targets: tuple[float, ...] = setting(
        (0.5, 0.6, 0.7, 0.8),
        low=0,
        high=1,
        doc="Test accuracies whose seconds and rounds the results tell.",
        aliases=("target", "target_accuracy"),
    )
    plugins: tuple[str, ...] = setting(
        (),
        doc="Python files that register things of your own; paths relative to the experiment file.",
        aliases=("plugin",),
    )


TOP_KEYS = tuple(f.name for f in dataclasses.fields(TopSettings))


def check_name(name: str) -> None:
    if not is_plain(name):
        raise UserError(f"experiment.name must be a text without control characters, not {name!r:.80}")


def check_outline(table: Mapping[str, Any]) -> None:
    """Refuse a table that is no experiment whatever code it needs: wrong types of settings that every experiment has."""
    settings.check_types(TopSettings, table, "experiment")
    check_name(table.get("name", ""))
    for name, section in SECTIONS.items():
        settings.check_types(section, table.get(name, {}), name)
    entries = table.get("algorithms", ())
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
        raise UserError("algorithms must be a list of tables")
    for i, entry in enumerate(entries):
        for name in OVERRIDABLE:
            settings.check_types(SECTIONS[name], entry.get(name, {}), f"algorithms[{i}].{name}")
