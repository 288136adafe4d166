"""Tests of the live page: the files of a running run, the access to them, and the page in a real browser."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import Browser
from helpers.live_state import STATE, UNIT

from paota import Callback, UserError, simulate
from paota.base.files import to_toml
from paota.callbacks.stream import LiveStream
from paota.cli import main
from paota.experiment.experiment import Experiment
from paota.pages.page import render_news
from paota.results.folder import begin_folder, finish_folder
from paota.studies.live.follow import Follower
from paota.studies.live.page import run_page
from paota.studies.live.server import MOST_CONNECTIONS, LiveServer
from paota.studies.sweep.sweep import sweep

NAME = "</script><script>document.title='owned'</script>"
TABLE = {
    "name": NAME,
    "rounds": 30,
    "data": {"dataset": "synthetic", "devices": 12, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "timing": {"period_s": 6.0},
    "model": {"name": "softmax"},
    "algorithms": [{"name": "paota", "label": "<b>mine"}, {"name": "local-sgd"}],
}


class Stepped(Callback):
    """A callback that stops a run at a given round until `go_on`."""

    def __init__(self) -> None:
        self.may, self.waits, self.until = threading.Semaphore(0), threading.Event(), 0

    def round(self, round: Any) -> None:
        if round.label == "<b>mine" and round.round > self.until:
            self.waits.set()
            self.may.acquire()

    def go_on(self, until: int) -> None:
        self.until = until
        self.waits.clear()
        self.may.release()
        if until < 30:
            assert self.waits.wait(120)


class Going:
    """A run in a thread, one step at a time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("paota.callbacks.stream.WRITE_EVERY_S", 0.0)
        monkeypatch.setattr("paota.simulate.schedule.cores", lambda: 1)  # first one algorithm, then the other
        plan = simulate.prepare(Experiment.from_dict(TABLE), seeds=1)
        self.folder, self.stepped = begin_folder(folder, plan.experiment, plan.seeds), Stepped()

        def work() -> None:
            result = simulate.execute(plan, callbacks=[LiveStream(), self.stepped], folder=self.folder)
            finish_folder(result, self.folder)

        self.thread = threading.Thread(target=work)
        self.thread.start()
        assert self.stepped.waits.wait(120)

    def end(self) -> None:
        self.stepped.go_on(30)
        self.thread.join()


@pytest.fixture
def going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Going]:
    run = Going(tmp_path / "run", monkeypatch)
    yield run
    if run.thread.is_alive():
        run.end()


@pytest.fixture
def server(going: Going) -> Iterator[LiveServer]:
    with LiveServer(going.folder) as made:
        made.start()
        yield made
        made.shutdown()


def test_a_follower_reads_what_is_new_and_sees_the_end(going: Going) -> None:
    follower = Follower(going.folder)
    first = follower.look()
    assert first.state["units"][0]["done"] == first.metrics["round"][-1] == 1
    assert not first.finished
    with (going.folder / "rounds.csv").open("a") as half:
        half.write("<b>mine,paota,0,")  # as a reader may find it
    assert len(follower.look().metrics["round"]) == 2
    going.stepped.go_on(6)
    later = follower.look()
    assert later.state["units"][0]["done"] == 7
    going.end()
    last = follower.look()
    assert last.finished
    assert not (going.folder / "live.json").exists()
    assert not (going.folder / "rounds.csv").exists()


