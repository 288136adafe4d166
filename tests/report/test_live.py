"""The live page: what is written while a run goes on, who may read it, and how it fills in a real browser."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paota import Callback, UserError, simulate
from paota.experiment import Experiment
from paota.live.follow import Follower
from paota.live.server import LiveServer
from paota.live.stream import LiveStream
from paota.runs.folder import begin_folder, finish_folder
from paota.sweeps import sweep

from .browser import Browser

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
    """Lets a run go on to a given round, and no further; knows when it waits there."""

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
    """A run that goes on in a thread, one step at a time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("paota.live.stream.WRITE_EVERY_S", 0.0)
        monkeypatch.setattr("paota.simulate.schedule.cores", lambda: 1)  # first one algorithm, then the other
        plan = simulate.plan(Experiment.from_dict(TABLE), seeds=1)
        self.folder, self.stepped = begin_folder(folder, plan), Stepped()

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
    assert later.state["loud"]["<b>mine"]["round"] == 7
    assert later.state["timeline"]["<b>mine"]["device"]
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
    browser.wait_for("document.querySelector('[data-figure=loud] .bars .point')")
    browser.wait_for("document.querySelector('[data-figure=timeline] .bars .point')")
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
    (tmp_path / "grid" / "points" / "001" / "run.json").rename(tmp_path / "kept.json")  # as if it were going on
    state = {
        "format": 1, "title": "grid", "began": 0, "ended": False, "compiling": {}, "rounds_per_second": 2.0, "loud": {},
        "timeline": {}, "units": [
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
