import pytest

from paota import simulate
from paota.experiment.experiment import Experiment

TABLE = {
    "name": "small",
    "rounds": 20,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "timing": {"period_s": 6.0},  # stalenesses up to 2: the ring buffer matters
    "algorithms": [{"name": "paota"}, {"name": "local-sgd"}],
}


def plan_of(seeds=2, **changes):
    return simulate.prepare(Experiment.from_dict(TABLE | changes), seeds=seeds)


def bits(trajectory):
    """Everything that must not depend on who listens."""
    tables = {"metrics": trajectory.metrics, "devices": trajectory.devices}
    return trajectory.model.tobytes(), {
        (table, name): column.tobytes() for table, columns in tables.items() for name, column in columns.items()
    }


@pytest.fixture(scope="session")
def whole():
    """The run without callbacks."""
    return simulate.execute(plan_of())
