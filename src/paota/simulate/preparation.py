"""The half of a run that does not depend on weights: data, shards and timelines. All refusals happen here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..air.profiles import check_channels
from ..base.errors import UserError
from ..base.registry import OPTIMISERS, SERVER_OPTIMISERS
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
from ..training.settings import Training
from .changes import forget_changed_code
from .conditions import UnitConditions, conditions_of

if TYPE_CHECKING:
    from ..air.spending import Costs
    from ..models.base import Model

TRIAL = 50  # rounds from which the length of a whole timeline is estimated
PARTICIPATION_BYTES = 40  # five numbers of 64 bits
MANY_PARTICIPATIONS = 1e7


@dataclass(frozen=True)
class PreparedRun:
    """A prepared run; everything that remains needs weights."""

    experiment: Experiment
    dataset: Dataset
    seeds: tuple[int, ...]
    shards: Mapping[int, Shards]  # by seed
    timelines: Mapping[tuple[str, int], Timeline]  # by (label, seed)
    costs: Mapping[tuple[str, int], Costs]  # of trainings and transfers, by (label, seed)
    evaluated_every: Mapping[tuple[str, int], int]  # events between evaluations, by (label, seed)

    @property
    def model(self) -> Model:
        """The model, made for the samples of the data set."""
        from ..models.custom import fitted  # start-up time

        return fitted(self.experiment.model, tuple(self.dataset.input_shape), self.dataset.num_classes)

    @property
    def num_parameters(self) -> int:
        """The number of parameters, d."""
        from ..models.base import count_parameters  # start-up time

        return count_parameters(self.model, tuple(self.dataset.input_shape), self.dataset.num_classes)

    def units(self) -> Iterator[tuple[AlgorithmConfig, int]]:
        """Yield (algorithm, seed) of every unit, in order."""
        for entry in self.experiment.algorithms:
            for seed in self.seeds:
                yield entry, seed


def prepare(
    experiment: Experiment, *, seeds: Seeds = 1, notify: Callable[[str], None] = lambda sentence: None
) -> PreparedRun:
    """Return the prepared run, or raise a `UserError` for anything that can be refused before the first computation.

    Args:
        experiment: the experiment.
        seeds: as for `paota.run`.
        notify: receives a sentence if the preparation itself will take long.
    """
    from ..air.imported import with_recorded_channels  # start-up time
    from ..models.base import is_torch  # start-up time
    from ..models.check import check_model  # start-up time
    from ..models.custom import fitted  # start-up time

    numbers = seed_numbers(seeds, experiment.seed)
    for entry in experiment.algorithms:
        _check_entry(entry)
        with_recorded_channels(entry.air, experiment.data.devices)  # refuses files that do not fit
        entry.algorithm.for_training(entry.training)  # refuses what it cannot work with
    forget_changed_code(experiment.model)
    data = experiment.data
    dataset = load_data(data, base=experiment.base)
    model = fitted(experiment.model, tuple(dataset.input_shape), dataset.num_classes)
    check_model(model, tuple(dataset.input_shape), dataset.num_classes, experiment.seed)
    for entry in experiment.algorithms:
        _check_training(entry.training, dataset, on_torch=is_torch(model))
    shards: dict[int, Shards] = {}
    timelines, costs, evaluated_every = {}, {}, {}

    def conditions_for(entry: AlgorithmConfig, seed: int) -> UnitConditions:
        if seed not in shards:
            rng = host_rng(seed, Purpose.PARTITION)
            shards[seed] = deal(data.partition, dataset, devices=data.devices, rng=rng)
        return conditions_of(experiment, entry, seed, model=model, dataset=dataset, shards=shards[seed])

    first = {entry.label: conditions_for(entry, numbers[0]) for entry in experiment.algorithms}
    _check_length(experiment, [conditions.inputs for conditions in first.values()], len(numbers), notify)
    for seed in numbers:
        for entry in experiment.algorithms:
            conditions = first.pop(entry.label, None) or conditions_for(entry, seed)
            inputs = conditions.inputs
            timeline = make_timeline(entry.algorithm.scheme, inputs)
            if not len(timeline):
                raise UserError(f"'{entry.label}' makes no aggregation before the end: raise rounds or duration_s")
            if not timeline.finish_s.max(initial=timeline.time_s[-1]) <= LARGEST_FLOAT:
                raise UserError(
                    f"'{entry.label}' lasts longer than {LARGEST_FLOAT:.1g} s: lower rounds, period or latencies"
                )
            timelines[entry.label, seed] = timeline = conditions.with_faults(timeline)
            costs[entry.label, seed] = conditions.costs
            # Single arrivals would be evaluated far too often: keep the number of device updates between evaluations.
            events = inputs.participants(None) / max(timeline.ready.mean(), 1e-9)
            evaluated_every[entry.label, seed] = experiment.evaluation.every * max(1, round(events))
    prepared = PreparedRun(experiment, dataset, numbers, shards, timelines, costs, evaluated_every)
    for entry in experiment.algorithms:
        _check_memory(entry, [timelines[entry.label, seed] for seed in numbers], prepared.num_parameters)
    return prepared


def event_bytes(entry: AlgorithmConfig, timelines: Sequence[Timeline], num_parameters: int) -> tuple[int, int]:
    """Return the bytes of the largest event: of versions, models, updates and signals; and of mini-batches.

    With `training.epochs` the mini-batches are not counted.
    """
    from ..engine import event_places, row_bytes  # start-up time

    of_device = row_bytes(entry.algorithm, num_parameters)
    places, block = event_places(max(int(t.ready.max(initial=0)) for t in timelines), of_device, None)
    held, training = block or places, entry.training
    batches = 0 if training.epochs is not None else 8 * held * training.local_steps * training.batch_size
    return held * of_device + 4 * num_parameters * (max(t.max_staleness for t in timelines) + 1), batches


def _check_memory(entry: AlgorithmConfig, timelines: Sequence[Timeline], num_parameters: int) -> None:
    """Refuse events that do not fit into memory."""
    (models, batches), training = event_bytes(entry, timelines, num_parameters), entry.training
    fewer = "a smaller model, or fewer devices an event, need less"
    require_memory(models, f"'{entry.label}' with {num_parameters:,} parameters", fewer)
    if batches:
        steps = f"training.local_steps = {training.local_steps} with training.batch_size = {training.batch_size}"
        require_memory(models + batches, f"'{entry.label}': {steps}", "lower one of them")


def _check_length(
    experiment: Experiment, all_inputs: Sequence[TimelineInputs], seeds: int, notify: Callable[[str], None]
) -> None:
    """Refuse timelines that do not fit into memory, and tell the user about long ones, from the first `TRIAL` rounds.

    Timelines are made whole, because their records and their greatest staleness are needed whole.
    """
    rounds, duration_s = experiment.horizon.rounds, experiment.horizon.duration_s
    participations = seconds = 0.0
    for entry, inputs in zip(experiment.algorithms, all_inputs, strict=True):
        if rounds is not None and rounds * seeds <= TRIAL:
            continue
        begin = time.perf_counter()
        timeline = make_timeline(
            entry.algorithm.scheme, replace(inputs, horizon=Horizon(rounds=TRIAL, duration_s=duration_s))
        )
        if not len(timeline):
            continue
        times = seeds * (rounds / TRIAL if rounds is not None else max(1.0, (duration_s or 0.0) / timeline.time_s[-1]))
        seconds += (time.perf_counter() - begin) * times
        participations += len(timeline.device) * times
    needed = participations * PARTICIPATION_BYTES
    require_memory(
        needed, f"the plan of {participations:.2g} local trainings", "fewer rounds, devices or seeds need less"
    )
    if participations > MANY_PARTICIPATIONS:
        minutes = max(1, round(seconds / 60))
        notify(
            f"planning {participations:.2g} local trainings, which takes {needed / GIB:.1f} GiB and about "
            f"{minutes} minute{'s' if minutes > 1 else ''}"
        )


def _check_entry(entry: AlgorithmConfig) -> None:
    """Refuse settings that contradict each other."""
    # The mean of stale models points back to where they started. In a synchronous round no model is stale, and the mean
    # model is w^r plus the mean update.
    name = SERVER_OPTIMISERS.name_of(type(entry.server.optimiser))
    fresh = isinstance(entry.algorithm.scheme, Synchronous)
    if name != "none" and not fresh and entry.algorithm.payload != "update":
        raise UserError(
            f"server.optimiser = '{name}' needs an algorithm that sends updates, and '{entry.label}' sends models: "
            "choose payload = 'update', where the algorithm has it, or server.optimiser = 'none'"
        )
    check_channels(entry.air, over_the_air=entry.algorithm.over_the_air)
    if entry.air.subcarriers > 1 and not entry.algorithm.inverts_channels:
        raise UserError(
            f"air.subcarriers > 1 needs devices that invert their channels, and those of '{entry.label}' do not"
        )
    if entry.air.subcarriers > 1 and entry.faults.csi_outage is not None:
        raise UserError("faults.csi_outage needs air.subcarriers = 1: air.csi_error acts on every subcarrier")
    if entry.power.energy_budget_j is not None and not entry.algorithm.over_the_air:
        raise UserError(
            f"power.energy_budget_j needs transmissions over the air, and '{entry.label}' uses digital uploads"
        )
    if entry.guards.noise_multiplier is not None and entry.guards.max_update_norm is None:
        raise UserError("guards.noise_multiplier is in units of guards.max_update_norm: give that too")


def _check_training(training: Training, dataset: Dataset, *, on_torch: bool) -> None:
    if training.augment != "none" and len(dataset.input_shape) not in (2, 3):
        raise UserError(
            f"training.augment = '{training.augment}' needs images [height, width] or [height, width, channels], "
            f"and a sample of {dataset.name} has shape {dataset.input_shape}"
        )
    name = OPTIMISERS.name_of(type(training.optimiser))
    if on_torch and name not in ("sgd", "momentum", "adam"):
        raise UserError(f"training.optimiser = '{name}' is not known to PyTorch models; use sgd, momentum or adam")
