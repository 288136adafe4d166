"""Write docs/reproduce.md and its pictures: python docs/_build/reproduce_page.py DIR

DIR is the output folder of `paota reproduce`. The page shows the parts on which verdicts depend; DIR/report.html shows all.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parents[1]
PICTURES = {  # names in the output folder and in docs/img
    "fig2-workflow": "workflow",
    "fig3-gap": "paper-gap",
    "fig4-accuracy": "paper-accuracy",
    "noise": "paper-noise",
}
DATA = ("verdicts", "trials", "table1", "accuracy", "curves", "noise", "breaks")  # CSV files for docs/data
SECTIONS = ("Verdicts", "Table I", "Where does each method break?")  # shown whole
FIGURES = ("Fig. 3: convergence", "Fig. 4: test accuracy", "The noise sweep")  # the head of the page explains them
TABLES = {"More tables": "Final accuracy"}  # one table of a section


def body(summary: str) -> str:
    """Return the Markdown below the head of the page.

    Args:
        summary: `summary.md` of the reproduction: findings, then sections.
    """
    findings, *sections = re.split(r"^## ", summary, flags=re.MULTILINE)
    parts = ["\n## Result\n\n" + findings.strip().splitlines()[-1].removeprefix("- ") + "\n"]
    for section in sections:
        title, _, text = section.partition("\n")
        if title in SECTIONS:
            parts.append(f"\n## {title}\n{text.rstrip()}\n")
        elif title in FIGURES:
            pictures = [line for line in text.splitlines() if line.startswith("![")]
            parts.append(f"\n## {title}\n\n" + "\n".join(pictures) + "\n")
        elif title in TABLES:
            _, *tables = re.split(r"^\*\*(.+)\*\*$", text, flags=re.MULTILINE)  # titles and texts alternate
            found = dict(zip(tables[::2], tables[1::2], strict=True))
            parts.append(f"\n## {TABLES[title]}\n\n{found[TABLES[title]].strip()}\n")
    return "".join(parts)


def main(folder: Path) -> None:
    text = body((folder / "summary.md").read_text(encoding="utf-8"))
    for source, name in PICTURES.items():
        picture = folder / "figures" / f"{source}.png"
        if picture.is_file():
            shutil.copyfile(picture, DOCS / "img" / f"{name}.png")
        text = text.replace(f"figures/{source}.png", f"img/{name}.png")
    for name in DATA:
        shutil.copyfile(folder / "tables" / f"{name}.csv", DOCS / "data" / f"reproduce-{name}.csv")
    with np.load(folder / "evidence.npz") as evidence:  # a test compares it with the page
        np.savez_compressed(DOCS / "_build" / "evidence.npz", **evidence)
    head = (DOCS / "_build" / "reproduce_head.md").read_text(encoding="utf-8")
    (DOCS / "reproduce.md").write_text(head + text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
