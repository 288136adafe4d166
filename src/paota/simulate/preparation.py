"""The weight-independent half of an experiment: who holds what, and who takes part when. All refusals happen here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..base.errors import UserError
from ..base.registry import SERVER_OPTIMISERS
from ..base.rng import Purpose, Seeds, host_rng, seed_numbers
from ..base.settings import LARGEST_FLOAT
from ..base.system import GIB, require_memory
from ..data.dataset import Dataset
from ..data.load import load_data
from ..data.partition import deal
from ..data.shards import Shards
from ..experiment.experiment import AlgorithmConfig, Experiment
from ..timing.schemes import Synchronous
from ..timing.timeline import Horizon, Timeline
from ..timing.virtual import TimelineInputs, make_timeline
from ..training.augmentation import check_images
from ..training.optimisers import refuse_unknown
from .conditions import UnitConditions, conditions_of

if TYPE_CHECKING:
    from ..air.spending import Costs
    from ..models.base import Model

TRIAL = 50  # rounds that tell how long a whole plan will be
PARTICIPATION_BYTES = 40  # five numbers of 64 bits
MANY_PARTICIPATIONS = 1e7


@dataclass(frozen=True)
class PreparedRun:
    """What `prepare` has found out; everything that is left needs weights."""

    experiment: Experiment
    dataset: Dataset
    seeds: tuple[int, ...]
    shards: Mapping[int, Shards]  # by seed
    timelines: Mapping[tuple[str, int], Timeline]  # by (label, seed)
    evaluated_every: Mapping[tuple[str, int], int]  # events between evaluations, by (label, seed)

    @property
    def model(self) -> Model:
        """What is learned, made for the samples at hand."""
        from ..models.custom import fitted

        return fitted(self.experiment.model, tuple(self.dataset.input_shape), self.dataset.num_classes)

    @property
    def num_parameters(self) -> int:
        """d."""
        import jax

        sample = tuple(self.dataset.input_shape), self.dataset.num_classes
        shapes = jax.eval_shape(lambda: self.model.init(jax.random.key(0), *sample))
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))

    def units(self) -> Iterator[tuple[AlgorithmConfig, int]]:
        for entry in self.experiment.algorithms:
            for seed in self.seeds:
                yield entry, seed


def prepare(
    experiment: Experiment, *, seeds: Seeds = 1, tell: Callable[[str], None] = lambda sentence: None
) -> PreparedRun:
    """Everything that can be known, and refused, before the first computation; `seeds` as for `paota.run`.

    `tell` is called with a sentence where planning itself will take long.
    """
    from ..models.base import is_torch  # start-up time: JAX, not before it is needed
    from ..models.check import check_model
    from ..models.custom import fitted

    numbers = seed_numbers(seeds, experiment.seed)
    for entry in experiment.algorithms:
        _check_server(entry)
        _check_budget(entry)
        _check_noise(entry)
        entry.algorithm.for_training(entry.training)  # refuses what it cannot work with
    data = experiment.data
    dataset = load_data(data, base=experiment.base)
    model = fitted(experiment.model, tuple(dataset.input_shape), dataset.num_classes)
    check_model(model, tuple(dataset.input_shape), dataset.num_classes, experiment.seed)
    for entry in experiment.algorithms:
        check_images(entry.training, dataset)
        if is_torch(model):
            refuse_unknown(entry.training)
    shards: dict[int, Shards] = {}
    timelines, evaluated_every = {}, {}

    def conditions_for(entry: AlgorithmConfig, seed: int) -> UnitConditions:
        if seed not in shards:
            rng = host_rng(seed, Purpose.PARTITION)
            shards[seed] = deal(data.partition, dataset, devices=data.devices, rng=rng)
        return conditions_of(experiment, entry, seed, model=model, dataset=dataset, shards=shards[seed])

    _check_length(experiment, [conditions_for(c, numbers[0]).inputs for c in experiment.algorithms], len(numbers), tell)
    for seed in numbers:
        for entry in experiment.algorithms:
            made = conditions_for(entry, seed)
            inputs = made.inputs
            timeline = make_timeline(entry.algorithm.scheme, inputs)
            if not len(timeline):
                raise UserError(f"'{entry.label}' makes no aggregation before the end: raise rounds or duration_s")
            if not timeline.finish_s.max(initial=timeline.time_s[-1]) <= LARGEST_FLOAT:
                raise UserError(
                    f"'{entry.label}' goes on beyond {LARGEST_FLOAT:.1g} s: lower rounds, period or latencies"
                )
            timelines[entry.label, seed] = timeline = made.with_faults(timeline)
            # One arrival an event would be judged far too often: keep about as many device updates between two looks.
            events = inputs.participants(None) / max(timeline.ready.mean(), 1e-9)
            evaluated_every[entry.label, seed] = experiment.evaluation.every * max(1, round(events))
    planned = PreparedRun(experiment, dataset, numbers, shards, timelines, evaluated_every)
    for entry in experiment.algorithms:
        _check_memory(entry, [timelines[entry.label, seed] for seed in numbers], planned.num_parameters)
    return planned


def _check_memory(entry: AlgorithmConfig, timelines: Sequence[Timeline], num_parameters: int) -> None:
    """What an event keeps at the least: old versions, devices' models, updates and signals, where their mini-batches stand."""
    from ..engine import event_places, row_bytes

    of_device = row_bytes(entry.algorithm, num_parameters)
    places, block = event_places(max(int(t.ready.max(initial=0)) for t in timelines), of_device, None)
    held, training = block or places, entry.training
    models = held * of_device + 4 * num_parameters * (max(t.max_staleness for t in timelines) + 1)
    fewer = "a smaller model, or fewer devices an event, need less"
    require_memory(models, f"'{entry.label}' with {num_parameters:,} parameters", fewer)
    if training.epochs is None:
        batches = 8 * held * training.local_steps * training.batch_size
        program_shape = (
            f"training.local_steps = {training.local_steps} with training.batch_size = {training.batch_size}"
        )
        require_memory(models + batches, f"'{entry.label}': {program_shape}", "lower one of them")


