"""The settings that only a deployment has. All other settings are in the experiment file, as for the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..base import settings
from ..base.errors import UserError, unknown_name
from ..base.settings import setting
from ..experiment.experiment import AlgorithmConfig, Experiment, as_experiment
from ..experiment.files import preset_names, read_preset


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """The table `[tool.flwr.app.config]` of the Flower app, with hyphens in place of underscores."""

    experiment: str = "experiment.toml"  # a file inside the app's folder, or the name of a preset
    changes: str = ""  # section.key=value; section.key=value: like --set
    algorithms: str = ""  # labels to run, separated by commas; empty: all labels in the file
    out: str = "runs/deployment"  # the run folder, on the machine of the ServerApp
    resume: bool = False  # resume from the checkpoint in `out`
    time_scale: float = setting(1.0, above=0)  # real seconds per simulated second
    emulate_latency: bool = False  # devices wait as long as the experiment's latency model says
    patience: float = setting(5.0, above=0)  # periods without an answer after which a training is given up
    join_s: float = setting(120.0, above=0)  # real seconds to wait for the devices at the start
    min_devices: int = setting(0, low=0)  # devices needed to start when join_s has passed; 0: all
    poll_s: float = setting(0.5, above=0)  # real seconds between two checks of the mailbox
    max_influence: float = setting(2.0, low=0)  # longest |dw_k|, in medians of the fleet's updates; 0: no limit
    nodes: str = ""  # Flower's number of each device's node, separated by commas; empty: a node says which device it is

    @classmethod
    def from_run_config(cls, run_config: Mapping[str, object]) -> Deployment:
        """Read the settings of a Flower app. Other settings of the app are ignored."""
        known = {f.name for f in settings.fields(cls)}
        table = {key.replace("-", "_"): value for key, value in run_config.items()}
        return settings.parse(cls, {k: v for k, v in table.items() if k in known}, "tool.flwr.app.config")

    def load(self, folder: Path) -> Experiment:
        """Return the experiment that the app in `folder` deploys."""
        changes = [change.strip() for change in self.changes.split(";") if change.strip()]
        if self.experiment in preset_names():
            return as_experiment(read_preset(self.experiment), changes)
        return as_experiment(folder / self.experiment, changes)

    @property
    def device_of_node(self) -> dict[int, int] | None:
        """The device of each registered node, None if nodes say so themselves."""
        numbers = [word.strip() for word in self.nodes.split(",") if word.strip()]
        if not all(number.isdigit() for number in numbers):
            raise UserError(f"nodes must be whole numbers separated by commas, not '{self.nodes[:80]}'")
        return {int(number): device for device, number in enumerate(numbers)} or None

    def chosen(self, experiment: Experiment) -> list[AlgorithmConfig]:
        """Return the algorithms to run. Raise a `UserError` for a setting that only the simulator has."""
        by_label = {c.label: c for c in experiment.algorithms}
        wanted = [label.strip() for label in self.algorithms.split(",") if label.strip()] or list(by_label)
        for label in wanted:
            if label not in by_label:
                raise unknown_name("algorithm label", label, by_label)
        if experiment.evaluation.every_s is not None:
            raise UserError("evaluation.every_s is for the simulator: a deployment uses evaluation.every (rounds)")
        chosen = [by_label[label] for label in dict.fromkeys(wanted)]
        for entry in chosen:
            only = {
                "power.energy_budget_j": entry.power.energy_budget_j,
                "guards.noise_multiplier": entry.guards.noise_multiplier,
            }
            for name, value in only.items():
                if value is not None:
                    raise UserError(f"{name} is for the simulator: '{entry.label}' cannot be deployed with it")
        return chosen


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The numbers that set the pace of one algorithm, in simulated seconds unless the name says real."""

    rounds: int | None  # aggregations until the end of the experiment
    updates: int | None  # trainings until the end, for a scheme with rounds of any size
    duration_s: float | None  # until the end
    participants: int  # devices of a synchronous round, unless the experiment sets it
    period_s: float  # dT
    patience_s: float
    time_scale: float = 1.0
    poll_real_s: float = 0.5
    join_real_s: float = 120.0
    min_devices: int = 1
