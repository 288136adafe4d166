"""A recorded run equals the same run without a record."""

from __future__ import annotations

import numpy as np
import pytest

from paota import simulate
from paota.experiment.experiment import Experiment
from paota.studies.bound import Landscape, record

SMALL = {
    "rounds": 4,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [20, 30]},
    "training": {"learning_rate": 0.01},
    "algorithms": [{"name": "paota"}],
}


def test_recording_does_not_change_the_run():
    experiment = Experiment.from_dict(SMALL)
    kept = record(experiment)
    plain = simulate.execute(simulate.prepare(experiment)).trajectories[0]
    assert kept.models.shape == (5, len(plain.model))
    np.testing.assert_array_equal(kept.models[-1], plain.model)
    landscape = Landscape(kept.plan.dataset, kept.plan.shards[0], experiment.model)
    values = [landscape.value_and_gradient(w)[0] for w in kept.models]
    assert values == pytest.approx(plain.metrics["train_loss"], rel=1e-4)  # the engine's F is this F
