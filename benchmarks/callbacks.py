"""Measure the cost of an empty callback: `python benchmarks/callbacks.py [--repeats 10] [--rounds 400]`.

The same run alternates between no callback and a callback with empty hooks. The processor time of all threads is measured.
The output is the ratio of the medians, and the quartiles of the ratio of neighbours.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from paota import Callback, Round, simulate
from paota.experiment.experiment import Experiment


class Idle(Callback):
    """A callback whose hooks do nothing."""

    def round(self, round: Round) -> None:
        """Do nothing."""


def processor_s(plan: simulate.PreparedRun, callbacks: list[Any]) -> float:
    begin = time.process_time()
    simulate.execute(plan, callbacks=callbacks)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=400)
    args = parser.parse_args()
    table = {"rounds": args.rounds, "evaluation": {"train_loss": "batches"}, "algorithms": [{"name": "paota"}]}
    plan = simulate.prepare(Experiment.from_dict(table))
    processor_s(plan, [])  # compile
    times = np.array([[processor_s(plan, []), processor_s(plan, [Idle()])] for _ in range(args.repeats)])
    ratios = times[:, 1] / times[:, 0]
    alone, listened = 1e3 * np.median(times, axis=0) / args.rounds
    print(f"processor ms a round: {alone:.3f} alone, {listened:.3f} listened to; ratio {listened / alone:.3f}")
    print(f"ratio of neighbours: {np.quantile(ratios, 0.25):.3f} to {np.quantile(ratios, 0.75):.3f}")


if __name__ == "__main__":
    main()
