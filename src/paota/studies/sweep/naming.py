"""Settings as people call them: `timing.period_s` is the period, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...experiment.reference import UNITS
from .grid import Axis, show

# Where the key alone says too little; the paper's symbols with them.
NAMES = {
    "seed": "first seed",
    "data.devices": "number of devices K",
    "model.name": "model",
    "model.hidden": "hidden layers",
    "training.local_steps": "local steps M",
    "training.learning_rate": "learning rate η",
    "training.optimiser": "local optimiser",
    "timing.period_s": "period ΔT",
    "timing.low_s": "shortest latency",
    "timing.high_s": "longest latency",
    "server.optimiser": "server optimiser",
    "air.n0_dbm_per_hz": "noise density N₀",
    "air.bandwidth_hz": "bandwidth B",
    "power.max_power_w": "power limit",
    "power.method": "power control",
    "power.omega": "staleness constant Ω",
    "power.smoothness": "smoothness L",
    "evaluation.every": "rounds between looks",
}


def setting_name(key: str) -> str:
    """`timing.period_s` -> `period ΔT`; of one algorithm, with its label before it: `mine: payload`."""
    if key.startswith("algorithms."):
        _, label, own = key.split(".", 2)
        return f"{label}: {setting_name(own)}"
    last = key.rpartition(".")[2]
    return NAMES.get(key) or last.removesuffix(_suffix(last)).replace("_", " ")


def setting_unit(key: str) -> str:
    """`s`, `dBm/Hz`, ...; empty if it has none."""
    return UNITS.get(_suffix(key), "")


def titled(key: str) -> str:
    """For an axis or a column: `period ΔT (s)`."""
    unit = setting_unit(key)
    return f"{setting_name(key)} ({unit})" if unit else setting_name(key)


def named_place(axes: Sequence[Axis], values: Sequence[Any]) -> str:
    """`period ΔT = 6 s, seed = 3`: one combination in words."""
    units = (setting_unit(axis.key) for axis in axes)
    parts = zip(axes, values, units, strict=True)
    return ", ".join(
        f"{setting_name(axis.key)} = {show(value)}{f' {unit}' if unit else ''}" for axis, value, unit in parts
    )


def _suffix(key: str) -> str:
    """How the key ends, if that is a unit: `_s`, `_dbm_per_hz`, ..."""
    return next((end for end in UNITS if key.endswith(end)), "")
