"""docs/reproduce.md and its pictures from a `paota reproduce` folder: python docs/_build/reproduce_page.py DIR"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]
FIGURES = {
    "fig2-workflow": "workflow",
    "fig1-system": "system",
    "fig3-gap": "gap",
    "fig4-accuracy": "accuracy",
    "noise": "noise",
    "ablations": "ablations",
    "eta": "eta",
    "bound": "bound",
}
AFTER = {  # picture -> the heading that it stands under
    "gap": ("### Final accuracy", "Fig. 3: E[F(w^r)] - F(w*) at -174 and -74 dBm/Hz"),
    "accuracy": ("### Final accuracy", "Fig. 4: test accuracy against rounds and simulated time"),
    "noise": ("### The noise sweep", "Final accuracy against the noise density"),
    "ablations": ("### Ablations", "Ablations"),
    "eta": ("### Ablations", "Sensitivity to the learning rate: one for all methods"),
    "bound": ("### Theorem 1", "Theorem 1 beside the measured gap"),
}


def main(folder: Path) -> None:
    text = (folder / "summary.md").read_text(encoding="utf-8").replace("### ", "## ")
    for source, name in FIGURES.items():
        shutil.copyfile(folder / "figures" / f"{source}.png", DOCS / "img" / f"{name}.png")
    for name, (heading, words) in reversed(AFTER.items()):
        heading = heading.replace("### ", "## ")
        text = text.replace(f"{heading}\n", f"{heading}\n\n![{words}](img/{name}.png)\n", 1)
    head = (DOCS / "_build" / "reproduce_head.md").read_text(encoding="utf-8")
    (DOCS / "reproduce.md").write_text(head + "\n" + text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
