"""One browser for each module of page tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .browser import Browser, find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium or Chrome on this machine: the page cannot be opened in a browser")
    with Browser(executable) as opened:
        yield opened
