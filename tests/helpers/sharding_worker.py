"""The program of a separate process: it runs one small experiment and writes its final models to an .npz."""

import json
import os
import sys

import numpy as np

from paota import simulate
from paota.engine import sharding


def arrays_of(result):
    """Return the numbers that two runs are compared by."""
    arrays = {f"model{i}": t.model for i, t in enumerate(result.trajectories)}
    arrays |= {f"weight{i}": t.devices["weight"] for i, t in enumerate(result.trajectories)}
    arrays |= {f"accuracy{i}": t.metrics["test_accuracy"] for i, t in enumerate(result.trajectories)}
    return arrays | {f"loss{i}": t.metrics["train_loss"] for i, t in enumerate(result.trajectories)}


if __name__ == "__main__":
    table, out = json.loads(sys.argv[1]), sys.argv[2]
    sharding.join_cluster()
    import jax

    result = simulate.run(table)
    facts = {"jax_devices": len(jax.devices()), "processes": jax.process_count(), "learner": result.info["learner"]}
    np.savez(out, facts=json.dumps(facts), **arrays_of(result))
    print("done", os.getpid(), facts)
