"""This project: `paota` is the paper's algorithm with its air and power control, `local-sgd` does what the peers do."""

import sys

from protocol import Pacer

from paota import simulate
from paota.experiment import Experiment
from paota.simulate.schedule import Schedule, learners_in_words

pacer = Pacer()
name = sys.argv[2]
own = {"participants": 59} if name == "local-sgd" else {}
experiment = Experiment.from_dict(
    {
        "rounds": 20_000,
        # The peers do not compute the loss over all training data every round, so neither do we.
        "evaluation": {"every": 1, "train_loss": "batches"},
        "algorithms": [{"name": name, **own}],
    }
)
plan = simulate.plan(experiment)


class Paced(simulate.Silent):
    def __init__(self) -> None:
        self.done = 0

    def compiled(self, label: str, seconds: float) -> None:
        pacer.ready("paota", "jax", "jaxlib", learner=learners_in_words(plan))

    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None:
        new, self.done = round - self.done, round
        pacer.round_done(accuracy, new)


schedule = Schedule(plan, progress=Paced())
schedule.trajectories()
