"""The picture and the table of the README, from a run folder:

paota run --preset payloads --seeds 5 --out runs/payloads
python benchmarks/readme.py runs/payloads
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import paota

ROOT = Path(__file__).parents[1]
STYLES = {
    "paota-update": ("#D55E00", "-"),
    "paota": ("#0072B2", "-"),
    "local-sgd": ("#009E73", "--"),
    "cotaf": ("#CC79A7", ":"),
}


def main(folder: str) -> None:
    result = paota.load(folder)
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    end_s = result.summary["equal_time_s"]
    seconds = np.linspace(0, end_s, 200)
    for label, (colour, dash) in STYLES.items():
        curves = np.array(
            [np.interp(seconds, t.metrics["time_s"], t.metrics["test_accuracy"]) for t in result.of(label)]
        )
        low, middle, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
        axes.plot(seconds, 100 * middle, dash, color=colour, label=label, lw=2)
        axes.fill_between(seconds, 100 * low, 100 * high, color=colour, alpha=0.15, lw=0)
    axes.set(xlabel="simulated seconds", ylabel="test accuracy (%)", xlim=(0, end_s), ylim=(0, 100))
    axes.axhline(80, color="0.6", lw=0.8)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs" / "img" / "accuracy.png", dpi=130)
    print("| | 80 % after (s) | rounds | after 100 rounds | after 800 s |\n|---|--:|--:|--:|--:|")
    for label, row in result.summary["algorithms"].items():
        reach = row["seconds_to"]["0.8"]
        cells = (
            f"{reach['median']:.0f} ({reach['q25']:.0f} to {reach['q75']:.0f})",
            f"{row['rounds_to']['0.8']['median']:.0f}",
            f"{row['accuracy_at_equal_rounds']['median']:.1%}",
            f"{row['accuracy_at_equal_time']['median']:.1%}",
        )
        print(f"| `{label}` | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(sys.argv[1])
