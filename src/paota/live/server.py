"""The live page's server: on this machine only, behind an address that cannot be guessed, and it only ever reads."""

from __future__ import annotations

import hmac
import math
import secrets
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import UserError
from ..pages.page import Page, render, render_news
from ..runs.folder import is_finished
from .follow import Follower, is_run
from .page import NEXT, run_page, sweep_page

HOST = "127.0.0.1"
LOOK_S = 3.0  # an open page asks for news more often than that


class LiveServer(ThreadingHTTPServer):
    """Serves the pages of one run or sweep folder at `address`.

    Args:
        folder: of a run or a sweep, going on or finished.
        port: on 127.0.0.1; 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not folder.is_dir():
            raise UserError(f"there is no folder '{folder}' to watch")
        self.folder, self.token, self._lock = folder, secrets.token_urlsafe(16), threading.Lock()
        self._followers: dict[Path, Follower] = {}
        self._asked = -math.inf  # when a page was asked for last
        self._sweep = (folder / "sweep.json").is_file()
        if not self._sweep and not is_run(folder):
            raise UserError(f"'{folder}' holds neither a run nor a sweep to watch")
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UserError(f"cannot listen on {HOST}:{port}: {error.strerror}") from None

    @property
    def address(self) -> str:
        """Where a browser on this machine finds the page."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def start(self) -> None:
        """Serve from a thread of its own, until the process ends or `shutdown`."""
        threading.Thread(target=self.serve_forever, name="paota live", daemon=True).start()

    def wait_for_a_last_look(self) -> None:
        """Return when a page that was open lately has asked once more, or does not any more."""
        ended = time.monotonic()
        while time.monotonic() - self._asked < LOOK_S and self._asked < ended:
            time.sleep(0.05)
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle is nothing to tell of."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def page(self, path: str) -> Page | None:
        """The page at a path below the token; None if there is none."""
        with self._lock:  # followers are not for two threads at once
            self._asked = time.monotonic()
            if not path:
                return self._sweep_page() if self._sweep else self._run_page(self.folder)
            points = self._points() if self._sweep else []
            first, _, number = path.partition("/")
            if first == "points" and number.isdecimal() and int(number) < len(points):
                return self._run_page(points[int(number)][1], home="../../")
            return None

    def report(self) -> Path | None:
        """The report of the whole folder, once it is written."""
        file = self.folder / "report.html"
        return file if file.is_file() and (self._sweep or is_finished(self.folder)) else None

    def _run_page(self, folder: Path, home: str = "") -> Page:
        report = folder == self.folder and self.report() is not None
        return run_page(self._follower(folder).look(), report=report, home=home)

    def _sweep_page(self) -> Page:
        points = self._points()
        looks = [self._follower(folder).look() for _, folder in points]
        from ..sweeps import folder as sweep_folder

        name = sweep_folder.read(self.folder).experiment.name
        return sweep_page(name, [place for place, _ in points], looks, report=self.report() is not None)

    def _points(self) -> list[tuple[str, Path]]:
        """(its values in words, its folder) of every point."""
        from ..sweeps import folder as sweep_folder
        from ..sweeps.grid import place

        spec = sweep_folder.read(self.folder)
        return [(place(spec.axes, p.values), sweep_folder.path_of(self.folder, spec, p)) for p in spec.points]

    def _follower(self, folder: Path) -> Follower:
        return self._followers.setdefault(folder, Follower(folder))


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version, sys_version = "paota", ""

    def do_GET(self) -> None:
        """`/TOKEN/`, `/TOKEN/now`, `/TOKEN/report.html`, and the same below `points/N/`. Everything else is not found."""
        content = self._content()
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        headers = {
            "Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(content)), "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }  # fmt: skip
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _content(self) -> bytes | None:
        known = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        if self.headers.get("Host") not in known:  # another name that was made to point here
            return None
        token, _, rest = urlsplit(self.path).path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return None
        *above, last = rest.split("/")
        if rest == "report.html":
            report = self.server.report()
            return report.read_bytes() if report else None
        if last not in ("", NEXT):
            return None
        page = self.server.page("/".join(above))
        if page is None:
            return None
        return (render_news(page) if last == NEXT else render(page)).encode("utf-8")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal shows the run."""
