"""Classes of real devices: how fast they compute at best, and what they draw meanwhile.

`peak_gflop_per_s` is arithmetic: cores of the fast cluster x clock x single-precision operations a cycle (a fused
multiply-add is two; 8 a cycle for Cortex-A53, A72 and A73, 16 for A7xx, 32 for X3 and for AVX2). Training reaches a share
of it, `timing.efficiency`. `power_w` is of the chip or board under load. docs/timing.md tells which of these are sources
and which assumptions.
"""

from __future__ import annotations

from typing import NamedTuple


class DeviceClass(NamedTuple):
    """One class of devices, after one example."""

    peak_gflop_per_s: float
    power_w: float
    example: str
    source: str


DEVICE_CLASSES = {
    "phone-entry": DeviceClass(
        64.0, 3.0, "4 Cortex-A53 at 2.0 GHz",
        "speed: 4 x 2.0 GHz x 8; power: assumed",
    ),
    "phone-mid": DeviceClass(
        78.4, 5.0, "Galaxy S8, Snapdragon 835: 4 Kryo 280 at 2.45 GHz",
        "clock and power: Tencent/FeatherCNN, wiki page Benchmarks; speed: 4 x 2.45 GHz x 8",
    ),
    "phone-flagship": DeviceClass(
        281.6, 6.0, "Snapdragon 8 Gen 2: 1 Cortex-X3 at 3.2 GHz, 4 Cortex-A71x at 2.8 GHz",
        "clocks: Qualcomm's announcement of 2022; speed: 3.2 GHz x 32 + 4 x 2.8 GHz x 16; power: assumed",
    ),
    "board": DeviceClass(
        48.0, 6.4, "Raspberry Pi 4: 4 Cortex-A72 at 1.5 GHz",
        "power: 1280 mA at 5 V under stress on all cores, pidramble.com; speed: 4 x 1.5 GHz x 8",
    ),
    "laptop": DeviceClass(
        556.8, 45.0, "Core i9-8950HK: 6 cores at 2.9 GHz",
        "power: Intel's TDP; speed: 6 x 2.9 GHz x 32",
    ),
}  # fmt: skip
