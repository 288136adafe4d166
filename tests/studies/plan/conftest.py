"""A small experiment that every test of the planner can afford."""

import pytest

TABLE = {
    "name": "small",
    "duration_s": 80.0,
    "targets": [0.2],
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [60]},
    "training": {"local_steps": 2, "batch_size": 8, "learning_rate": 0.1},
    "model": {"name": "softmax"},
    "algorithms": [{"name": "paota"}, {"name": "local-sgd"}],
}


@pytest.fixture
def table():
    return TABLE
