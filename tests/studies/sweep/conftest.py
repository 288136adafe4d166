"""A small experiment that every test of the sweep can afford."""

import pytest

from paota.experiment.experiment import Experiment

TABLE = {
    "name": "small",
    "rounds": 6,
    "targets": [0.3],
    "data": {"dataset": "synthetic", "devices": 6, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "evaluation": {"train_loss": "batches"},
    "algorithms": [{"name": "local-sgd"}],
}


@pytest.fixture
def table():
    return TABLE


@pytest.fixture
def base():
    return Experiment.from_dict(TABLE)
