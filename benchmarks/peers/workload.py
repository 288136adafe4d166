"""Write the common workload: the MNIST of paota, partitioned as in the paper, and which devices take part when."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from paota import simulate
from paota.experiment.experiment import Experiment

DEVICES_PER_ROUND = 59  # as many as PAOTA has ready on average with the paper's latencies and dT = 8 s
ROUNDS = 20_000


def export(path: Path, *, seed: int = 0) -> None:
    experiment = Experiment.from_dict({"rounds": 1, "seed": seed, "algorithms": [{"name": "paota"}]})
    plan = simulate.prepare(experiment)
    shards, data = plan.shards[seed], plan.dataset
    rng = np.random.default_rng(seed)
    participants = np.stack([rng.permutation(len(shards.sizes))[:DEVICES_PER_ROUND] for _ in range(ROUNDS)])
    arrays = {name: getattr(data, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(path, **arrays, indices=shards.indices, offsets=shards.offsets, participants=participants.astype(np.int16))


if __name__ == "__main__":
    export(Path(sys.argv[1]))
