"""docs/reproduce.md, its pictures and docs/reverse-engineering.md: python docs/_build/reproduce_page.py DIR

DIR is the folder of a `paota reproduce`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parents[1]
FIGURES = {
    "fig2-workflow": "workflow",
    "fig1-system": "system",
    "fig3-gap": "paper-gap",
    "fig4-accuracy": "paper-accuracy",
    "noise": "paper-noise",
    "ablations": "paper-ablations",
    "eta": "paper-eta",
    "bound": "paper-bound",
}
AFTER = {  # picture -> the heading that it stands under
    "paper-gap": ("### Final accuracy", "Fig. 3: E[F(w^r)] - F(w*) at -174 and -74 dBm/Hz"),
    "paper-accuracy": ("### Final accuracy", "Fig. 4: test accuracy against rounds and simulated time"),
    "paper-noise": ("### The noise sweep", "Final accuracy against the noise density"),
    "paper-ablations": ("### Ablations", "Ablations"),
    "paper-eta": ("### Ablations", "Sensitivity to the learning rate: one for all methods"),
    "paper-bound": ("### Theorem 1", "Theorem 1 beside the measured gap"),
}


def main(folder: Path) -> None:
    text = (folder / "summary.md").read_text(encoding="utf-8").replace("### ", "## ")
    drawn = {name for source, name in FIGURES.items() if (folder / "figures" / f"{source}.png").is_file()}
    for source, name in FIGURES.items():
        if name in drawn:
            shutil.copyfile(folder / "figures" / f"{source}.png", DOCS / "img" / f"{name}.png")
    for name, (heading, words) in reversed(AFTER.items()):
        if name not in drawn:
            continue
        heading = heading.replace("### ", "## ")
        text = text.replace(f"{heading}\n", f"{heading}\n\n![{words}](img/{name}.png)\n", 1)
    with np.load(folder / "evidence.npz") as evidence:  # a test judges it again, and compares with the page
        np.savez_compressed(DOCS / "_build" / "evidence.npz", **evidence)
    head = (DOCS / "_build" / "reproduce_head.md").read_text(encoding="utf-8")
    (DOCS / "reproduce.md").write_text(head + "\n" + text, encoding="utf-8")
    if (folder / "open-choices.md").is_file():
        head = (DOCS / "_build" / "reverse_head.md").read_text(encoding="utf-8")
        found = (folder / "open-choices.md").read_text(encoding="utf-8")
        (DOCS / "reverse-engineering.md").write_text(head + found, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
