"""Write docs/reproduce.md and its pictures: python docs/_build/reproduce_page.py DIR

DIR is the folder of a `paota reproduce`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parents[1]
PICTURES = {  # names in the folder of the reproduction and in docs/img
    "fig2-workflow": "workflow",
    "fig3-gap": "paper-gap",
    "fig4-accuracy": "paper-accuracy",
    "noise": "paper-noise",
    "ablations": "paper-ablations",
    "eta": "paper-eta",
    "bound": "paper-bound",
}


def main(folder: Path) -> None:
    text = (folder / "summary.md").read_text(encoding="utf-8")
    for source, name in PICTURES.items():
        picture = folder / "figures" / f"{source}.png"
        if picture.is_file():
            shutil.copyfile(picture, DOCS / "img" / f"{name}.png")
        text = text.replace(f"figures/{source}.png", f"img/{name}.png")
    with np.load(folder / "evidence.npz") as evidence:  # a test judges it again, and compares with the page
        np.savez_compressed(DOCS / "_build" / "evidence.npz", **evidence)
    head = (DOCS / "_build" / "reproduce_head.md").read_text(encoding="utf-8")
    (DOCS / "reproduce.md").write_text(head + "\n" + text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
