"""The weight-independent half of an experiment: who holds what, and who takes part when. All refusals happen here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..data.dataset import Dataset
from ..data.load import load_data
from ..data.partition import deal
from ..data.shards import Shards, describe
from ..errors import UserError
from ..experiment import Contestant, Experiment
from ..faults.timing import FaultyLatencies, apply_faults
from ..registry import SERVER_OPTIMISERS
from ..rng import Purpose, Seeds, host_rng, seed_numbers
from ..timing.latency import Latencies
from ..timing.schemes import Synchronous, World
from ..timing.tiers import GroupedByData
from ..timing.timeline import Timeline
from ..training.augmentation import check_images

if TYPE_CHECKING:
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
    from ..air.digital import WithTransfers, count_parameters
    from ..air.signalling import download_s
    from ..models.check import check_model  # JAX, not before it is needed
    from ..models.own import fitted

    numbers = seed_numbers(seeds, experiment.seed)
    for contestant in experiment.contestants:
        _check_server(contestant)
        _check_budget(contestant)
        _check_noise(contestant)
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
            world = _without_uploads(experiment, contestant, seed)
            latencies = world.latencies
            uploads = _uploads(world, model, contestant, dataset)
            waits_s = download_s(contestant.air, count_parameters(model, dataset))
            if uploads is not None or waits_s:
                world = replace(world, latencies=WithTransfers(latencies, uploads, waits_s), computing=latencies)
            if isinstance(scheme := contestant.algorithm.scheme, GroupedByData):
                world = replace(world, label_counts=describe(dataset, shards[seed])["device_class_counts"])
            timeline = scheme.timeline(world)
            if not len(timeline):
                raise UserError(f"'{contestant.label}' makes no aggregation before the end: raise rounds or duration_s")
            timelines[contestant.label, seed] = timeline = apply_faults(timeline, latencies, contestant.guards)
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


def _check_budget(contestant: Contestant) -> None:
    if contestant.power.energy_budget_j is not None and not contestant.algorithm.over_the_air:
        raise UserError(
            f"power.energy_budget_j is for devices that send over the air, and those of '{contestant.label}' upload"
        )


def _check_noise(contestant: Contestant) -> None:
    if contestant.guards.noise_multiplier is not None and contestant.guards.max_update_norm is None:
        raise UserError("guards.noise_multiplier is in units of guards.max_update_norm: give that too")


def uploads_of(plan: Plan, contestant: Contestant, seed: int) -> Any:
    """What uploads cost one algorithm with one seed; None where it computes over the air, or where they cost nothing."""
    return _uploads(_without_uploads(plan.experiment, contestant, seed), plan.model, contestant, plan.dataset)


def _without_uploads(experiment: Experiment, contestant: Contestant, seed: int) -> World:
    """What a timeline is made from, as if an upload took no time."""
    latencies = Latencies(contestant.timing.latency, devices=experiment.data.devices, seed=seed)
    if contestant.faults.in_timeline:
        latencies = FaultyLatencies(latencies, contestant.faults)
    return World(latencies, contestant.timing.period_s, experiment.horizon)


def _uploads(world: World, model: Model, contestant: Contestant, dataset: Dataset) -> Any:
    from ..air.digital import Ideal, uploads_for

    if contestant.algorithm.over_the_air or isinstance(contestant.air.digital, Ideal):
        return None
    return uploads_for(
        contestant, model=model, dataset=dataset, devices=world.latencies.devices, seed=world.latencies.seed,
        at_once=contestant.algorithm.scheme.busy_at_once(world),
    )  # fmt: skip
