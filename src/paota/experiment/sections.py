"""The sections of an experiment file, and the settings above them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ..air.settings import Air
from ..base import settings
from ..base.errors import UserError, is_plain
from ..base.rng import LARGEST_SEED
from ..base.settings import setting
from ..base.types import Settings
from ..data.settings import Data
from ..faults.settings import Faults, Guards
from ..models.settings import ModelChoice
from ..power.settings import Power
from ..server.settings import ServerSettings
from ..timing.settings import Timing
from ..training.settings import Evaluation, Training

SECTIONS = {
    "data": Data, "model": ModelChoice, "training": Training, "timing": Timing,
    "server": ServerSettings, "air": Air, "power": Power, "evaluation": Evaluation, "faults": Faults, "guards": Guards,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OverridableSections:
    """The sections that an entry of `[[algorithms]]` may change for itself.

    Args:
        training: section `[training]`.
        server: section `[server]`.
        timing: section `[timing]`.
        air: section `[air]`.
        power: section `[power]`.
        faults: section `[faults]`.
        guards: section `[guards]`.
    """

    training: Training
    server: ServerSettings
    timing: Timing
    air: Air
    power: Power
    faults: Faults
    guards: Guards


OVERRIDABLE = tuple(field.name for field in dataclasses.fields(OverridableSections))


@dataclass(frozen=True, kw_only=True)
class TopSettings:
    """The settings above the sections of an experiment file."""

    name: str = setting("paper", doc="Name of the run.")
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
        doc="Seed of the first run; later runs use the following integers.",
        aliases=("random_seed", "random_state"),
    )
    targets: tuple[float, ...] = setting(
        (0.5, 0.6, 0.7, 0.8),
        low=0,
        high=1,
        doc="Target accuracies for which time and rounds are reported.",
        aliases=("target", "target_accuracy"),
    )
    plugins: tuple[str, ...] = setting(
        (),
        doc="Python files that register your own algorithms, models, ...; paths relative to the experiment file.",
        aliases=("plugin",),
    )


TOP_KEYS = tuple(field.name for field in dataclasses.fields(TopSettings))


def check_name(name: str) -> None:
    """Refuse an experiment's name with control characters."""
    if not is_plain(name):
        raise UserError(f"experiment.name must be a text without control characters, not {name!r:.80}")


def check_outline(table: Settings) -> None:
    """Refuse a table with wrong types of common settings, without the code that the experiment needs."""
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
