"""The weight-independent half of an experiment: who holds what, and who takes part when. All refusals happen here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..data.dataset import Dataset
from ..data.load import load_data
from ..data.partition import deal
from ..data.shards import Shards
from ..errors import UserError
from ..experiment import Contestant, Experiment
from ..registry import SERVER_OPTIMISERS
from ..rng import Purpose, Seeds, host_rng, seed_numbers
from ..timing.schemes import Synchronous
from ..timing.timeline import Timeline
from ..training.augmentation import check_images
from .surroundings import surroundings

if TYPE_CHECKING:
    from ..air.spending import Costs
    from ..models.base import Model


@dataclass(frozen=True)
class Plan:
    """What `plan` has found out; everything that is left needs weights."""

    experiment: Experiment
    dataset: Dataset
    seeds: tuple[int, ...]
    shards: Mapping[int, Shards]  # by seed
    timelines: Mapping[tuple[str, int], Timeline]  # by (label, seed)
    judged_every: Mapping[tuple[str, int], int]  # events between evaluations, by (label, seed)

    @property
    def model(self) -> Model:
        """What is learned, made for the samples at hand."""
        from ..models.own import fitted

        return fitted(self.experiment.model, tuple(self.dataset.input_shape), self.dataset.num_classes)

    def units(self) -> Iterator[tuple[Contestant, int]]:
        for contestant in self.experiment.contestants:
            for seed in self.seeds:
                yield contestant, seed


def plan(experiment: Experiment, *, seeds: Seeds = 1) -> Plan:
    """Everything that can be known, and refused, before the first computation; `seeds` as for `paota.run`."""
    from ..models.check import check_model  # JAX, not before it is needed
    from ..models.own import fitted

    numbers = seed_numbers(seeds, experiment.seed)
    for contestant in experiment.contestants:
        _check_server(contestant)
    data = experiment.data
    dataset = load_data(data, base=experiment.base)
    model = fitted(experiment.model, tuple(dataset.input_shape), dataset.num_classes)
    trainings = [contestant.training for contestant in experiment.contestants]
    check_model(model, tuple(dataset.input_shape), dataset.num_classes, experiment.seed, trainings)
    for contestant in experiment.contestants:
        check_images(contestant.training, dataset)
    shards, timelines, judged_every = {}, {}, {}
    for seed in numbers:
        rng = host_rng(seed, Purpose.PARTITION)
        shards[seed] = deal(data.partition, dataset, devices=data.devices, rng=rng)
        for contestant in experiment.contestants:
            made = surroundings(experiment, contestant, seed, model=model, dataset=dataset, shards=shards[seed])
            world = made.world
            timeline = contestant.algorithm.scheme.timeline(world)
            if not len(timeline):
                raise UserError(f"'{contestant.label}' makes no aggregation before the end: raise rounds or duration_s")
            timelines[contestant.label, seed] = timeline = made.as_it_goes(timeline)
            # One arrival an event would be judged far too often: keep about as many device updates between two looks.
            events = world.match_participants() / max(timeline.ready.mean(), 1e-9)
            judged_every[contestant.label, seed] = experiment.evaluation.every * max(1, round(events))
    return Plan(experiment, dataset, numbers, shards, timelines, judged_every)


def _check_server(contestant: Contestant) -> None:
    """A server optimiser accelerates a mean update; the mean of stale models points back to where they started.

    In a synchronous round nobody is stale: the mean model is w^r plus the mean update.
    """
    name = SERVER_OPTIMISERS.name_of(type(contestant.server.optimiser))
    fresh = isinstance(contestant.algorithm.scheme, Synchronous)
    if name != "none" and not fresh and getattr(contestant.algorithm, "payload", "model") != "update":
        raise UserError(
            f"server.optimiser = '{name}' needs an algorithm that sends updates, and '{contestant.label}' sends models: "
            "choose payload = 'update', where the algorithm has it, or server.optimiser = 'none'"
        )


def costs_of(plan: Plan, contestant: Contestant, seed: int) -> Costs:
    """What the trainings and transfers of one algorithm cost with one seed."""
    return surroundings(
        plan.experiment, contestant, seed, model=plan.model, dataset=plan.dataset, shards=plan.shards[seed]
    ).costs
