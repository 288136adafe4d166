"""Execute the notebooks here and store what they show, figures as pictures: a code host shows them without running anything.

    pip install '.[test]' kaleido && python examples/notebooks/store.py

Pictures are drawn by kaleido, which needs Chrome or Chromium. Names of notebooks choose some of them.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
KEPT = ("image/png", "text/html", "text/plain")


def main(names: list[str]) -> None:
    os.environ["PLOTLY_RENDERER"] = "png"
    for file in sorted(HERE.glob("*.ipynb")):
        if not names or file.stem in names:
            notebook = nbformat.read(file, as_version=4)
            NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(HERE)}}).execute()
            for cell in notebook.cells:
                cell.metadata.clear()  # when it ran
                for output in cell.get("outputs", []):
                    if "data" in output:
                        output["data"] = {kind: output["data"][kind] for kind in KEPT if kind in output["data"]}
            nbformat.write(notebook, file)
            print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
