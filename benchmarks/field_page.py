"""Draw docs/field.md's figures and tables from the CSV files that benchmarks/field.py writes.

    python benchmarks/field_page.py        # needs Matplotlib: pip install '.[paper]'

Each setting becomes a forest plot: the mean time to the target with its 95 % interval, and the paired difference to PAOTA+.
A rival has one line, for its best trial. A hollow mark is a lower bound. The summary calls a rival quicker or slower if the
paired difference is significant at 5 % after Holm's correction for all comparisons of the table.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from field_settings import SETTINGS

from paota.base.files import write_text

DOCS = Path(__file__).parent.parent / "docs"
REFERENCE = "paota-plus"
COLUMNS = {  # of the summary: algorithms, of which the quickest is shown, and whether tuned
    "PAOTA": (("paota",), False), "Local SGD": (("local-sgd",), False), "COTAF": (("cotaf",), False),
    "PAOTA+": ((REFERENCE,), False), "best tuned rival": ((), True),
}  # fmt: skip
SIGNIFICANT = 0.05

Line = dict[str, str]


def between(text: str, made: str, mark: str) -> str:
    """Return `text` with `made` between the two markers of that name."""
    first, last = (f"<!-- {mark}: {edge} -->" for edge in ("begin", "end"))
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise SystemExit(f"the file needs the markers {first} and {last}")
    return f"{before}{first}\n{made}\n{last}{after}"


def read(setting: str, *, tuned: bool = True) -> dict[str, Line]:
    """Return the line of every algorithm: that of its best trial, or that of its default."""
    with (DOCS / "data" / f"field-{setting}.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if tuned or line["variant"] == "default"]
    return {line["algorithm"]: line for line in lines}


def rivals(setting: str) -> list[Line]:
    """Return the tuned rivals of PAOTA+, the quickest first."""
    lines = [line for name, line in read(setting).items() if not name.startswith(REFERENCE)]
    return sorted(lines, key=lambda line: float(line["seconds"]))


def holm(p_values: dict[str, float]) -> dict[str, bool]:
    """Return which of the comparisons are significant together (Holm 1979)."""
    found, alive = {}, True
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        alive = alive and p_values[name] <= SIGNIFICANT / (len(p_values) - rank)
        found[name] = alive
    return found


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
        colour = "#D55E00" if line["algorithm"].startswith(REFERENCE) else "#0072B2"
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
    """Return the mean seconds to the target in every setting as Markdown; a lower bound where a seed never reached it."""
    best = {setting: rivals(setting)[0] for setting in SETTINGS}
    different = holm({setting: float(line["p_value"]) for setting, line in best.items()})
    lines = [f"| setting | {' | '.join(COLUMNS)} |", "|---|" + "--:|" * len(COLUMNS)]
    for setting in SETTINGS:
        cells = []
        for names, tuned in COLUMNS.values():
            line = best[setting] if tuned else read(setting, tuned=False)[names[0]]
            cells.append(seconds(line) + (f" ({line['algorithm']})" if tuned else ""))
        if different[setting]:
            quicker = 3 if float(best[setting]["difference_s"]) > 0 else 4
            cells[quicker] = f"**{cells[quicker]}**"
        lines.append(f"| [`{setting}`](#{setting}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds(line: Line) -> str:
    """Return the time to the target as `85 ± 4`, with ≥ for a lower bound."""
    digits = ".1f" if float(line["seconds"]) < 10 else ".0f"
    sign = "≥ " if line["reached"] != line["seeds"] else ""
    return f"{sign}{float(line['seconds']):{digits}} ± {float(line['seconds_interval']):{digits}}"


def section(setting: str) -> str:
    """Return the section of a setting as Markdown: its figure, its protocol and its command."""
    judged = SETTINGS[setting]
    best = rivals(setting)[0]
    chose = "Seeds 0 to 4 of this setting chose constants of PAOTA+." if judged.chose else "This setting chose nothing."
    return "\n".join((
        f"### {judged.words[0].upper()}{judged.words[1:]} {{ #{setting} }}", "",
        f"![Forest plot of the time to the target and of the paired difference to PAOTA+, setting {setting}]"
        f"(img/field-{setting}.svg)", "",
        f"Best rival: `{best['algorithm']}` with {best['variant']}. {chose}", "",
        f"15 seeds (1000 to 1014), {judged.duration_s:.0f} s, {judged.target:.0%}, cap `physical`, 64 trials per rival. "
        f"[All numbers as CSV](data/field-{setting}.csv).", "",
        "```sh", f"python benchmarks/field.py {setting}", "```",
    ))  # fmt: skip


def main() -> int:
    for setting in SETTINGS:
        draw(setting)
    page = DOCS / "field.md"
    text = between(page.read_text(encoding="utf-8"), summary(), "field summary")
    write_text(page, between(text, "\n\n".join(map(section, SETTINGS)), "field settings"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