def _check_length(
    experiment: Experiment, worlds: Sequence[TimelineInputs], seeds: int, tell: Callable[[str], None]
) -> None:
    """Refuse timelines that no memory holds, and say where they are long: judged by the first `TRIAL` rounds.

    They are made whole, since what is recorded of them, and the greatest staleness of all, is needed whole too.
    """
    rounds, duration_s = experiment.horizon.rounds, experiment.horizon.duration_s
    participations = seconds = 0.0
    for entry, inputs in zip(experiment.algorithms, worlds, strict=True):
        if rounds is not None and rounds * seeds <= TRIAL:
            continue
        begin = time.perf_counter()
        timeline = make_timeline(
            entry.algorithm.scheme, replace(inputs, horizon=Horizon(rounds=TRIAL, duration_s=duration_s))
        )
        if not len(timeline):
            continue
        # As long as this.
        times = seeds * (rounds / TRIAL if rounds is not None else max(1.0, (duration_s or 0.0) / timeline.time_s[-1]))
        seconds += (time.perf_counter() - begin) * times
        participations += len(timeline.device) * times
    needed = participations * PARTICIPATION_BYTES
    require_memory(
        needed, f"the plan of {participations:.2g} local trainings", "fewer rounds, devices or seeds need less"
    )
    if participations > MANY_PARTICIPATIONS:
        minutes = max(1, round(seconds / 60))
        tell(
            f"planning {participations:.2g} local trainings, which takes {needed / GIB:.1f} GiB and about "
            f"{minutes} minute{'s' if minutes > 1 else ''}"
        )


def _check_server(entry: AlgorithmConfig) -> None:
    """A server optimiser accelerates a mean update; the mean of stale models points back to where they started.

    In a synchronous round nobody is stale: the mean model is w^r plus the mean update.
    """
    name = SERVER_OPTIMISERS.name_of(type(entry.server.optimiser))
    fresh = isinstance(entry.algorithm.scheme, Synchronous)
    if name != "none" and not fresh and entry.algorithm.payload != "update":
        raise UserError(
            f"server.optimiser = '{name}' needs an algorithm that sends updates, and '{entry.label}' sends models: "
            "choose payload = 'update', where the algorithm has it, or server.optimiser = 'none'"
        )


def _check_budget(entry: AlgorithmConfig) -> None:
    if entry.power.energy_budget_j is not None and not entry.algorithm.over_the_air:
        raise UserError(
            f"power.energy_budget_j is for devices that send over the air, and those of '{entry.label}' upload"
        )


def _check_noise(entry: AlgorithmConfig) -> None:
    if entry.guards.noise_multiplier is not None and entry.guards.max_update_norm is None:
        raise UserError("guards.noise_multiplier is in units of guards.max_update_norm: give that too")


def costs_of(prepared: PreparedRun, entry: AlgorithmConfig, seed: int) -> Costs:
    """What the trainings and transfers of one algorithm cost with one seed."""
    return conditions_of(
        prepared.experiment, entry, seed, model=prepared.model, dataset=prepared.dataset, shards=prepared.shards[seed]
    ).costs
