"""The notebooks run as they stand, and what they store can be seen on a code host; the README's table is made of a run."""

import importlib.util
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import paota

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def read(file):
    return nbformat.read(file, as_version=4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own libraries, in this process
def test_the_notebooks_run(monkeypatch, tmp_path):
    """One after the other in one kernel, which forgets all names in between but not what it has compiled: that is most of
    the time. An error in any cell is an error here.
    """
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    here = [file for file in NOTEBOOKS if "pytorch" not in file.stem or importlib.util.find_spec("torch")]
    cells = [cell for file in here for cell in (*read(file).cells, nbformat.v4.new_code_cell("%reset -f"))]
    together = nbformat.v4.new_notebook(cells=cells, metadata=read(NOTEBOOKS[0]).metadata)
    NotebookClient(together, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert not list(tmp_path.iterdir())


def test_there_are_five_and_each_has_an_exercise():
    assert [file.stem[3:] for file in NOTEBOOKS] == [
        "start-here", "the-paper", "your-own-algorithm", "size-a-deployment", "paota-plus-and-pytorch"
    ]  # fmt: skip
    for file in NOTEBOOKS:
        text = "\n".join(cell.source for cell in read(file).cells if cell.cell_type == "markdown")
        assert all(
            part in text for part in ("**You will learn**", "## Exercise", "<summary>Solution</summary>", "**Next:**")
        )


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_outputs_are_stored_and_small(file):
    """Pictures, tables and texts, no scripts; every cell that shows something has its output."""
    notebook = read(file)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert kinds <= {"image/png", "text/html", "text/plain"}
    assert "image/png" in kinds
    assert not any("<script" in output.get("data", {}).get("text/html", "") for output in outputs)
    assert not any(output.output_type == "error" for output in outputs)
    shown = [cell for cell in notebook.cells if cell.cell_type == "code" and ".plot" in cell.source]
    assert all(any("image/png" in output.get("data", {}) for output in cell.outputs) for cell in shown)
    assert file.stat().st_size < 600_000


@pytest.fixture(scope="module")
def readme():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks" / "readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    table = {"rounds": 3, "model": {"name": "softmax"}, "algorithms": [{"name": "paota"}]}
    table["data"] = {"dataset": "synthetic", "devices": 4, "sizes": [20]}
    return paota.run(table).save(tmp_path_factory.mktemp("run") / "x", report=False)


def test_the_readme_table_says_the_rounds_it_was_given(readme, folder, capsys, monkeypatch):
    """The table needs no matplotlib, which the README does not install, and writes nothing."""
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    picture = ROOT / "docs" / "img" / "accuracy.png"
    before = picture.stat().st_mtime_ns
    assert readme.main([str(folder)]) == 0
    head, _, row = capsys.readouterr().out.splitlines()
    assert head == "| | 80% after (s) | rounds | after 3 rounds | after 24 s |"
    assert row.startswith("| `paota` | never | never | ")
    assert readme.main([str(folder), "--picture", "x.png"]) == 2
    assert "pip install '.[paper]'" in capsys.readouterr().err
    assert picture.stat().st_mtime_ns == before


def test_the_picture_is_drawn_where_it_was_asked_for(readme, folder, tmp_path):
    pytest.importorskip("matplotlib")
    assert readme.main([str(folder), "--picture", str(tmp_path / "x.png")]) == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
