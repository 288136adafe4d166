"""The weight-independent half of an experiment: who holds what, and who takes part when. All refusals happen here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import memory
from ..data.dataset import Dataset
from ..data.load import load_data
from ..data.partition import deal
from ..data.shards import Shards, describe
from ..errors import UserError
from ..experiment import Contestant, Experiment
from ..faults.timing import FaultyLatencies, apply_faults
from ..registry import SERVER_OPTIMISERS
from ..rng import Purpose, Seeds, host_rng, seed_numbers
from ..settings import LARGEST_FLOAT
from ..timing.latency import Latencies
from ..timing.schemes import Synchronous, World
from ..timing.tiers import GroupedByData
from ..timing.timeline import Horizon, Timeline
from ..training.augmentation import check_images

if TYPE_CHECKING:
    from ..models.base import Model

TRIAL = 50  # rounds that tell how long a whole plan will be
PARTICIPATION_BYTES = 40  # five numbers of 64 bits
MANY_PARTICIPATIONS = 1e7


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

    @property
    def num_parameters(self) -> int:
        """d."""
        import jax

        sample = tuple(self.dataset.input_shape), self.dataset.num_classes
        shapes = jax.eval_shape(lambda: self.model.init(jax.random.key(0), *sample))
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))

    def units(self) -> Iterator[tuple[Contestant, int]]:
        for contestant in self.experiment.contestants:
            for seed in self.seeds:
                yield contestant, seed


def plan(experiment: Experiment, *, seeds: Seeds = 1, tell: Callable[[str], None] = lambda sentence: None) -> Plan:
    """Everything that can be known, and refused, before the first computation; `seeds` as for `paota.run`.

    `tell` is called with a sentence where planning itself will take long.
    """
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
    _check_length(experiment, len(numbers), tell)
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
            if not timeline.finish_s.max(initial=timeline.time_s[-1]) <= LARGEST_FLOAT:
                raise UserError(
                    f"'{contestant.label}' goes on beyond {LARGEST_FLOAT:.1g} s: lower rounds, period or latencies"
                )
            timelines[contestant.label, seed] = timeline = apply_faults(timeline, latencies, contestant.guards)
            # One arrival an event would be judged far too often: keep about as many device updates between two looks.
            events = world.match_participants() / max(timeline.ready.mean(), 1e-9)
            judged_every[contestant.label, seed] = experiment.evaluation.every * max(1, round(events))
    made = Plan(experiment, dataset, numbers, shards, timelines, judged_every)
    for contestant in experiment.contestants:
        _check_memory(contestant, [timelines[contestant.label, seed] for seed in numbers], made.num_parameters)
    return made


def _check_memory(contestant: Contestant, timelines: Sequence[Timeline], num_parameters: int) -> None:
    """What an event keeps at the least: old versions, devices' models and updates, where their mini-batches stand."""
    from ..engine import event_places

    places, block = event_places(max(int(t.ready.max(initial=0)) for t in timelines), num_parameters, None)
    held, training = block or places, contestant.training
    models = 4 * num_parameters * (2 * held + max(t.max_staleness for t in timelines) + 1)
    fewer = "a smaller model, or fewer devices an event, need less"
    memory.require(models, f"'{contestant.label}' with {num_parameters:,} parameters", fewer)
    if training.epochs is None:
        batches = 8 * held * training.local_steps * training.batch_size
        sizes = f"training.local_steps = {training.local_steps} with training.batch_size = {training.batch_size}"
        memory.require(models + batches, f"'{contestant.label}': {sizes}", "lower one of them")


def _check_length(experiment: Experiment, seeds: int, tell: Callable[[str], None]) -> None:
    """Refuse timelines that no memory holds, and say where they are long: judged by the first `TRIAL` rounds."""
    rounds, duration_s = experiment.horizon.rounds, experiment.horizon.duration_s
    participations = 0.0
    for contestant in experiment.contestants:
        periods = rounds or (duration_s or 0.0) / contestant.timing.period_s
        if periods * seeds <= TRIAL:
            continue
        world = _without_uploads(experiment, contestant, experiment.seed)
        short = Horizon(rounds=TRIAL) if rounds else Horizon(rounds=None, duration_s=TRIAL * contestant.timing.period_s)
        timeline = contestant.algorithm.scheme.timeline(replace(world, horizon=short))
        participations += len(timeline.device) * periods / TRIAL * seeds
    needed = participations * PARTICIPATION_BYTES
    memory.require(
        needed, f"the plan of {participations:.2g} local trainings", "fewer rounds, devices or seeds need less"
    )
    if participations > MANY_PARTICIPATIONS:
        tell(
            f"planning {participations:.2g} local trainings, which takes {needed / memory.GIB:.1f} GiB and some minutes"
        )


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
