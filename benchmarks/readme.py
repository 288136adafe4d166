"""A picture and a table of a run folder. The README's:

    paota run --preset payloads --seeds 5 --out runs/payloads
    python benchmarks/readme.py runs/payloads

and that of docs/data.md:

    paota run --preset cifar10 --seeds 3 --out runs/cifar10
    python benchmarks/readme.py runs/cifar10 --target 0.5 --picture docs/img/cifar10.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

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


def picture(result: Any, target: float, path: Path) -> None:
    """Accuracy over simulated time: the median of the seeds, and the middle half."""
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    end_s = result.summary["equal_time_s"]
    seconds = np.linspace(0, end_s, 200)
    for label in (label for label in STYLES if label in result.summary["algorithms"]):
        colour, dash = STYLES[label]
        curves = []
        for t in result.of(label):
            judged = np.isfinite(t.metrics["test_accuracy"])
            curves.append(np.interp(seconds, t.metrics["time_s"][judged], t.metrics["test_accuracy"][judged]))
        low, middle, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
        axes.plot(seconds, 100 * middle, dash, color=colour, label=label, lw=2)
        axes.fill_between(seconds, 100 * low, 100 * high, color=colour, alpha=0.15, lw=0)
    axes.set(xlabel="simulated seconds", ylabel="test accuracy (%)", xlim=(0, end_s), ylim=(0, 100))
    axes.axhline(100 * target, color="0.6", lw=0.8)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def table(result: Any, target: float) -> str:
    """Markdown: when each algorithm reaches the target, and how far all are after equal rounds and equal time."""
    summary = result.summary
    columns = (f"{target:.0%} after (s)".replace("%", " %"), "rounds", f"after {summary['equal_rounds']} rounds",
               f"after {summary['equal_time_s']:.0f} s")  # fmt: skip
    lines = [f"| | {' | '.join(columns)} |", "|---|--:|--:|--:|--:|"]
    for label, row in summary["algorithms"].items():
        reach, rounds = row["seconds_to"][str(target)], row["rounds_to"][str(target)]
        never = reach["median"] is None
        cells = (
            "never" if never else f"{reach['median']:.0f} ({_number(reach['q25'])} to {_number(reach['q75'])})",
            "" if never else f"{rounds['median']:.0f}",
            f"{row['accuracy_at_equal_rounds']['median']:.1%}",
            f"{row['accuracy_at_equal_time']['median']:.1%}",
        )
        lines.append(f"| `{label}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", type=float, default=0.8, help="one of the run's targets")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "img" / "accuracy.png")
    args = parser.parse_args()
    result = paota.load(args.folder)
    picture(result, args.target, args.picture)
    print(table(result, args.target))


if __name__ == "__main__":
    main()
