"""The first week of a PyTorch researcher: own models, data, rules and metrics. Run it with: python examples/first_week.py

It is a plain script without `if __name__ == "__main__":`, and also uses several processes. The tests run it.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import torch
from torch import nn

import paota

small = {"rounds": 3, "data": {"dataset": "synthetic", "devices": 8, "sizes": [60]}, "algorithms": [{"name": "paota"}]}


class Net(nn.Module):
    """The textbook network for grey images, with dropout."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.LazyLinear(10))
        self.layers(torch.zeros(1, 1, 8, 8))

    def forward(self, x):
        return self.layers(x)


# A class with a loss and a score of its own, and a rule that shifts gradients.
def squared(outputs, y):
    return ((outputs - nn.functional.one_hot(y, 10)) ** 2).sum(-1)


def closeness(outputs, y):
    return -squared(outputs, y)


model = paota.as_model(Net, loss=squared, score=closeness, score_name="closeness")
result = paota.run({**small, "model": model, "algorithms": [{"name": "scaffold"}]})
assert result.info["score"] == "closeness"
assert result.array("scaffold", "test_accuracy").max() < 0

# A data set of one's own, which can be given again; a rule of one's own, in 10 lines.
rng = np.random.default_rng(0)
labels = rng.integers(10, size=800)
images = (rng.normal(size=(10, 8, 8))[labels] + rng.normal(size=(800, 8, 8))).astype(np.float32)
mine = paota.Dataset.from_arrays(
    name="mine", x_train=images[:600], y_train=labels[:600], x_test=images[600:], y_test=labels[600:]
)


@dataclass(frozen=True, kw_only=True)
class Fresh(paota.Algorithm):
    """Full power for fresh updates, half of it for stale ones."""

    payload = "update"
    scheme = paota.Periodic()

    def amplitudes(self, event, uplink, power):
        cap = paota.amplitude_cap(uplink, event.energy, power.cap)
        return paota.average(jnp.where(event.staleness > 0, cap / 2, cap), event)


paota.register("algorithm", "fresh", Fresh)
own = {**small, "model": Net(), "data": {**small["data"], "dataset": mine}, "algorithms": [{"name": "fresh"}]}
result = paota.run(own)
again = paota.run({**own, "data": {**own["data"], "dataset": result.dataset}})
assert result.array("fresh", "test_loss").tolist() == again.array("fresh", "test_loss").tolist()  # same seed, same bits

# A sweep of all that, in this process and in two.
for jobs in (1, 2):
    found = paota.sweep(own, over={"training.learning_rate": [0.05, 0.1]}, jobs=jobs, best="final_accuracy")
    assert not found.failed, found.failed
    assert found.of("fresh")[1].score(found.best_by).median == result.array("fresh", "test_accuracy")[0, -1]
