"""Devices that mean harm: what one of them, or three of ten, can do to the others' model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from helpers.deployment import make_grid, run
from numpy.typing import NDArray

import paota
from paota.deploy.answers import Arrival, Influence
from paota.deploy.client import LocalResult, LocalTask, answer_hello, answer_order, train_with_jax
from paota.deploy.roster import Flight

K = 10
TABLE: dict[str, Any] = {
    "name": "hostile",
    "rounds": 12,
    "data": {"dataset": "synthetic", "devices": K, "sizes": [60], "classes_per_device": 10},
    "training": {"local_steps": 20, "batch_size": 10, "learning_rate": 0.3},
    "evaluation": {"every": 4},
    "power": {"cap": "paper"},  # the physical cap gives a long update a small amplitude, and so a small weight
    "timing": {"latency": "per-device", "seconds": [5.0 + 0.2 * k for k in range(K)]},
    "algorithms": [{"name": "paota", "payload": "update"}, {"name": "local-sgd", "participants": K}],
}
Model = Mapping[str, NDArray[Any]]


def noise(start: Model, trained: Model, number: int) -> dict[str, NDArray[Any]]:
    """Gaussian noise 90 times as long as the model."""
    rng = np.random.default_rng(number)
    drawn = {name: rng.standard_normal(array.shape) for name, array in start.items()}
    length = np.sqrt(sum(float((array**2).sum()) for array in start.values()))
    size = np.sqrt(sum(float((array**2).sum()) for array in drawn.values()))
    return {name: start[name] + 90 * length / size * array for name, array in drawn.items()}


def scaled(factor: float) -> Callable[[Model, Model, int], dict[str, NDArray[Any]]]:
    return lambda start, trained, _: {n: start[n] + factor * (trained[n] - start[n]) for n in start}


class Replay:
    """Always the first model that the device received."""

    def __init__(self) -> None:
        self.first: Model | None = None

    def __call__(self, start: Model, trained: Model, number: int) -> Model:
        self.first = self.first or dict(start)
        return self.first


ATTACKS: dict[str, Callable[[], Any]] = {
    "noise": lambda: noise,
    "sign flip": lambda: scaled(-1.0),
    "scaling": lambda: scaled(-50.0),
    "stale replay": Replay,
}


def hostile_client(folder: Path, attack: Any, attackers: int) -> ClientApp:
    app = ClientApp()

    @app.query()
    def hello(message: Message, context: Context) -> Message:
        return answer_hello(message, context)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        def spoilt(task: LocalTask) -> LocalResult:
            result = train_with_jax(context, folder)(task)
            if task.device >= attackers:
                return result
            model = {n: np.asarray(a, np.float32) for n, a in attack(task.model, result.model, task.training).items()}
            return dataclasses.replace(result, model=model)

        return answer_order(message, context, spoilt)

    return app


def final_accuracy(folder: Path, attack: str | None, attackers: int, label: str, **config: Any) -> Any:
    folder.mkdir(exist_ok=True)
    grid = make_grid(folder, TABLE, algorithms=label, **config)
    grid.app = hostile_client(folder, ATTACKS[attack]() if attack else None, attackers if attack else 0)
    for k in range(K):
        grid.connect(k, K)
    result = run(grid, folder)
    return float(result.of(label)[0].metrics["test_accuracy"][-1]), result


@pytest.mark.parametrize("label", ["paota", pytest.param("local-sgd", marks=pytest.mark.slow)])
def test_without_a_limit_one_device_destroys_the_model_and_with_it_the_model_learns(tmp_path: Path, label: str) -> None:
    honest, _ = final_accuracy(tmp_path / "honest", None, 0, label)
    destroyed, _ = final_accuracy(tmp_path / "open", "noise", 1, label, **{"max-influence": 0.0})
    bounded, result = final_accuracy(tmp_path / "bounded", "noise", 1, label)
    assert honest > 0.8
    assert destroyed < 0.4
    assert bounded > honest - 0.1
    incidents = {(i["device"], i["kind"]) for i in result.info["deployment"]["algorithms"][label]["incidents"]}
    assert (0, "huge update") in incidents
    assert {kind for device, kind in incidents if device != 0} <= {"long update"}  # the others are refused nothing


@pytest.mark.slow
@pytest.mark.parametrize("attackers", [1, 3])
@pytest.mark.parametrize("attack", ATTACKS)
def test_up_to_three_of_ten_do_not_destroy_it(tmp_path: Path, attack: str, attackers: int) -> None:
    honest, _ = final_accuracy(tmp_path / "honest", None, 0, "paota")
    attacked, _ = final_accuracy(tmp_path / "attacked", attack, attackers, "paota")
    assert attacked > honest - (0.1 if attackers == 1 else 0.3)


# ---- the limit itself ------------------------------------------------------------


def arrival(device: int, length: float, samples: float = 10.0) -> Arrival:
    flight = Flight(message="m", node=device, device=device, version=0, training=0, start_s=0.0)
    return Arrival(flight=flight, finish_s=1.0, model=np.float32([length, 0.0]), num_samples=samples, loss=0.0)


STARTS = {0: np.zeros(2, np.float32)}


def test_a_long_update_is_scaled_down_to_the_limit_and_a_very_long_one_refused() -> None:
    influence = Influence(2.0)
    kept, notes = influence.bounded([arrival(k, x) for k, x in enumerate([1.0, 1.0, 1.0, 4.0, 10.5])], STARTS)
    assert [a.model[0] for a in kept] == [1.0, 1.0, 1.0, 2.0]
    assert [(device, kind) for device, kind, _ in notes] == [(3, "long update"), (4, "huge update")]


def test_each_device_has_one_vote_however_often_it_answers() -> None:
    influence = Influence(2.0)
    influence.bounded([arrival(k, 1.0) for k in range(3)], STARTS)
    for _ in range(20):
        kept, _ = influence.bounded([arrival(9, 100.0)], STARTS)
        assert not kept


def test_before_there_is_a_median_the_model_is_the_measure() -> None:
    kept, notes = Influence(2.0).bounded([arrival(0, 90.0)], STARTS)
    assert (kept, notes[0][1]) == ([], "huge update")
    starts = {0: np.array([30.0, 40.0], np.float32)}
    inside = dataclasses.replace(arrival(0, 0.0), model=np.float32([30.0, 80.0]))
    assert Influence(2.0).bounded([inside], starts) == ([inside], [])


def test_claimed_samples_are_capped_against_the_fleet() -> None:
    kept, notes = Influence(2.0).bounded([arrival(0, 1.0), arrival(1, 1.0), arrival(2, 1.0, samples=1e9)], STARTS)
    assert [a.num_samples for a in kept] == [10.0, 10.0, 100.0]
    assert [(device, kind) for device, kind, _ in notes] == [(2, "many samples")]


def test_switched_off_everything_passes() -> None:
    many = [arrival(k, 10.0**k) for k in range(6)]
    assert Influence(0.0).bounded(many, STARTS) == (many, [])


# ---- node keys ------------------------------------------------------------


def test_a_node_cannot_take_the_place_of_another_device(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = {**TABLE, "rounds": 3, "data": {**TABLE["data"], "devices": 3}, "algorithms": [{"name": "paota"}]}
    table["timing"] = {"latency": "per-device", "seconds": [5.0] * 3}
    grid = make_grid(tmp_path, table, **{"nodes": "1000,1001,1002", "join-s": 5.0})
    for k in range(3):
        grid.connect(k, 3)
    grid.connect(0, 3, node=1002)  # the key of device 2, under the number of device 0
    grid.connect(1, 3, node=7)  # a key that was never registered
    grid.connect(2, 3, node=1003)
    grid.run_config["min-devices"] = 2
    result = run(grid, tmp_path)
    assert set(result.devices["device"].tolist()) == {0, 1}
    assert any("its key is device 2's" in message for message in caplog.messages)
    assert any("its key is no device's" in message for message in caplog.messages)


def test_node_numbers_must_be_numbers() -> None:
    from paota.deploy.settings import Deployment

    assert Deployment(nodes="18446744073709551615, 7").device_of_node == {18446744073709551615: 0, 7: 1}
    with pytest.raises(paota.UserError, match="nodes must be whole numbers"):
        _ = Deployment(nodes="7,x").device_of_node