def test_who_may_read(going: Going, server: LiveServer) -> None:
    def status(path: str, method: str = "GET", **headers: str) -> int:
        root = f"http://127.0.0.1:{server.server_port}"
        try:
            return int(urllib.request.urlopen(urllib.request.Request(root + path, None, headers, method=method)).status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert server.server_address[0] == "127.0.0.1"
    assert status(f"/{server.token}/") == status(f"/{server.token}/now") == 200
    assert status("/") == status("/now") == status(f"/{server.token[:-1]}/") == 404
    assert status(f"/{server.token}/", Host="elsewhere.example") == 404  # a name that was made to point here
    assert status(f"/{server.token}/", "POST") == status(f"/{server.token}/", "PUT") == 501
    for path in ("report.html", "../live.json", "live.json", "experiment.toml", "points/0/", "%2e%2e/"):
        assert status(f"/{server.token}/{path}") == 404, path
    going.end()
    assert status(f"/{server.token}/report.html") == 200


def test_the_page_fills_while_the_run_goes_on(browser: Browser, going: Going, server: LiveServer) -> None:
    browser.complaints.clear()
    browser.requests.clear()
    browser.send("Page.navigate", url=server.address + "#theme=dark&draw=all")
    browser.wait_for("document.body && document.body.dataset.ready === 'true'")
    rounds = "document.querySelector('#progress td:nth-of-type(2)')?.textContent.trim()"
    points = "document.querySelector('[data-figure=test-accuracy]')?.data?.[0].x.length"
    assert browser.run(rounds) == "1 of 30"
    going.stepped.go_on(8)
    browser.wait_for(f"{rounds} === '9 of 30'")
    browser.wait_for(f"{points} === 10")  # with round 0
    assert browser.run("document.documentElement.dataset.theme") == "dark"  # it outlives the news
    going.end()
    browser.wait_for("document.querySelector('.findings')?.textContent.includes('Finished')")
    browser.wait_for("[...document.querySelectorAll('nav a')].some((link) => link.textContent === 'Report')")
    assert browser.run("document.title").startswith(NAME)
    assert browser.complaints == []
    assert {url.split("#")[0] for url in browser.requests if url.startswith("http")} == {
        server.address, server.address + "now",
    }  # fmt: skip
    server.shutdown()
    server.server_close()
    browser.wait_for("!document.getElementById('problem').hidden")


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1400, False)])
def test_it_fits_every_window(browser: Browser, going: Going, server: LiveServer, width: int, dark: bool) -> None:
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.send("Emulation.setEmulatedMedia", features=[scheme])
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    browser.send("Page.navigate", url=server.address + "#draw=all")
    browser.wait_for("document.body && document.body.dataset.ready === 'true'")
    assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.run("document.querySelectorAll('.plot .main-svg:first-child').length") == browser.run(
        "document.querySelectorAll('.plot').length"
    )


def test_a_sweep_has_a_page_with_its_points(browser: Browser, tmp_path: Path) -> None:
    made = sweep(
        {**TABLE, "name": "grid", "rounds": 3}, over={"timing.period_s": [6, 8]}, jobs=1, out=tmp_path / "grid"
    )
    assert made.folder is not None
    (tmp_path / "grid" / "points" / "001" / "run.json").rename(tmp_path / "kept.json")  # so that it looks unfinished
    state = {
        "format": 1, "title": "grid", "began": 0, "ended": False, "compiling": {}, "rounds_per_second": 2.0, "units": [
            {"label": "a", "algorithm": "paota", "seed": 0, "rounds": 4, "done": 1, "state": "running", "accuracy": 0.5}
        ],
    }  # fmt: skip
    (tmp_path / "grid" / "points" / "001" / "live.json").write_text(json.dumps(state))
    with LiveServer(tmp_path / "grid") as server:
        server.start()
        browser.send("Page.navigate", url=server.address)
        browser.wait_for("document.body && document.body.dataset.ready === 'true'")
        rows = browser.run(
            "[...document.querySelectorAll('tbody tr')].map((row) => row.innerText.split(/\\s*\\t\\s*/))"
        )
        assert [row[1:3] for row in rows] == [["finished", "100\u202f%"], ["running", "25\u202f%"]]
        browser.run("document.querySelectorAll('tbody a')[1].click()")
        browser.wait_for("document.querySelector('#progress')?.textContent.includes('1 of 4')")
        server.shutdown()


@pytest.mark.parametrize("what", ["missing", "empty"])
def test_what_cannot_be_watched(tmp_path: Path, what: str) -> None:
    if what == "empty":
        (tmp_path / what).mkdir()
    with pytest.raises(UserError, match="to watch"):
        LiveServer(tmp_path / what)


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[LiveServer]:
    """A page of a folder in which nothing happens."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "unfinished.json").write_text('{"seeds": [0]}')
    with LiveServer(tmp_path / "run") as made:
        made.start()
        yield made
        made.shutdown()


def connection(server: LiveServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=60)


def test_an_idle_connection_is_closed(quiet: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paota.studies.live.server.LONGEST_S", 0.0)
    with connection(quiet) as silent, connection(quiet) as slow:
        slow.sendall(b"GET / HTTP/1.0\r\nHost: ")
        assert silent.recv(1) == slow.recv(1) == b""


def test_there_are_few_connections_at_a_time(quiet: LiveServer) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(connection(quiet)) for _ in range(MOST_CONNECTIONS + 8)]
        left = list(opened)
        while len(left) > MOST_CONNECTIONS:
            readable, *_ = select.select(left, [], [], 60)
            assert readable, "more are open than there may be"
            left = [one for one in left if one not in readable]
    with urllib.request.urlopen(quiet.address) as answer:  # and then it answers again
        assert answer.status == 200


HOLD = """
import pathlib, time, paota
class Hold(paota.Callback):
    def round(self, round):
        while round.round == 1 and not pathlib.Path("go").exists():
            time.sleep(0.05)
