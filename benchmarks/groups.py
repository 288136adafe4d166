"""Compare algorithms that group devices by speed, with one constant latency per device. Prints the table of docs/algorithms.md.

    python benchmarks/groups.py [--seeds 15]

All settings are defaults; nothing is tuned. Seeds start at 20. A seed that never reaches the target counts as the whole duration.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from field import SETTINGS, interval

import paota

FIRST_SEED = 20
LINES: tuple[dict[str, Any], ...] = (
    {"name": "air-fedga", "label": "`air-fedga`"},
    {"name": "air-fedga", "label": "`air-fedga`, `mixing = 1`", "mixing": 1.0},
    {"name": "fedat", "label": "`fedat`"},
    {"name": "tt-fed", "label": "`tt-fed`"},
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=15)
    args = parser.parse_args()
    setting = SETTINGS["fixed-speeds"]
    print(f"| | s to {setting.target:.0%} | reached | accuracy at {setting.duration_s:.0f} s (%) |\n|---|--:|--:|--:|")
    for line in LINES:
        result = paota.run(setting.experiment("groups", FIRST_SEED, line), seeds=args.seeds)
        seeds = [setting.measures(run) for run in result.trajectories]
        times, got = setting.seconds(seeds), sum(seed["time_s"] is not None for seed in seeds)
        final = 100 * np.mean([setting.accuracy_after(seed, setting.duration_s) for seed in seeds])
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
