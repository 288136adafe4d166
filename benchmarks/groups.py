"""Rules that group devices by speed, where speeds last: one latency a device for life. Prints the table of docs/algorithms.md.

    python benchmarks/groups.py [--seeds 15]

Defaults, nothing tuned. Seeds from 20 on, as in `benchmarks/field.py`; whoever never gets there counts as the whole duration.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from field import DURATION_S, GRID_S, SETTINGS, TARGET, accuracy_after, interval, measures, seconds

import paota

FIRST_SEED = 20
LINES: tuple[dict[str, Any], ...] = (
    {"name": "air-fedga", "label": "`air-fedga`, plain groups"},
    {"name": "air-fedga", "label": "`air-fedga`, plain groups, `mixing = 1`", "mixing": 1.0},
    {"name": "air-fedga", "label": "`air-fedga`, `reach = 2`: by speed and data", "reach": 2},
    {"name": "air-fedga", "label": "`air-fedga`, `reach = 2`, `mixing = 1`", "reach": 2, "mixing": 1.0},
    {"name": "fedat", "label": "`fedat`"},
    {"name": "tt-fed", "label": "`tt-fed`"},
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=15)
    args = parser.parse_args()
    print(f"| | s to {TARGET:.0%} | got there | accuracy at {DURATION_S:.0f} s (%) |\n|---|--:|--:|--:|")
    for line in LINES:
        experiment = {
            "name": "groups", "duration_s": DURATION_S, "seed": FIRST_SEED, **SETTINGS["fixed-speeds"],
            "evaluation": {"every_s": GRID_S, "train_loss": "batches"}, "algorithms": [line],
        }  # fmt: skip
        seeds = [measures(run) for run in paota.run(experiment, seeds=args.seeds).trajectories]
        times, got = seconds(seeds), sum(seed["time_s"] is not None for seed in seeds)
        final = 100 * np.mean([accuracy_after(seed, DURATION_S) for seed in seeds])
        never = "" if got == len(seeds) else "≥ "
        cells = (
            line["label"],
            f"{never}{times.mean():.0f} ± {interval(times):.0f}",
            f"{got} of {len(seeds)}",
            f"{final:.1f}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