paota.register("callback", "hold", Hold)
"""


def test_no_number_of_connections_stops_the_run(tmp_path: Path) -> None:
    """A run with few file descriptors, while a neighbour opens more connections to its page than it has."""
    (tmp_path / "hold.py").write_text(HOLD)
    (tmp_path / "run.toml").write_text(to_toml({**TABLE, "name": "run", "rounds": 5}))
    words = ["run", "run.toml", "--live", "--quiet", "--plugin", "hold.py", "--callback", "hold", "--out", "run"]
    with (
        subprocess.Popen(
            ["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh", sys.executable, "-m", "paota", *words], cwd=tmp_path,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as run,
        ExitStack() as stack,
    ):  # fmt: skip
        stack.callback(run.kill)
        assert run.stderr is not None
        address = next(line for line in run.stderr if line.startswith("live: "))  # after what it says of its kernel
        port = int(address.split(":")[3].split("/")[0])
        with suppress(TimeoutError):  # once nothing is accepted any more
            for _ in range(300):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        (tmp_path / "go").touch()
        said = run.stderr.read()
        assert run.wait() == 0, said
        assert said == ""


def test_without_a_page_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("paota.studies.live.server.HOST", "192.0.2.1")  # an address that no machine has
    (tmp_path / "run.toml").write_text(to_toml({**TABLE, "name": "run", "rounds": 1}))
    assert main(["run", str(tmp_path / "run.toml"), "--live", "--quiet", "--out", str(tmp_path / "run")]) == 0
    assert "paota: there is no live page: cannot listen" in capsys.readouterr().err


def test_requests_that_make_no_sense(quiet: LiveServer, capfd: pytest.CaptureFixture[str]) -> None:
    host = f"Host: 127.0.0.1:{quiet.server_port}".encode()
    token = quiet.token.encode()

    def status(path: bytes) -> bytes:
        with connection(quiet) as made:
            made.sendall(b"GET " + path + b" HTTP/1.0\r\n" + host + b"\r\n\r\n")
            return made.recv(65536).split(b" ")[1]

    assert status(b"http://[::1/" + token + b"/") == status(b"http://]/" + token) == b"400"
    assert status(b"/" + token + b"/points/" + b"9" * 5000 + b"/") == b"404"
    (quiet.folder / "sweep.json").write_text("{}")
    with LiveServer(quiet.folder) as damaged:
        damaged.start()
        with pytest.raises(urllib.error.HTTPError, match="500") as error, urllib.request.urlopen(damaged.address):
            pass
        with error.value as answer:
            assert "sweep.json' is damaged" in answer.read().decode()
        damaged.shutdown()
    assert capfd.readouterr().err == ""


DAMAGED: dict[str, str | bytes | dict[str, Any]] = {
    "not JSON": "{", "not UTF-8": b"\xff\xfe", "a list": "[1, 2]", "nothing": "null", "deep": "[" * 100_000,
    "another format": STATE | {"format": 2}, "NaN": '{"format": 1, "rounds_per_second": NaN}',
    "infinite": '{"format": 1, "rounds_per_second": 1e400}', "many digits": '{"format": 1, "began": ' + "9" * 5000 + "}",
    "huge": STATE | {"began": 10**400}, "units are a table": STATE | {"units": {}},
    "a unit is a text": STATE | {"units": ["a"]}, "a unit lacks its state": STATE | {"units": [{"label": "a"}]},
    "a negative number": STATE | {"units": [UNIT | {"done": -1}]},
    "a text for a number": STATE | {"units": [UNIT | {"rounds": "<script>"}]}, "true": STATE | {"began": True},
    "nested": STATE | {"units": [UNIT | {"accuracy": [[0.5]]}]}, "compiling": STATE | {"compiling": []},
    "title": STATE | {"title": {}},
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_state_is_a_sentence(quiet: LiveServer, capfd: pytest.CaptureFixture[str], case: str) -> None:
    content = DAMAGED[case]
    text = json.dumps(content) if isinstance(content, dict) else content
    (quiet.folder / "live.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with urllib.request.urlopen(quiet.address + "now") as answer:
        page = answer.read().decode()
    assert "live.json&#39; is" in page
    assert capfd.readouterr().err == ""
    assert "Traceback" not in page


def test_a_sound_state_is_shown(tmp_path: Path) -> None:
    (tmp_path / "live.json").write_text(json.dumps(STATE))
    look = Follower(tmp_path).look()
    assert look.problem == ""
    assert "2 rounds a second; 3 rounds are left" in render_news(run_page(look))


def test_the_page_says_what_compiles_before_the_first_round(tmp_path: Path) -> None:
    waiting = STATE | {"rounds_per_second": None, "units": [UNIT | {"done": 0, "state": "waiting", "accuracy": None}]}
    (tmp_path / "live.json").write_text(json.dumps(waiting))
    page = render_news(run_page(Follower(tmp_path).look()))
    assert "Compiling the programs of a for " in page
    assert "then 4 rounds follow." in page
