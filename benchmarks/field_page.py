"""Draw docs/field.md's figures and summary from the CSV files that benchmarks/field.py writes.

    python benchmarks/field_page.py        # needs Matplotlib: pip install '.[paper]'

Each setting becomes a forest plot: the mean time to the target with its 95 % interval, and the paired difference to PAOTA+.
An algorithm has one line, for its tuned variant where there is one. A hollow mark is a lower bound.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from field import REFERENCE, SETTINGS, between

from paota.base.files import write_text

DOCS = Path(__file__).parent.parent / "docs"
COLUMNS = {  # of the summary: algorithms of which the first that is there is shown, and whether tuned
    "PAOTA": (("paota",), False), "PAOTA+": (("paota-plus",), False), "Local SGD": (("local-sgd",), False),
    "COTAF": (("cotaf",), False), "over-selection": (("cotaf", "threshold"), True),
}  # fmt: skip


def read(setting: str, *, tuned: bool = True) -> dict[str, dict[str, str]]:
    """The line of every algorithm: that of its tuned variant, if there is one, or that of its default."""
    with (DOCS / "data" / f"field-{setting}.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if tuned or line["variant"] == "default"]
    return {line["algorithm"]: line for line in lines}


def draw(setting: str) -> None:
    """Write the forest plot of a setting."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "paota", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    lines = sorted(read(setting).values(), key=lambda line: float(line["seconds"]), reverse=True)
    figure, (left, right) = plt.subplots(
        1, 2, sharey=True, figsize=(7.6, 0.8 + 0.26 * len(lines)), layout="constrained", width_ratios=(3, 2)
    )
    for y, line in enumerate(lines):
        whole = line["reached"] == line["seeds"]
        colour = "#D55E00" if line["algorithm"] == REFERENCE else "#0072B2"
        style = {"fmt": "o", "ms": 5, "color": colour, "mfc": colour if whole else "white", "lw": 1.4}
        left.errorbar(float(line["seconds"]), y, xerr=float(line["seconds_interval"]), **style)
        if line["difference_s"]:
            right.errorbar(float(line["difference_s"]), y, xerr=float(line["difference_interval"]), **style)
    left.set_yticks(range(len(lines)), [line["algorithm"] for line in lines])
    left.set_xlabel(f"simulated seconds to {SETTINGS[setting].target:.0%}")
    right.set_xlabel(f"seconds more than {REFERENCE}, paired")
    right.axvline(0, color="0.5", lw=0.8)
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "img" / f"field-{setting}.svg", metadata={"Date": None})
    plt.close(figure)


def summary() -> str:
    """Mean seconds to the target in every setting, as Markdown; a lower bound where a seed never reached it."""
    lines = [f"| setting | {' | '.join(COLUMNS)} |", "|---|" + "--:|" * len(COLUMNS)]
    for setting in SETTINGS:
        cells = [_cell(read(setting, tuned=tuned), names) for names, tuned in COLUMNS.values()]
        lines.append(f"| `{setting}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: dict[str, dict[str, str]], names: tuple[str, ...]) -> str:
    line = next((found[name] for name in names if name in found), None)
    if line is None:
        return "–"
    sign = "≥ " if line["reached"] != line["seeds"] else ""
    return f"{sign}{line['seconds']} ± {line['seconds_interval']}"


def main() -> int:
    for setting in SETTINGS:
        draw(setting)
    page = DOCS / "field.md"
    write_text(page, between(page.read_text(encoding="utf-8"), summary(), "field summary"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
