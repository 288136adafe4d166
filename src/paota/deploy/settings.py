"""The few settings that only a deployment has; everything else stands in the experiment file, as for the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base import settings
from ..base.errors import UserError, unknown_name
from ..base.settings import setting
from ..experiment.experiment import AlgorithmConfig, Experiment, as_experiment
from ..experiment.files import preset_names, read_preset


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """`[tool.flwr.app.config]` of the Flower app, with hyphens in place of underscores."""

    experiment: str = "experiment.toml"  # a file inside the app's folder, or the name of a preset
    changes: str = ""  # section.key=value; section.key=value: like --set
    algorithms: str = ""  # labels to run, separated by commas; empty: all that the file names
    out: str = "runs/deployment"  # the run folder, on the machine of the ServerApp
    resume: bool = False  # go on from the checkpoint in `out`
    time_scale: float = setting(1.0, above=0)  # real seconds for each second of the experiment
    emulate_latency: bool = False  # devices wait as long as the experiment's latency model says
    patience: float = setting(5.0, above=0)  # periods without an answer after which a training is given up
    join_s: float = setting(120.0, above=0)  # real seconds to wait for the devices at the start
    min_devices: int = setting(0, low=0)  # start with so many when join_s is over; 0: all
    poll_s: float = setting(0.5, above=0)  # real seconds between two looks at the mailbox
    max_influence: float = setting(2.0, low=0)  # scale down |dw_k| above so many medians of the fleet; 0: never
    nodes: str = ""  # Flower's number of each device's node, with commas between; empty: a node says which device it is

    @classmethod
    def from_run_config(cls, run_config: Mapping[str, Any]) -> Deployment:
        known = {f.name for f in settings.fields(cls)}
        table = {key.replace("-", "_"): value for key, value in run_config.items()}
        # A Flower app may have settings of its own beside ours; those are not for us to judge.
        return settings.parse(cls, {k: v for k, v in table.items() if k in known}, "tool.flwr.app.config")

    def load(self, folder: Path) -> Experiment:
        """The experiment that the app in `folder` deploys."""
        changes = [change.strip() for change in self.changes.split(";") if change.strip()]
        if self.experiment in preset_names():
            return as_experiment(read_preset(self.experiment), changes)
        return as_experiment(folder / self.experiment, changes)

    @property
    def device_of_node(self) -> dict[int, int] | None:
        """Which device each registered node is, None if nodes say so themselves."""
        numbers = [word.strip() for word in self.nodes.split(",") if word.strip()]
        if not all(number.isdigit() for number in numbers):
            raise UserError(f"nodes must be whole numbers with commas between, not '{self.nodes[:80]}'")
        return {int(number): device for device, number in enumerate(numbers)} or None

    def chosen(self, experiment: Experiment) -> list[AlgorithmConfig]:
        by_label = {c.label: c for c in experiment.algorithms}
        wanted = [label.strip() for label in self.algorithms.split(",") if label.strip()] or list(by_label)
        for label in wanted:
            if label not in by_label:
                raise unknown_name("algorithm label", label, by_label)
        if experiment.evaluation.every_s is not None:
            raise UserError(
                "evaluation.every_s is for the simulator: a deployment judges every evaluation.every rounds"
            )
        chosen = [by_label[label] for label in dict.fromkeys(wanted)]
        for entry in chosen:
            _check_simulated(entry)
        return chosen


def _check_simulated(entry: AlgorithmConfig) -> None:
    """What the simulator alone can do: here the server is sent every model, and the air is of its own making."""
    only = {
        "power.energy_budget_j": entry.power.energy_budget_j,
        "guards.noise_multiplier": entry.guards.noise_multiplier,
    }
    for name, value in only.items():
        if value is not None:
            raise UserError(f"{name} is for the simulator: '{entry.label}' cannot be deployed with it")
