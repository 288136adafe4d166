"""More devices than memory: block by block must give what the whole matrix gives."""

import numpy as np
import pytest

import paota
from paota import simulate
from paota.engine import blocks as blocks_module
from paota.engine import structures


def in_blocks_of_sixteen(monkeypatch, held_bytes=0):
    for limit in ("SMALL_BYTES", "HELD_BYTES"):
        monkeypatch.setattr(structures, limit, held_bytes)
    monkeypatch.setattr(blocks_module, "HELD_BYTES", held_bytes)
    monkeypatch.setattr(structures, "BLOCK_BYTES", 0)  # the smallest block there is: 16 devices


ALGORITHMS = [
    {"name": "paota"},
    {"name": "local-sgd", "weighting": "samples"},
    {"name": "cotaf", "fading": True},
    {
        "name": "paota", "label": "otherwise", "payload": "update", "power": {"cap": "physical"},
        "server": {"optimiser": "momentum"},
        "training": {"epochs": 1, "optimiser": "momentum", "momentum": 0.5, "schedule": "cosine"},
    },
]  # fmt: skip
EXPERIMENT = {
    "rounds": 6,
    "data": {"dataset": "synthetic", "devices": 40, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "evaluation": {"train_loss": "batches"},
    "algorithms": ALGORITHMS,
}


@pytest.mark.parametrize(
    ("learner", "held_rows"), [("auto", 0), ("auto", 16), pytest.param("generic", 0, marks=pytest.mark.slow)]
)
def test_a_simulation_in_blocks_is_the_same(learner, held_rows, monkeypatch):
    monkeypatch.setenv("PAOTA_LEARNER", learner)
    everybody = held_rows > 0 or learner == "generic"  # without memory for a block: one rule will do
    table = EXPERIMENT if everybody else {**EXPERIMENT, "algorithms": ALGORITHMS[:1]}
    whole = simulate.run(table)
    in_blocks_of_sixteen(monkeypatch, held_bytes=held_rows * 4 * whole.trajectories[0].model.size)
    blocks = simulate.run(table)
    for a, b in zip(whole.trajectories, blocks.trajectories, strict=True):
        np.testing.assert_allclose(b.model, a.model, rtol=2e-4, atol=2e-5)
        for column in ("weight", "similarity", "transmit_power_w"):
            np.testing.assert_allclose(b.devices[column], a.devices[column], rtol=2e-3, atol=2e-5)
        np.testing.assert_allclose(b.metrics["train_loss"], a.metrics["train_loss"], rtol=2e-4)


def test_what_is_held_of_a_device_knows_how_long_its_signal_is():
    """Two frequencies, two parts of a complex number: a vote is four numbers a weight; a model and an update are two."""
    fsk_vote, paota_ = (paota.Experiment.from_dict({"algorithms": [{"name": name}]}) for name in ("fsk-vote", "paota"))
    held = [structures.row_bytes(made.algorithms[0].algorithm, 100) for made in (paota_, fsk_vote)]
    assert held == [4 * 2 * 100, 4 * 5 * 100]


def test_a_digital_rule_without_reports_trains_every_device_once(monkeypatch):
    """Weights that follow from the timeline need no first pass: twice the training would be a waste."""
    passes = []
    monkeypatch.setattr(blocks_module.Blocks, "first_pass", lambda self: passes.append(1))
    in_blocks_of_sixteen(monkeypatch)
    simulate.run({**EXPERIMENT, "rounds": 2, "algorithms": [{"name": "local-sgd"}]})
    assert passes == []
