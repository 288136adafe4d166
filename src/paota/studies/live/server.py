"""The server of the live page. It is reachable from this machine only, behind a random address, and writes nothing."""

from __future__ import annotations

import contextlib
import hmac
import math
import secrets
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from ...base.bounded import read_regular
from ...base.errors import UserError, printable
from ...pages.page import Page, render, render_news
from ...results.folder import is_finished
from ..sweep.sweep import outline
from .follow import Follower, is_run
from .page import NEXT, run_page, sweep_page

HOST = "127.0.0.1"
NEWS_S = 3.0  # an open page asks for news more often than this
MAX_REPORT_BYTES = 2**26
MOST_CONNECTIONS = 32
LONGEST_S = 30.0  # duration of a connection
SPARE = 32  # file descriptors reserved for the run
Request: TypeAlias = socket.socket | tuple[bytes, socket.socket]  # as the base class declares it


class LiveServer(ThreadingHTTPServer):
    """A server of the pages of one run or sweep folder at `address`.

    Connections are few and short, and the last file descriptors are reserved for the run, so they cannot stop it.

    Args:
        folder: folder of a running or finished run or sweep.
        port: on 127.0.0.1; 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not folder.is_dir():
            raise UserError(f"there is no folder '{folder}' to watch")
        self.folder, self.token, self._lock = folder, secrets.token_urlsafe(16), threading.Lock()
        self._followers: dict[Path, Follower] = {}
        self._ends: dict[socket.socket, float] = {}  # open connections, the oldest first, and the ends of their time
        self._asked = -math.inf  # time of the last request for a page
        self._sweep = (folder / "sweep.json").is_file()
        if not self._sweep and not is_run(folder):
            raise UserError(f"'{folder}' holds neither a run nor a sweep to watch")
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UserError(f"cannot listen on {HOST}:{port}: {error.strerror}") from None

    @property
    def address(self) -> str:
        """The address of the page for a browser on this machine."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def start(self) -> None:
        """Serve from a new thread until `shutdown` or the end of the process."""
        threading.Thread(target=self.serve_forever, name="paota live", daemon=True).start()

    def wait_for_a_last_look(self) -> None:
        """Wait until an open page has asked once more or is closed, then stop serving."""
        ended = time.monotonic()
        while time.monotonic() - self._asked < NEWS_S and self._asked < ended:
            time.sleep(0.05)
        self.shutdown()
        self.server_close()

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Return the next connection; without a free file descriptor, give the run time to free some."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.5)
            raise

    def verify_request(self, request: Request, client_address: object) -> bool:
        """Admit a connection if there is room for it; if not, close the oldest one."""
        assert isinstance(request, socket.socket)
        if len(self._ends) < MOST_CONNECTIONS and _descriptors_above(request.fileno()) > SPARE:
            self._ends[request] = time.monotonic() + LONGEST_S
            return True
        for oldest in list(self._ends)[:1]:
            _end(oldest)
        return False

    def service_actions(self) -> None:
        """Close the connections whose time is over; the server calls this about twice a second."""
        for request, end in list(self._ends.items()):
            if end < time.monotonic():
                _end(request)

    def shutdown_request(self, request: Request) -> None:
        assert isinstance(request, socket.socket)
        self._ends.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Request, client_address: object) -> None:
        """Print an error, but not that a browser closed its connection."""
        if not isinstance(error := sys.exception(), OSError):
            print(printable(f"paota: the live page could not answer: {error!r}"), file=sys.stderr)

    def page(self, path: str) -> Page | None:
        """Return the page at a path below the token, or None if there is none."""
        with self._lock:  # a follower serves one thread at a time
            self._asked = time.monotonic()
            if not path:
                return self._sweep_page() if self._sweep else self._run_page(self.folder)
            points = outline(self.folder)[1] if self._sweep else []
            first, _, number = path.partition("/")
            if first == "points" and number.isdecimal() and len(number) < 10 and int(number) < len(points):
                return self._run_page(points[int(number)][1], home="../../")
            return None

    def report(self) -> Path | None:
        """Return the report of the whole folder, or None before it is written."""
        file = self.folder / "report.html"
        return file if file.is_file() and (self._sweep or is_finished(self.folder)) else None

    def _run_page(self, folder: Path, home: str = "") -> Page:
        report = folder == self.folder and self.report() is not None
        return run_page(self._follower(folder).look(), report=report, home=home)

    def _sweep_page(self) -> Page:
        name, points = outline(self.folder)
        looks = [self._follower(folder).look() for _, folder in points]
        return sweep_page(name, [place for place, _ in points], looks, report=self.report() is not None)

    def _follower(self, folder: Path) -> Follower:
        return self._followers.setdefault(folder, Follower(folder))


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    server_version, sys_version = "paota", ""

    def do_GET(self) -> None:
        """Answer `/TOKEN/`, `/TOKEN/now`, `/TOKEN/report.html`, and the same below `points/N/`; all else is not found."""
        try:
            path = urlsplit(self.path).path
        except ValueError:
            return self.send_error(HTTPStatus.BAD_REQUEST)
        try:
            content = self._content(path)
        except UserError as error:
            return self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
        if content is None:
            return self.send_error(HTTPStatus.NOT_FOUND)
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

    def _content(self, path: str) -> bytes | None:
        known = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        if self.headers.get("Host") not in known:  # another name that points to this machine
            return None
        token, _, rest = path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return None
        *above, last = rest.split("/")
        if rest == "report.html":
            report = self.server.report()
            return read_regular(report, most=MAX_REPORT_BYTES) if report else None
        if last not in ("", NEXT):
            return None
        page = self.server.page("/".join(above))
        if page is None:
            return None
        return (render_news(page) if last == NEXT else render(page)).encode("utf-8")

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: the terminal shows the run."""


def _descriptors_above(descriptor: int) -> int:
    """Return an upper bound of the free file descriptors: a new one has the lowest free number."""
    try:
        import resource  # optional
    except ImportError:  # a system without such limits
        return SPARE + 1
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return SPARE + 1 if limit == resource.RLIM_INFINITY else limit - descriptor - 1


def _end(connection: Request) -> None:
    """Close a connection; the thread that serves it then ends."""
    assert isinstance(connection, socket.socket)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
