"""The site's pages of the notebooks: text, code and stored outputs. `python docs/_build/notebooks.py` writes them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
DOCS = ROOT / "docs"
DISPLAY = "<IPython.core.display.HTML object>"  # the progress bar


def markdown(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """The page of a notebook, and its pictures by file name."""
    pictures: dict[str, bytes] = {}
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"notebook-{notebook.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![Output of the cell above](img/{name})")
            elif (text := "".join(output.get("text", []) or data.get("text/plain", [])).rstrip()) not in ("", DISPLAY):
                parts.append(f"```text\n{text}\n```")
    head = f"*This page is the notebook `examples/notebooks/{notebook.name}` with its outputs.*"
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n{head}\n{rest}\n", pictures


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        page, pictures = markdown(notebook)
        (DOCS / f"notebook-{notebook.stem}.md").write_text(page, encoding="utf-8")
        for name, content in pictures.items():
            (DOCS / "img" / name).write_bytes(content)
