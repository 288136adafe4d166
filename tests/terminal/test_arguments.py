"""Arguments that several commands share."""

import sys
from argparse import Namespace
from pathlib import Path

import pytest

from paota.terminal.arguments import say_page

pytestmark = pytest.mark.bare


def test_the_report_opens_in_the_browser_of_the_user(tmp_path, capfd, monkeypatch):
    """`BROWSER` is the user's choice; here a program that keeps the address."""
    kept = tmp_path / "address"
    program = tmp_path / "browser"
    program.write_text(
        f"#!{sys.executable}\nimport sys, pathlib\npathlib.Path({str(kept)!r}).write_text(sys.argv[1])\n"
    )
    program.chmod(0o755)
    import webbrowser

    monkeypatch.setenv("BROWSER", f"{program} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # found again at the next use
    monkeypatch.setattr(webbrowser, "_browsers", {})
    page = tmp_path / "report.html"
    say_page(page, Namespace(open=True), f"report: {page}")
    assert capfd.readouterr().out == f"report: {page}\n"
    assert kept.read_text() == page.as_uri()


@pytest.mark.parametrize("wanted", [True, False])
def test_without_a_browser_the_path_is_said_and_nothing_fails(wanted, capsys, monkeypatch):
    import webbrowser

    monkeypatch.setattr(webbrowser, "_tryorder", [])
    monkeypatch.setattr(webbrowser, "_browsers", {})
    say_page(Path("report.html"), Namespace(open=wanted), "report: report.html")
    told = capsys.readouterr()
    assert told.out == "report: report.html\n"
    assert ("no browser was found; open 'report.html' yourself" in told.err) is wanted
