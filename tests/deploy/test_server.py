"""Failures of real devices, played through the real server and client in memory."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from helpers.deployment import deploy, make_grid, run
from helpers.memory_grid import MemoryGrid

import paota
from paota.deploy.history import CheckpointFolder

K, PERIOD_S = 4, 8.0
TABLE: dict[str, Any] = {
    "name": "faults",
    "rounds": 8,
    "data": {"dataset": "synthetic", "devices": K, "sizes": [40, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "timing": {"latency": "per-device", "seconds": [6.0, 7.0, 7.0, 7.0]},
    "algorithms": [{"name": "paota", "payload": "update"}],
}
PLUGIN = Path(__file__).parents[1] / "helpers" / "remembering.py"
BAD = (0, 1)  # device, training: asked for in round 1, due in round 2


def answer_with(reply: Message, change: Callable[[dict[str, np.ndarray]], dict[str, Any]]) -> Message:
    arrays = {name: array.numpy() for name, array in reply.content["model"].items()}
    made = ArrayRecord({name: Array(np.asarray(value)) for name, value in change(arrays).items()})
    spoilt = Message(RecordDict({**reply.content, "model": made}), reply_to=reply)
    spoilt.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
    return spoilt


def failed(reply: Message) -> Message:
    made = Message(Error(code=2, reason="out of memory"), reply_to=reply)
    made.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
    return made


def unreadable(reply: Message) -> Message:
    rubbish = Array(dtype="float32", shape=(3,), stype="numpy.ndarray", data=b"\x93NUMPY rubbish")
    made = Message(RecordDict({**reply.content, "model": ArrayRecord({"0.bias": rubbish})}), reply_to=reply)
    made.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
    return made


def empty(reply: Message) -> Message:
    made = Message(RecordDict({"other": ConfigRecord({"a": 1})}), reply_to=reply)
    made.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
    return made


FAULTS: dict[str, tuple[str, Callable[[Message], list[Message]]]] = {
    "error": ("error", lambda reply: [failed(reply)]),
    "NaN": ("not finite", lambda reply: [answer_with(reply, lambda a: {n: v * np.nan for n, v in a.items()})]),
    "infinite": ("not finite", lambda reply: [answer_with(reply, lambda a: {n: v + np.inf for n, v in a.items()})]),
    "huge": ("huge update", lambda reply: [answer_with(reply, lambda a: {n: v + 1e6 for n, v in a.items()})]),
    "wrong shape": (
        "wrong shape",
        lambda reply: [answer_with(reply, lambda a: {n: v.T[..., None] for n, v in a.items()})],
    ),
    "half a model": ("wrong shape", lambda reply: [answer_with(reply, lambda a: {"0.bias": a["0.bias"]})]),
    "unreadable": ("unreadable", lambda reply: [unreadable(reply)]),
    "something else": ("unreadable", lambda reply: [empty(reply)]),
    "twice": ("answered twice", lambda reply: [reply, reply]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_bad_answer_costs_one_device_one_round(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kind, spoil = FAULTS[fault]

    def prepare(grid: MemoryGrid) -> None:
        grid.fault = lambda reply, device, training: spoil(reply) if (device, training) == BAD else [reply]

    result, _ = deploy(tmp_path, TABLE, prepare)
    incidents = result.info["deployment"]["algorithms"]["paota"]["incidents"]
    assert [(i["device"], i["kind"], i["count"]) for i in incidents] == [(0, kind, 1)]
    assert sum("device 0: " + kind in message for message in caplog.messages) == 1
    devices = result.devices
    for k in (1, 2, 3):  # all devices finish inside every period
        assert devices["round"][devices["device"] == k].tolist() == list(range(1, 9))
    missed = [] if fault == "twice" else [2]
    assert devices["round"][devices["device"] == 0].tolist() == [r for r in range(1, 9) if r not in missed]
    assert np.isfinite(result.of("paota")[0].model).all()


def test_a_device_that_never_answers_is_asked_again_and_does_not_stop_the_others(tmp_path: Path) -> None:
    def prepare(grid: MemoryGrid) -> None:
        grid.fault = lambda reply, device, training: [] if (device, training) == BAD else [reply]

    result, grid = deploy(tmp_path, TABLE, prepare, patience=2.0)
    devices = result.devices
    # Asked at 8 s, given up 16 s later at the deadline of 24 s, asked again with the model of that moment.
    assert devices["round"][devices["device"] == 0].tolist() == [1, 4, 5, 6, 7, 8]
    assert [order for order in grid.orders if order[0] == 0][:3] == [(0, 0, 0), (0, 1, 1), (0, 3, 2)]
    assert all(devices["round"][devices["device"] == k].tolist() == list(range(1, 9)) for k in (1, 2, 3))


def test_nobody_ready_is_a_normal_event_that_changes_nothing(tmp_path: Path) -> None:
    table = {**TABLE, "rounds": 4, "timing": {"latency": "per-device", "seconds": [17.0] * K}}
    result, _ = deploy(tmp_path, table)
    (t,) = result.of("paota")
    assert t.metrics["ready"].tolist() == [0, 0, 0, K, 0]
    assert t.devices["staleness"].tolist() == [2] * K
    assert t.metrics["test_loss"][0] == t.metrics["test_loss"][1] == t.metrics["test_loss"][2]


def test_a_device_that_joins_mid_run_takes_part(tmp_path: Path) -> None:
    grid = make_grid(tmp_path, TABLE, **{"min-devices": 3, "join-s": 5.0})
    for k in range(3):
        grid.connect(k, K)
    grid.clock.at(5.0 + 20.0, lambda: grid.connect(3, K) and None)  # the clock of the experiment starts at 5 s
    result = run(grid, tmp_path)
    rounds = result.devices["round"][result.devices["device"] == 3].tolist()
    assert rounds == [4, 5, 6, 7, 8]  # said hello at 20 s, got the model of 24 s, answered in time for 32 s
    assert result.devices["version"][result.devices["device"] == 3].tolist()[0] == 3


def test_a_device_that_dies_and_comes_back_under_another_node_takes_part_again(tmp_path: Path) -> None:
    grid = make_grid(tmp_path, TABLE)
    nodes = [grid.connect(k, K) for k in range(K)]
    grid.fault = lambda reply, device, training: [reply] if reply.metadata.src_node_id in grid.contexts else []

    def die() -> None:
        grid.disconnect(nodes[2])
        grid.mailbox = [entry for entry in grid.mailbox if entry[1].metadata.src_node_id != nodes[2]]

    grid.clock.at(17.0, die)
    grid.clock.at(33.0, lambda: grid.connect(2, K, node=77) and None)
    result = run(grid, tmp_path)
    rounds = result.devices["round"][result.devices["device"] == 2].tolist()
    assert rounds == [1, 2, 6, 7, 8]
    training = [n for device, _, n in grid.orders if device == 2]
    assert training == list(range(len(training)))  # no mini-batch is drawn twice
    kinds = {i["kind"] for i in result.info["deployment"]["algorithms"]["paota"]["incidents"] if i["device"] == 2}
    assert "replaced" in kinds


def test_too_few_devices_is_one_sentence(tmp_path: Path) -> None:
    grid = make_grid(tmp_path, TABLE, **{"join-s": 3.0})
    grid.connect(0, K)
    with pytest.raises(paota.UserError, match="1 devices joined within 3 s, and 4 are needed"):
        run(grid, tmp_path)


def test_a_node_of_another_federation_is_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid = make_grid(tmp_path, {**TABLE, "rounds": 2}, **{"min-devices": 3, "join-s": 3.0})
    for k in range(3):
        grid.connect(k, K)
    grid.connect(0, 99, node=9)
    result = run(grid, tmp_path)
    assert set(result.devices["device"].tolist()) == {0, 1, 2}
    assert sum("partition 0 of 99, but data.devices is 4" in message for message in caplog.messages) == 1


def test_a_synchronous_round_does_not_wait_for_ever(tmp_path: Path) -> None:
    table = {**TABLE, "rounds": 3, "algorithms": [{"name": "local-sgd", "participants": K}]}

    def prepare(grid: MemoryGrid) -> None:
        grid.fault = lambda reply, device, training: [] if device == 1 else [reply]

    result, _ = deploy(tmp_path, table, prepare, patience=2.0)
    assert result.metrics["ready"].tolist() == [0, 3, 3, 3]
    np.testing.assert_allclose(np.diff(result.metrics["time_s"]), 16.0)  # the patience


def test_a_round_without_anybody_to_ask_lasts_a_period(tmp_path: Path) -> None:
    """All devices are away from 7 s to 20 s; SCAFFOLD would have sent a shift to each."""
    rule = {"name": "scaffold", "participants": K}
    table = {**TABLE, "rounds": 4, "algorithms": [rule], "plugins": [str(PLUGIN)], "model": {"name": "softmax"}}
    grid = make_grid(tmp_path, table)
    nodes = [grid.connect(k, K) for k in range(K)]
    grid.clock.at(7.1, lambda: [grid.disconnect(node) for node in nodes] and None)
    grid.clock.at(20.0, lambda: [grid.connect(k, K) for k in range(K)] and None)
    result = run(grid, tmp_path)
    assert 0 in result.metrics["ready"][1:].tolist()
    assert result.metrics["ready"][-1] == K


def test_a_synchronous_round_takes_no_answer_of_an_earlier_one(tmp_path: Path) -> None:
    table = {**TABLE, "rounds": 4, "algorithms": [{"name": "local-sgd", "participants": K}]}

    def prepare(grid: MemoryGrid) -> None:
        own = grid.latency_s
        grid.latency_s = lambda device, training: 20.0 if device == 1 else own(device, training)

    result, _ = deploy(tmp_path, table, prepare, patience=2.0)
    assert result.devices["staleness"].tolist() == [0] * len(result.devices["staleness"])
    incidents = result.info["deployment"]["algorithms"]["local-sgd"]["incidents"]
    assert {(i["device"], i["kind"]) for i in incidents} == {(1, "no answer"), (1, "late")}


class StuckGrid(MemoryGrid):
    """A device dies during its upload, so the pull of that one answer hangs."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = list(message_ids)
        if getattr(self, "stuck", None) in wanted:
            self.released.wait(60)  # type: ignore[attr-defined]
        return super().pull_messages(wanted)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        ids = list(super().push_messages(sent))
        for message, name in zip(sent, ids, strict=True):
            order = message.content.get("order")
            if order is not None and (order["device"], order["training"]) == BAD:
                self.stuck = name
        return ids


