"""The settings of the field: what all rivals have in common, and how they are judged.

Ten settings chose PAOTA+'s constants, on seeds 0 to 4; the others chose nothing. The reported seeds chose nothing anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import paota
from paota.base.settings import setting
from paota.base.types import Floats, Ints
from paota.data.partition import Paper
from paota.results.measures import final_accuracy, reach
from paota.results.result import Trajectory

# A handset of 23 dBm: 0.2 W is the mean power of a digital sender, and of an analog one too, whose limit is on the sum
# over its 8070 symbols.
HANDSET_W, SYMBOLS = 0.2, 8070
DAY_S, ABSENT_S = 200.0, 80.0  # of the fleet: every device is away for 80 s of each 200 s, at an hour of its own
DAY_AND_NIGHT = Path("runs/day-and-night.csv")
FASHION = Path("/usr/share/datasets/fashion-mnist")  # of the Debian package dataset-fashion-mnist


@dataclass(frozen=True, kw_only=True)
class Weibull:
    """A Weibull law: with a shape below 1 most trainings are short and a few are very long."""

    shape: float = setting(0.7, above=0, doc="Shape of the Weibull law.")
    mean_s: float = setting(10.0, above=0, doc="Mean duration of a training.")

    def draw(self, rng: np.random.Generator, fixed: np.random.Generator, training: int, devices: int) -> Floats:
        scale_s = self.mean_s / math.gamma(1 + 1 / self.shape)
        return np.maximum(scale_s * rng.weibull(self.shape, devices), 1e-3)


@dataclass(frozen=True, kw_only=True)
class SplitClasses(Paper):
    """The paper's split, but the first half of the devices holds the upper half of the classes and no other."""

    classes_per_device: int = setting(3, low=1, doc="Classes that a device holds.")

    def _classes(self, device: Ints, devices: int, classes: int, per_device: int, rng: np.random.Generator) -> Ints:
        chosen = super()._classes(device, devices, classes // 2, per_device, rng)
        return chosen + (classes // 2) * (device < devices // 2)[:, None]


paota.register("latency", "weibull", Weibull)
paota.register("partition", "split-classes", SplitClasses)


def write_day_and_night(file: Path = DAY_AND_NIGHT, devices: int = 100) -> None:
    """Write the fleet's file: each device leaves at an hour of its own and comes back `ABSENT_S` later."""
    leaves_s = np.random.default_rng(7).uniform(0, DAY_S, devices)
    lines = ["device,time_s,available"]
    for device, leave_s in enumerate(leaves_s):
        back_s = (leave_s + ABSENT_S) % DAY_S
        lines.append(f"device-{device},0,{int(back_s > leave_s)}")
        lines += [f"device-{device},{at_s:.3f},{here}" for at_s, here in sorted([(leave_s, 0), (back_s, 1)])]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def two_speeds(share: float, low_s: float, high_s: float) -> dict[str, Any]:
    """A share of the devices takes `low_s` to `high_s`, the others take 5 to 15 s."""
    return {
        "latency": "two-speeds", "slow_share": share, "slow_low_s": low_s, "slow_high_s": high_s,
        "low_s": 5.0, "high_s": 15.0,
    }  # fmt: skip


PLAIN: dict[str, Any] = {"air": {"digital": "ofdma"}, "power": {"cap": "physical"}}


@dataclass(frozen=True)
class Setting:
    """A setting that all rivals share, and how they are judged in it.

    Args:
        words: the setting in a few words.
        table: sections of an experiment file.
        chose: whether the setting chose constants of PAOTA+, on seeds 0 to 4.
        target: test accuracy.
        duration_s: end of a run in simulated seconds.
        grid_s: seconds between two evaluations.
        symbol_power: whether the power limit of an over-the-air sender is on the sum over its symbols.
    """

    words: str
    table: dict[str, Any]
    chose: bool = False
    target: float = 0.8
    duration_s: float = 600.0
    grid_s: float = 1.0
    symbol_power: bool = False

    @property
    def devices(self) -> int:
        """K."""
        return int(self.table.get("data", {}).get("devices", 100))

    def experiment(self, name: str, seed: int, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the table of settings in which these entries run until they reach the target."""
        sections = {key: {**PLAIN.get(key, {}), **self.table.get(key, {})} for key in {*PLAIN, *self.table}}
        return {
            "name": name, "duration_s": self.duration_s, "seed": seed, **sections, "algorithms": list(entries),
            "evaluation": {"every_s": self.grid_s, "train_loss": "batches", "stop_at": self.target},
        }  # fmt: skip

    def measures(self, run: Trajectory) -> dict[str, Any]:
        """Return the kept results of one run: the costs at the target (null: never reached), and the last accuracy."""
        metrics = run.metrics
        totals = {
            "time_s": metrics["time_s"],
            "updates": np.cumsum(metrics["ready"]),
            "computed_j": np.cumsum(metrics["compute_j"]),
            "airtime_ms": 1e3 * np.cumsum(metrics["airtime_s"]),
        }
        reached = {name: reach(run, self.target, total) for name, total in totals.items()}
        kept: dict[str, Any] = {name: value if math.isfinite(value) else None for name, value in reached.items()}
        return {**kept, "accuracy": final_accuracy(run)}

    def seconds(self, seeds: Sequence[dict[str, Any]]) -> Floats:
        """Return the seconds to the target, [seeds]; a seed that never reaches it counts as the whole duration."""
        return np.array([self.duration_s if seed["time_s"] is None else seed["time_s"] for seed in seeds])


SETTINGS = {
    "paper": Setting("the paper's setting", {}, chose=True),
    "street": Setting(
        "a street: path loss, weak signals, channel errors",
        {
            "air": {"path_loss": "umi", "n0_dbm_per_hz": -167.0, "csi_error": 0.01, "phase_error_rad": 0.05},
            "power": {"max_power_w": HANDSET_W},
        },
        symbol_power=True,
    ),
    "fixed-speeds": Setting("each device keeps its speed", {"timing": {"latency": "per-device"}}, chose=True),
    "lognormal": Setting("lognormal latencies", {"timing": {"latency": "lognormal"}}),
    "half-slow": Setting("half of the devices ten times slower", {"timing": two_speeds(0.5, 50, 150)}, chose=True),
    "slow-unique": Setting(
        "slow devices hold a class of their own",
        {
            "data": {"partition": "rare-class", "rare_class": 9, "holders": 0.3},
            "timing": {"latency": "two-speeds", "slow_share": 0.3},
        },
        chose=True,
    ),
    "weibull": Setting("Weibull latencies, shape 0.7", {"timing": {"latency": "weibull"}}, chose=True, grid_s=0.25),
    "fashion": Setting(
        "Fashion-MNIST, Dirichlet 0.3",
        {"data": {"dataset": str(FASHION), "partition": "dirichlet", "concentration": 0.3}},
        chose=True, target=0.7, duration_s=900.0,
    ),
    "iid": Setting("IID data", {"data": {"partition": "iid"}}),
    "k30": Setting("30 devices", {"data": {"devices": 30}}, chose=True),
    "k400": Setting("400 devices", {"data": {"devices": 400}}, chose=True),
    "one-step": Setting("one local step", {"training": {"local_steps": 1}}, target=0.6),
    "twenty-steps": Setting("20 local steps", {"training": {"local_steps": 20}}, grid_s=0.5),
    "slow-half-of-classes": Setting(
        "half three times slower, with half of the classes",
        {"data": {"partition": "split-classes"}, "timing": two_speeds(0.5, 15, 45)},
        chose=True, duration_s=900.0,
    ),
    "slow-one-class": Setting(
        "5 % ten times slower, with one class",
        {
            "data": {"partition": "rare-class", "rare_class": 9, "holders": 0.05},
            "timing": two_speeds(0.05, 50, 150),
        },
        chose=True, duration_s=900.0,
    ),
    "fleet": Setting(
        "a fleet with day and night", {"timing": {"fleet_file": str(DAY_AND_NIGHT), "fleet_repeat_s": DAY_S}}
    ),
    "dropout": Setting("20 % of the trainings are lost", {"faults": {"dropout": 0.2}}),
}  # fmt: skip
