"""Measure the gain of running seeds in parallel: `python benchmarks/side_by_side.py`

It alternates between four seeds of PAOTA one after another and the same seeds in parallel, one per core, and prints the ratio
of the wall times: for the paper's setting, for 20 devices, and for 10 devices on synthetic data.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from paota import simulate
from paota.base import system
from paota.experiment.experiment import Experiment

SETTINGS = {
    "the paper's setting": {"devices": 100},
    "20 devices": {"devices": 20},
    "10 devices, made-up data": {"dataset": "synthetic", "devices": 10},
}


def seconds(plan: simulate.PreparedRun, cores: int) -> float:
    os.environ["OMP_NUM_THREADS"] = str(cores)
    begin = time.perf_counter()
    simulate.execute(plan)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    cores = system.cores()
    for name, data in SETTINGS.items():
        table = {
            "rounds": args.rounds,
            "data": data,
            "evaluation": {"train_loss": "batches"},
            "algorithms": [{"name": "paota"}],
        }
        plan = simulate.prepare(Experiment.from_dict(table), seeds=4)
        seconds(plan, cores)  # compile, fill the caches
        ratios = [seconds(plan, 1) / seconds(plan, cores) for _ in range(args.repeats)]
        low, median, high = np.quantile(ratios, [0.1, 0.5, 0.9])
        print(f"{name}: {median:.2f} times faster side by side on {cores} cores ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