def test_a_pull_that_hangs_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paota.deploy.flower_transport.STUCK_S", 0.2)
    grid = make_grid(tmp_path, TABLE, StuckGrid)
    grid.released = threading.Event()  # type: ignore[attr-defined]
    for k in range(K):
        grid.connect(k, K)
    try:
        result = run(grid, tmp_path)
    finally:
        grid.released.set()  # type: ignore[attr-defined]
    devices = result.devices
    assert all(devices["round"][devices["device"] == k].tolist() == list(range(1, 9)) for k in (1, 2, 3))
    assert 2 not in devices["round"][devices["device"] == 0].tolist()


class DamagedGrid(MemoryGrid):
    """Flower reads the first hello of device 0 and its answer `BAD` from bytes without an end, as `HttpGrid` reads them."""

    damaged: set[str]
    greeted = False

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        ids = list(super().push_messages(sent))
        for message, name in zip(sent, ids, strict=True):
            order = message.content.get("order")
            if order is not None and (order["device"], order["training"]) == BAD:
                self.damaged.add(name)
            if order is None and message.metadata.dst_node_id == 1000 and not self.greeted:
                self.greeted = True
                self.damaged.add(name)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            if reply.metadata.reply_to_message_id in self.damaged:
                held = get_all_nested_objects(reply)
                contents = {name: item.deflate()[:-8] for name, item in held.items()}
                return [inflate_object_from_contents(reply.object_id, contents)]  # type: ignore[list-item]
        return replies


