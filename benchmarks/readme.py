"""The table of the README, from a run folder, and on request its picture:

    paota run --preset payloads --seeds 5 --out runs/payloads
    python benchmarks/readme.py runs/payloads
    python benchmarks/readme.py runs/payloads --picture docs/img/accuracy.png    # needs matplotlib: pip install '.[paper]'

Only `--picture` writes a file.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

import paota

TARGET = 0.8
STYLES = {
    "paota-update": ("#D55E00", "-"),
    "paota": ("#0072B2", "-"),
    "local-sgd": ("#009E73", "--"),
    "cotaf": ("#CC79A7", ":"),
    "paota-plus": ("#0072B2", "-"),
    "over-selection": ("#CC79A7", ":"),
    "fedbuff": ("#E69F00", "-."),
}


def table(result: paota.Result, target: float) -> str:
    """Return time to the target, and accuracy after equal rounds and equal time, as Markdown."""
    summary = result.summary
    rounds, seconds = f"after {summary['equal_rounds']} rounds", f"after {summary['equal_time_s']:.0f} s"
    lines = [f"| | {target:.0%} after (s) | rounds | {rounds} | {seconds} |", "|---|--:|--:|--:|--:|"]
    for label, row in summary["algorithms"].items():
        times = [row["seconds_to"][f"{target:g}"][key] for key in ("median", "q25", "q75")]
        middle, low, high = map(_shown, times)
        cells = (
            f"{middle} ({low} to {high})" if len(summary["seeds"]) > 1 else middle,
            _shown(row["rounds_to"][f"{target:g}"]["median"]),
            f"{row['accuracy_at_equal_rounds']['median']:.1%}",
            f"{row['accuracy_at_equal_time']['median']:.1%}",
        )
        lines.append(f"| `{label}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else "never"


def draw(result: paota.Result, target: float, file: Path) -> None:
    """Draw test accuracy against simulated seconds: median and quartiles over the seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    end_s = result.summary["equal_time_s"]
    seconds = np.linspace(0, end_s, 200)
    highest = 0.0
    for label in result.labels:
        colour, dash = STYLES.get(label, (None, "-"))
        curves = []
        for t in result.of(label):
            judged = np.isfinite(t.metrics["test_accuracy"])
            curves.append(np.interp(seconds, t.metrics["time_s"][judged], t.metrics["test_accuracy"][judged]))
        low, middle, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
        highest = max(highest, 100 * float(high.max()))
        (line,) = axes.plot(seconds, 100 * middle, dash, color=colour, label=label, lw=2)
        axes.fill_between(seconds, 100 * low, 100 * high, color=line.get_color(), alpha=0.15, lw=0)
    axes.set(xlabel="simulated seconds", ylabel="test accuracy (%)", xlim=(0, end_s))
    axes.set_ylim(0, min(100, 10 * math.ceil(highest / 10 + 0.5)))
    axes.axhline(100 * target, color="0.6", lw=0.8)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=130)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a run folder")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="also draw the picture into this file")
    parser.add_argument("--target", type=float, default=TARGET, help="the accuracy whose times are shown")
    args = parser.parse_args(arguments)
    target = args.target
    try:
        result = paota.load(args.folder)
        if f"{target:g}" not in {f"{known:g}" for known in result.experiment.targets}:
            raise paota.UserError(
                f"'{args.folder}' has no target of {target:.0%}: run it with {target:g} among its targets"
            )
        if args.picture is not None:
            draw(result, target, args.picture)
    except paota.UserError as error:
        print(error, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"--picture needs {error.name}: pip install '.[paper]'", file=sys.stderr)
        return 2
    print(table(result, target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
