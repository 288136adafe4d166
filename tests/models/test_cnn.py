"""A convolutional model's results depend neither on how many events a call has, nor on company, nor on more seeds."""

from __future__ import annotations

import pytest

from paota import simulate

SMALL = {
    "rounds": 4,
    "data": {"dataset": "synthetic", "devices": 6, "sizes": [30]},
    "model": {"name": "cnn", "channels": [8, 16], "dense": 8, "groups": 4},
    "training": {"local_steps": 2, "batch_size": 8},
    "evaluation": {"every": 2, "train_loss": "batches"},
}
BOTH = [{"name": "paota"}, {"name": "local-sgd", "participants": 3}]


def models(algorithms, seeds: int, events_per_call: int) -> dict[tuple[str, int], bytes]:
    result = simulate.run({**SMALL, "algorithms": algorithms}, seeds=seeds, events_per_call=events_per_call)
    return {(t.label, t.seed): t.model.tobytes() for t in result.trajectories}


@pytest.mark.bits
def test_chunk_company_and_seeds_change_nothing():
    together, alone = models(BOTH, seeds=2, events_per_call=1), models(BOTH[:1], seeds=1, events_per_call=4)
    assert len(together) == 4
    assert alone["paota", 0] == together["paota", 0] != together["paota", 1]