def test_an_answer_that_flower_cannot_read_is_an_incident_of_its_device(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = make_grid(tmp_path, TABLE, DamagedGrid)
    grid.damaged = set()  # type: ignore[attr-defined]
    for k in range(K):
        grid.connect(k, K)
    result = run(grid, tmp_path)
    assert any("node 1000 does not take part yet: its hello cannot be read" in message for message in caplog.messages)
    incidents = result.info["deployment"]["algorithms"]["paota"]["incidents"]
    assert [(i["device"], i["kind"], i["count"]) for i in incidents] == [(0, "unreadable", 1)]
    devices = result.devices
    assert devices["round"][devices["device"] == 0].tolist() == [1, 3, 4, 5, 6, 7, 8]
    assert all(devices["round"][devices["device"] == k].tolist() == list(range(1, 9)) for k in (1, 2, 3))


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from helpers.deployment import make_grid, run
from deploy.test_server import K, TABLE
folder = Path(sys.argv[1])
grid = make_grid(folder, TABLE)
for k in range(K):
    grid.connect(k, K)
grid.clock.at(5 * 8.0 + 3.0, lambda: os.kill(os.getpid(), signal.SIGKILL))
run(grid, folder)
"""


def test_after_kill_9_the_server_goes_on_with_the_same_model_version(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(tests)], timeout=300, capture_output=True)
    assert killed.returncode == -9, killed.stderr.decode()
    saved = CheckpointFolder(tmp_path / "run" / "checkpoint-0").load()
    assert len(saved.history) == 5
    assert saved.in_flight == K

    grid = make_grid(tmp_path, TABLE, resume=True)
    for k in range(K):
        grid.connect(k, K)
    result = run(grid, tmp_path)
    (t,) = result.of("paota")
    assert grid.orders[0] == (0, 5, 6)  # version 5, and a training number that had not been given out before the kill
    assert t.metrics["round"].tolist() == list(range(9))
    np.testing.assert_allclose(t.metrics["time_s"], np.arange(9) * PERIOD_S)
    facts = result.info["deployment"]["algorithms"]["paota"]
    assert (facts["restarts"], facts["lost_in_restarts"]) == (1, K)
    assert not list((tmp_path / "run").glob("checkpoint*"))

    (tmp_path / "b").mkdir()
    whole, _ = deploy(tmp_path / "b", TABLE)
    before = whole.of("paota")[0].metrics
    np.testing.assert_array_equal(t.metrics["test_loss"][:6], before["test_loss"][:6])  # up to the kill: the same run


class ServerDied(Exception):
    pass


def dies(grid: MemoryGrid, when: float) -> None:
    """The server ends during a run. Its folder looks as after `kill -9`."""

    def end() -> None:
        raise ServerDied

    grid.clock.at(when, end)


def start_and_die(folder: Path, table: dict[str, Any], when: float) -> None:
    with pytest.raises(ServerDied):
        deploy(folder, table, lambda grid: dies(grid, when))


def go_on(folder: Path, table: dict[str, Any]) -> tuple[paota.Result, MemoryGrid]:
    return deploy(folder, table, resume=True)


def test_a_resumed_deployment_holds_what_an_undisturbed_one_holds(tmp_path: Path) -> None:
    """Nothing was in flight that counts, so even the models are the same: all devices train again from the same version."""
    table = {**TABLE, "algorithms": [{"name": "mifa"}, {"name": "paota"}], "plugins": [str(PLUGIN)], "rounds": 5}
    start_and_die(tmp_path, table, 3 * PERIOD_S + 1.0)
    resumed, grid = go_on(tmp_path, table)
    (tmp_path / "whole").mkdir()
    whole, _ = deploy(tmp_path / "whole", table)
    assert [t.label for t in resumed.trajectories] == ["mifa", "paota"]
    for name in ("round", "device", "version", "staleness", "start_s", "finish_s"):
        np.testing.assert_array_equal(resumed.devices[name], whole.devices[name], err_msg=name)
    (mifa,), (other,) = resumed.of("mifa"), whole.of("mifa")
    np.testing.assert_array_equal(mifa.metrics["test_loss"][:4], other.metrics["test_loss"][:4])
    assert grid.orders[0] == (0, 3, 4)  # the training under way is lost, and no mini-batch is drawn twice
    np.testing.assert_array_equal(resumed.of("paota")[0].model, whole.of("paota")[0].model)  # begun after it
    mifa_facts = resumed.info["deployment"]["algorithms"]["mifa"]
    assert (mifa_facts["restarts"], mifa_facts["lost_in_restarts"]) == (1, K)
    assert paota.load(tmp_path / "run").info["deployment"] == resumed.info["deployment"]


def test_updates_are_counted_on_after_a_restart(tmp_path: Path) -> None:
    """The scheme ends with a number of updates: those before the restart count, those that it lost do not."""
    table = {**TABLE, "algorithms": [{"name": "fedbuff", "buffer_size": 2}], "rounds": 4}
    (tmp_path / "whole").mkdir()
    whole, _ = deploy(tmp_path / "whole", table)
    start_and_die(tmp_path, table, 2 * PERIOD_S)
    before = CheckpointFolder(tmp_path / "run" / "checkpoint-0").load().history.rounds
    assert 0 < sum(len(event.trainings.device) for event in before) < whole.metrics["ready"].sum()
    resumed, _ = go_on(tmp_path, table)
    assert resumed.metrics["ready"].tolist() == whole.metrics["ready"].tolist()


def test_a_resume_with_other_data_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)

    def write_data() -> None:
        x, y = rng.random((80, 6), np.float32), np.arange(80) % 4
        np.savez(tmp_path / "device_scores.npz", x_train=x, y_train=y, x_test=x, y_test=y)

    write_data()
    table = {
        **TABLE,
        "data": {"dataset": str(tmp_path / "device_scores.npz"), "devices": K, "classes_per_device": 2, "sizes": [10]},
    }
    start_and_die(tmp_path, table, 2 * PERIOD_S + 1.0)
    write_data()
    with pytest.raises(paota.UserError, match=r"was made with a different '.*device_scores\.npz'"):
        go_on(tmp_path, table)


def test_who_arrives_at_the_same_moment_is_aggregated_one_after_the_other(tmp_path: Path) -> None:
    timing = {"latency": "per-device", "seconds": [6.0] * K}
    table = {**TABLE, "rounds": 2, "timing": timing, "algorithms": [{"name": "fedasync"}]}
    (real,), (sim,) = deploy(tmp_path, table)[0].trajectories, paota.run(table).trajectories
    for name in ("round", "device", "version", "staleness"):
        np.testing.assert_array_equal(real.devices[name], sim.devices[name], err_msg=name)
    np.testing.assert_allclose(real.model, sim.model, rtol=0, atol=2e-5 * np.abs(sim.model).max())


def test_where_nobody_was_ever_ready_it_is_said_that_nothing_was_learned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = {**TABLE, "rounds": 2, "timing": {"latency": "per-device", "seconds": [100.0] * K}}
    result, _ = deploy(tmp_path, table)
    assert not result.metrics["ready"].any()
    assert sum("paota: no device was ever ready, so nothing was learned" in text for text in caplog.messages) == 1


def test_a_folder_in_use_is_refused_unless_one_goes_on(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("mine")
    with pytest.raises(paota.UserError, match="exists already and is not empty"):
        deploy(tmp_path, TABLE)
    assert (tmp_path / "run" / "thesis.tex").read_text() == "mine"


def test_a_checkpoint_of_another_experiment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.toml").write_text("rounds = 3\n")
    with pytest.raises(paota.UserError, match="belongs to another experiment"):
        deploy(tmp_path, TABLE, resume=True)


def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoint-0").mkdir(parents=True)
    (tmp_path / "run" / "checkpoint-0" / "state.npz").write_bytes(b"rubbish")
    with pytest.raises(paota.UserError, match=r"checkpoint-0/state\.npz"):
        deploy(tmp_path, TABLE, resume=True)
