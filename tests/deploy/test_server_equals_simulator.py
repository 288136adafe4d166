"""A deployment with scripted latencies equals the simulation: same ready sets, staleness, powers and model.

Server loop, wire format, ClientApp and local training are the real ones; only transport and clock are in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from flwr.app import Context, RecordDict
from helpers.deployment import deploy

import paota
from paota.base.errors import UserError
from paota.base.files import to_toml
from paota.deploy.client import LocalTask, training_of

TABLE = {
    "name": "scripted",
    "rounds": 12,
    "data": {"dataset": "synthetic", "devices": 9, "sizes": [40, 50, 60]},
    "training": {"local_steps": 3, "batch_size": 8},
    "air": {"n0_dbm_per_hz": -60.0},  # loud enough that a wrong noise draw would show
}

PLUGIN = Path(__file__).parents[1] / "helpers" / "remembering.py"

CASES = {
    "paota": {"name": "paota"},
    "paota-update": {"name": "paota", "payload": "update", "label": "paota-update"},
    "paota-physical": {"name": "paota", "label": "paota-physical", "power": {"cap": "physical"}},
    "paota-fresh": {"name": "paota", "label": "paota-fresh", "guards": {"max_staleness": 0, "max_update_norm": 0.2}},
    "local-sgd": {"name": "local-sgd"},
    "local-sgd-samples": {"name": "local-sgd", "weighting": "samples", "participants": 4, "label": "local-sgd-samples"},
    "cotaf": {"name": "cotaf", "fading": True},
    "paota-trained-otherwise": {
        "name": "paota", "payload": "update", "label": "paota-trained-otherwise",
        "training": {"optimiser": "momentum", "schedule": "exponential", "decay_factor": 0.8, "epochs": 1, "proximal": 0.1},
        "server": {"optimiser": "momentum", "learning_rate": 0.5},
    },
    "fedbuff": {"name": "fedbuff", "buffer_size": 3},
    "fedasync": {"name": "fedasync"},
    "fed-plus": {"name": "paota-plus", "label": "fed-plus"},
    "fed-restarts": {"name": "paota-plus", "label": "fed-restarts"},
    "fed-first": {"name": "local-sgd", "label": "fed-first", "participants": 3, "selected": 9},
    "fed-groups": {"name": "air-fedga", "label": "fed-groups", "groups": 3},
    "tiers": {"name": "tt-fed", "label": "tiers", "timing": {"period_s": 3.0}},
    "fed-deadline": {"name": "local-sgd", "label": "fed-deadline", "participants": 9, "deadline_s": 9.7},
    "threshold": {"name": "threshold"},
    "full-power": {"name": "full-power"},
    "baa": {"name": "baa"},
    "majority-vote": {"name": "majority-vote"},
    "saota": {"name": "saota"},
    "sa-airfed": {"name": "sa-airfed"},
    "biased-ota": {"name": "biased-ota"},
    "energy-aware": {"name": "energy-aware"},
    "age-top-k": {"name": "age-top-k"},
    "fsk-vote": {"name": "fsk-vote"},
    "paota-augmented": {"name": "paota", "label": "paota-augmented", "training": {"augment": "crop-flip"}},
    "paota-heard": {"name": "paota", "label": "paota-heard", "similarity": "heard"},
    "fed-tiers": {"name": "fedat", "label": "fed-tiers", "tiers": 3},
    "age-based": {"name": "age-based", "participants": 4},
    "mifa": {"name": "mifa"},
    "fed-own": {"name": "mifa-after-three", "label": "fed-own"},
    "scaffold": {"name": "scaffold", "participants": 4},
    "worst-first": {"name": "worst-first"},
    "local-sgd-transfers": {
        "name": "local-sgd", "participants": 4, "label": "local-sgd-transfers",
        "air": {"digital": "rated", "up_mbit_per_s": 0.2, "downlink": "digital", "down_mbit_per_s": 0.5},
    },
}  # fmt: skip


LONG = (
    "paota-update",
    "paota-physical",
    "paota-heard",
    "fedasync",
    "fed-groups",
    "worst-first",
    "local-sgd-transfers",
    "paota-augmented",
    "paota-trained-otherwise",
    "local-sgd-samples",
    "paota-fresh",
    "fed-deadline",
    "threshold",
    "full-power",
    "baa",
    "majority-vote",
    "saota",
    "sa-airfed",
    "biased-ota",
    "energy-aware",
    "age-top-k",
    "fsk-vote",
)  # what each of them does beyond the others is in one line of the server's; all compile programs of their own


@pytest.mark.parametrize("label", [pytest.param(label, marks=[pytest.mark.slow] * (label in LONG)) for label in CASES])
def test_deployment_equals_simulation(label: str, tmp_path: Path) -> None:
    table = {**TABLE, "algorithms": [CASES[label]], "plugins": [str(PLUGIN)]}
    if label == "paota-augmented":
        table["data"] = {**TABLE["data"], "normalise": "channel"}
    scale = 1.0
    if label.startswith("fed"):  # every arrival counts: far apart, and seen soon
        table |= {"rounds": 4, "timing": {"latency": "per-device", "seconds": [5.03 + 0.97 * k for k in range(9)]}}
        scale = 50.0
    if label == "fed-restarts":  # latencies are redrawn: PAOTA+ aborts the trainings that are under way
        table |= {"rounds": 12, "timing": {"latency": "uniform"}}
    simulated = paota.run(table)
    deployed, _ = deploy(tmp_path, table, **{"time-scale": scale, "emulate-latency": True})

    (sim,), (real,) = simulated.of(label), deployed.of(label)
    assert label != "fed-restarts" or sim.metrics["aborted"].sum() > 0
    for column in ("round", "device", "version", "staleness"):
        np.testing.assert_array_equal(real.devices[column], sim.devices[column], err_msg=column)
    np.testing.assert_array_equal(real.metrics["ready"], sim.metrics["ready"])
    if label.startswith("paota"):  # at the deadline itself
        np.testing.assert_allclose(real.metrics["time_s"], sim.metrics["time_s"], rtol=1e-12)
        np.testing.assert_allclose(real.devices["start_s"], sim.devices["start_s"], rtol=1e-12)
        assert sim.devices["staleness"].max() == (0 if label == "paota-fresh" else 1)
    # The mailbox is looked at every quarter of a second, so an arrival is seen at most that much later.
    late_s = real.devices["finish_s"] - real.devices["start_s"] - (sim.devices["finish_s"] - sim.devices["start_s"])
    assert ((late_s > -1e-6) & (late_s < 0.25 + 1e-6)).all()
    # Training one device and training many side by side differ in the last bits of a float32.
    for column in ("amplitude", "weight", "similarity", "transmit_power_w"):
        np.testing.assert_allclose(real.devices[column], sim.devices[column], rtol=2e-4, atol=1e-6, err_msg=column)
    np.testing.assert_allclose(real.model, sim.model, rtol=0, atol=2e-5 * np.abs(sim.model).max())
    np.testing.assert_allclose(real.metrics["test_accuracy"], sim.metrics["test_accuracy"], atol=0.011)
    np.testing.assert_allclose(real.metrics["train_loss"], sim.metrics["train_loss"], rtol=1e-3)


def test_every_algorithm_that_can_be_deployed_is_compared() -> None:
    from paota.base.registry import ALGORITHMS

    own = {name for name in ALGORITHMS if ALGORITHMS[name].__module__.startswith("paota.")}
    assert own <= {str(case["name"]) for case in CASES.values()}


@pytest.mark.parametrize("label", ["paota", pytest.param("fed-plus", marks=pytest.mark.slow)])
def test_a_deployment_stops_where_the_simulation_stops(label: str, tmp_path: Path) -> None:
    table: dict[str, Any] = {**TABLE, "model": {"name": "softmax"}, "algorithms": [CASES[label]]}
    table |= {"timing": {"latency": "per-device", "seconds": [5.03 + 0.97 * k for k in range(9)]}}
    whole = paota.run(table).of(label)[0].metrics["test_accuracy"]
    table["evaluation"] = {"stop_at": float(np.nanmax(whole[:-1])) - 0.005}
    (sim,), (real,) = paota.run(table).of(label), deploy(tmp_path, table, **{"time-scale": 50.0})[0].of(label)
    assert sim.stopped_round is not None
    assert 0 < sim.stopped_round < len(whole) - 1
    assert real.stopped_round == sim.stopped_round
    np.testing.assert_array_equal(real.metrics["round"], sim.metrics["round"])


def test_the_run_folder_is_the_simulators(tmp_path: Path) -> None:
    table = {**TABLE, "rounds": 4, "algorithms": [{"name": "paota"}, {"name": "local-sgd"}]}
    deployed, _ = deploy(tmp_path, table)
    paota.run(table).save(tmp_path / "simulated")
    names = {file.name for file in (tmp_path / "simulated").iterdir()}
    assert {file.name for file in (tmp_path / "run").iterdir()} == names
    header = (tmp_path / "simulated" / "metrics.csv").read_text().splitlines()[0]
    assert (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0] == header
    loaded = paota.load(tmp_path / "run")
    assert loaded.labels == ["paota", "local-sgd"]
    np.testing.assert_array_equal(loaded.of("paota")[0].model, deployed.of("paota")[0].model)
    assert loaded.info["deployment"]["algorithms"]["paota"]["incidents"] == []


def test_time_scale_changes_nothing_but_the_pace(tmp_path: Path) -> None:
    table = {**TABLE, "rounds": 5, "algorithms": [{"name": "paota"}]}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    usual, _ = deploy(tmp_path / "a", table)
    quick, grid = deploy(tmp_path / "b", table, **{"time-scale": 0.125, "poll-s": 0.03125})
    assert grid.clock.time == pytest.approx(5 * 8.0 * 0.125, abs=2.0)  # and some seconds for the last trainings
    np.testing.assert_array_equal(quick.of("paota")[0].model, usual.of("paota")[0].model)
    np.testing.assert_allclose(quick.metrics["time_s"], usual.metrics["time_s"])


def test_a_device_finds_its_training_by_the_label_in_the_order(tmp_path: Path) -> None:
    algorithms = [{"name": "paota"}, {"name": "local-sgd", "training": {"optimiser": "adam", "beta1": 0.5}}]
    (tmp_path / "experiment.toml").write_text(to_toml({**TABLE, "algorithms": algorithms}))
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    order = {"device": 0, "version": 0, "training": 0, "latency_s": 0.0, "model": {}}
    plain = {"local_steps": 3, "batch_size": 8, "learning_rate": 0.1}
    found = [
        training_of(LocalTask(label=label, **order, **plain), context, tmp_path) for label in ("paota", "local-sgd")
    ]
    assert found[0].beyond_plain_sgd is None
    assert (found[1].optimiser.beta1, found[1].local_steps) == (0.5, 3)
    with pytest.raises(UserError, match="the device's experiment file has no algorithm 'cotaf'"):
        training_of(LocalTask(label="cotaf", **order, **plain), context, tmp_path)
