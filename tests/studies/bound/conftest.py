"""A small objective that the tests of several modules use."""

from __future__ import annotations

import pytest

from paota import simulate
from paota.experiment.experiment import Experiment
from paota.studies.bound import Landscape

SMALL = {
    "rounds": 4,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [20, 30]},
    "training": {"learning_rate": 0.01},
    "algorithms": [{"name": "paota"}],
}


@pytest.fixture(scope="session")
def landscape():
    experiment = Experiment.from_dict({**SMALL, "model": {"name": "softmax"}})
    plan = simulate.prepare(experiment)
    return Landscape(plan.dataset, plan.shards[0], experiment.model)
