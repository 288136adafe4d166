"""Measure the overhead of a training in a deployment, from the order to the answer, on this machine.

    python benchmarks/deployed.py [--devices 5 20] [--rounds 8] [--only paota]

All devices get an order at once and train for some milliseconds, so nearly all time is overhead of Flower and paota. Two
set-ups are measured: Flower's default (one process per message, polling every 3 s), and `paota deploy` (forked client
processes and a persistent trainer). Processor time is that of all processes together, counted by a separate control group
(Linux, as root; NaN elsewhere).
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import paota
from paota.deploy.launch import run_here, write_app

GROUPS = [Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup")]
LABEL = "local-sgd"
WAYS = {"flower": "as Flower starts them", "paota": "as `paota deploy` does"}


def experiment(devices: int, rounds: int) -> paota.Experiment:
    """Synchronous rounds of all devices with one small step each, without a timeout."""
    return paota.Experiment.from_dict(
        {
            "name": "overhead", "rounds": rounds, "data": {"dataset": "synthetic", "devices": devices, "sizes": [40]},
            "model": {"name": "softmax"}, "training": {"local_steps": 1, "batch_size": 8},
            "timing": {"period_s": 300.0}, "evaluation": {"every": rounds},
            "algorithms": [{"name": LABEL, "participants": devices}],
        }
    )  # fmt: skip


class Meter:
    """Measure the processor seconds of this process and of all processes that it starts."""

    def __init__(self) -> None:
        self.group: Path | None = None
        for root in GROUPS:
            with suppress(OSError):
                group = root / f"paota-{os.getpid()}"
                group.mkdir(exist_ok=True)
                (group / "cgroup.procs").write_text(str(os.getpid()))
                self.group = group
                break

    def __call__(self) -> float:
        if self.group is None:
            return float("nan")
        with suppress(OSError):
            return int((self.group / "cpuacct.usage").read_text()) / 1e9
        lines = (self.group / "cpu.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6


def deploy(
    devices: int, rounds: int, meter: Meter, *, warm: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return (seconds of every training, seconds of every round, processor seconds per training) after the first round."""
    used = {}

    def show(line: str) -> None:
        if line.startswith(f"{LABEL} round "):
            used[int(line.split()[2])] = meter()

    with tempfile.TemporaryDirectory(prefix="paota-overhead-") as folder:
        work = Path(folder)
        config = {"out": str(work / "run"), "emulate-latency": False, "poll-s": 0.05, "join-s": 600.0}
        write_app(work / "app", experiment(devices, rounds), config)
        run_here(work / "app", work / "federation", devices=devices, run_config={}, warm=warm, show=show)
        result = paota.load(work / "run")
    table = result.devices
    seconds = (table["finish_s"] - table["start_s"])[table["round"] > 1]
    # The last round also contains an evaluation, which is no cost of a training.
    processor_s = (used[rounds - 1] - used[1]) / (devices * (rounds - 2))
    return seconds, np.diff(result.metrics["time_s"])[1:], processor_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", choices=WAYS, help="one of the two ways (default: both)")
    args = parser.parse_args()
    meter = Meter()
    print("| devices | client processes | order to answer (longest) | a round, over its devices | processor time |")
    print("|--:|---|--:|--:|--:|")
    for devices in args.devices:
        for way in [args.only] if args.only else WAYS:
            trainings, rounds, processor_s = deploy(devices, args.rounds, meter, warm=way == "paota")
            whole = f"{np.median(trainings):.2f} s ({trainings.max():.2f} s) | {np.median(rounds) / devices:.2f} s"
            print(f"| {devices} | {WAYS[way]} | {whole} | {processor_s:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
