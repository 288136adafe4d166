"""This project: `paota` is the paper's algorithm with its air and power control, `local-sgd` does what the peers do."""

import sys

from protocol import Pacer

from paota import Callback, Round, simulate
from paota.experiment.experiment import Experiment
from paota.simulate.programs import describe_learners

ROUNDS_A_CALL = 10
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
plan = simulate.prepare(experiment)


class Paced(Callback):
    def compile(self, label: str, seconds: float | None) -> None:
        if seconds is not None:
            pacer.ready("paota", "jax", "jaxlib", learner=describe_learners(plan))

    def round(self, round: Round) -> None:
        if round.round and round.round % ROUNDS_A_CALL == 0:  # all of them have just been computed
            pacer.round_done(round.test_accuracy, ROUNDS_A_CALL)


simulate.execute(plan, callbacks=[Paced()], events_per_call=ROUNDS_A_CALL)
