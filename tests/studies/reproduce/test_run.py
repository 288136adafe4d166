"""One small reproduction from end to end."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys

import pytest

from paota.base.system import only_one
from paota.cli import main
from paota.studies.reproduce import cells


@pytest.fixture(scope="module")
def quick_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduction") / "out"
    return folder, main(["reproduce", "--quick", "--seeds", "1", "--workers", "1", "--quiet", "--out", str(folder)])


@pytest.mark.slow
def test_a_smoke_run_from_end_to_end(quick_report):
    folder, code = quick_report
    assert code == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="fig3-gap"' in page
    assert "Smoke run" in page
    for text in (page, (folder / "summary.md").read_text(encoding="utf-8")):  # made-up data judge nothing
        assert not re.search(r"(not )?reproduced( with a change)?</span>|\*\*(not )?reproduced|id=.verdicts.", text)
    assert "no verdicts" in page
    own = re.sub(
        r"<script>.*?</script>", "", page, flags=re.DOTALL
    )  # the drawing library names places that it never asks
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", own)
    with (folder / "tables" / "verdicts.csv").open(newline="") as stream:
        assert list(csv.DictReader(stream)) == []
    for name in ("fig2-workflow", "fig3-gap", "fig4-accuracy", "noise", "ablations", "eta", "bound"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_a_real_browser_shows_no_verdicts_of_a_smoke_run(quick_report, tmp_path):
    folder, _ = quick_report
    browser = next((found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no Chromium on this machine")
    common = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        f"--user-data-dir={tmp_path}",
    ]
    done = subprocess.run(
        [browser, *common, "--dump-dom", (folder / "report.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert 'class="badge' not in done.stdout
    assert 'id="fig3-gap"' in done.stdout
    assert "Refused to" not in done.stderr  # the content policy has nothing to forbid


@pytest.mark.slow
def test_a_second_run_computes_nothing_and_writes_the_same_page(quick_report, monkeypatch):
    folder, _ = quick_report
    before = {p.name: p.read_bytes() for p in (folder / "tables").glob("*.csv")}
    page = (folder / "report.html").read_bytes()
    monkeypatch.setattr(cells, "task_of", lambda *_: pytest.fail("a finished cell was computed again"))
    assert main(["reproduce", "--quick", "--seeds", "1", "--workers", "1", "--quiet", "--out", str(folder)]) == 0
    assert {p.name: p.read_bytes() for p in (folder / "tables").glob("*.csv")} == before
    assert (folder / "report.html").read_bytes() == page


@pytest.mark.bare
def test_wrong_arguments_are_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    for wrong in (["--part", "nois"], ["--seeds", "0"], ["--workers", "-1"], ["--out", str(tmp_path / "file")]):
        assert main(["reproduce", *wrong]) == 2
        assert capsys.readouterr().err.startswith("paota: ")


def test_without_matplotlib_it_says_so_only_when_it_is_about_to_draw(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["reproduce", "--part", "nois", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("paota: ")
    (tmp_path / "out" / "cells").mkdir(parents=True)
    with only_one(tmp_path / "out"):  # everything but the computing
        assert main(["reproduce", "--out", str(tmp_path / "out")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("figures: in the page only")
    assert second.startswith("paota: ")
