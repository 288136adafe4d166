"""Compare algorithms that group devices by speed, with one constant latency per device. Prints the table of docs/algorithms.md.

    python benchmarks/groups.py [--seeds 15]

All settings are defaults; nothing is tuned. Seeds start at 20. A seed that never reaches the target counts as the whole duration.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from field import interval

import paota
from paota.results.measures import final_accuracy, reach

TARGET, DURATION_S = 0.8, 600.0
TABLE: dict[str, Any] = {
    "duration_s": DURATION_S, "seed": 20, "timing": {"latency": "per-device"}, "air": {"digital": "ofdma"},
    "evaluation": {"every_s": 4.0, "train_loss": "batches"},
}  # fmt: skip
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
    print(f"| | s to {TARGET:.0%} | reached | accuracy at {DURATION_S:.0f} s (%) |\n|---|--:|--:|--:|")
    for line in LINES:
        runs = paota.run({**TABLE, "algorithms": [line]}, seeds=args.seeds).trajectories
        times = np.minimum([reach(run, TARGET) for run in runs], DURATION_S)
        got = int(np.sum(times < DURATION_S))
        final = 100 * np.mean([final_accuracy(run) for run in runs])
        never = "" if got == len(runs) else "≥ "
        cells = (
            line["label"],
            f"{never}{times.mean():.0f} ± {interval(times):.0f}",
            f"{got} of {len(runs)}",
            f"{final:.1f}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
