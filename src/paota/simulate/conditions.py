"""What one algorithm meets with one seed: how long things take there, who is there, and what that costs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..air.spending import Costs
from ..base.errors import UserError
from ..data.dataset import Dataset
from ..data.shards import Shards
from ..experiment.experiment import AlgorithmConfig, Experiment
from ..faults.timing import FaultyLatencies, apply_faults
from ..power.settings import Power
from ..timing.compute import ComputeLatencies, ComputeLatency, LatencyContext, latencies_of
from ..timing.fleet import Attendance
from ..timing.fleet_files import read_fleet
from ..timing.latency import Latencies, WithAvailability
from ..timing.settings import Timing
from ..timing.timeline import Timeline
from ..timing.virtual import TimelineInputs

if TYPE_CHECKING:
    from ..models.base import Model


@dataclass(frozen=True)
class UnitConditions:
    """Of one algorithm and seed."""

    entry: AlgorithmConfig
    inputs: TimelineInputs
    costs: Costs
    computing: Latencies  # of a training alone, with what faults do to it

    def with_faults(self, timeline: Timeline) -> Timeline:
        """With broadcasts that get lost, and with faults and guards."""
        from ..air.downlink import misses_broadcast

        air, computing = self.entry.air, self.computing
        if getattr(air.downlink, "broadcast_loss", None) is not None:
            timeline = timeline.without_broadcasts(
                functools.partial(misses_broadcast, air, computing.seed, computing.devices)
            )
        return apply_faults(timeline, computing, self.entry.guards)


def attendance_of(timing: Timing) -> Attendance | None:
    """The fleet that the settings name; None: everybody is always there."""
    if timing.fleet_file is None:
        if timing.fleet_repeat_s is not None:
            raise UserError(
                "timing.fleet_repeat_s says when a fleet's file starts over, and timing.fleet_file names none"
            )
        return None
    return Attendance.of(read_fleet(timing.fleet_file), timing.fleet_repeat_s)


def conditions_of(
    experiment: Experiment, entry: AlgorithmConfig, seed: int, *, model: Model, dataset: Dataset, shards: Shards
) -> UnitConditions:
    """Everything around a timeline, made from the settings; `model` fits the data, `shards` are the seed's."""
    from ..air.digital import Ideal, Rated, RatedUploads, Uploads, WithTransfers, count_parameters
    from ..air.downlink import Downloads, IdealDownlink

    c, devices = entry, experiment.data.devices
    attendance = attendance_of(c.timing)
    computing = computing_latencies(devices, c, seed, attendance, model=model, dataset=dataset, shards=shards)
    power_w = _compute_power_w(c, computing)
    if c.faults.in_timeline:
        computing = FaultyLatencies(computing, c.faults)
    num_parameters = functools.partial(count_parameters, model, dataset)
    downloads = None
    if not isinstance(c.air.downlink, IdealDownlink):
        downloads = Downloads(c.air, num_parameters=num_parameters(), attendance=attendance)
    # Beside latencies of seconds, drawn from thin air, the d/B seconds of a block would say nothing.
    counts_block = isinstance(c.timing.latency, ComputeLatency)
    block_s = 0.0
    if counts_block:
        block_s = c.algorithm.symbols(num_parameters(), c.air.packing == "complex") / c.air.bandwidth_hz

    def attended(latencies: Latencies, over_the_air: bool) -> Latencies:
        if attendance is None:
            return latencies
        lose = c.timing.when_leaving == "restart"
        return WithAvailability(latencies, attendance, lose=lose, over_the_air=over_the_air)

    plain = computing
    if downloads is not None or block_s:
        plain = WithTransfers(computing, downloads=downloads, block_s=block_s)
    inputs = TimelineInputs(attended(plain, True), c.timing.period_s, experiment.horizon)
    if c.algorithm.over_the_air:
        costs = Costs(compute_power_w=power_w, downloads=downloads, block_s=block_s, attendance=attendance)
        return UnitConditions(c, inputs, costs, computing)
    uploads: Any = None
    if isinstance(c.air.digital, Rated):
        uploads = RatedUploads(c.air.digital, num_parameters=num_parameters(), attendance=attendance)
    elif not isinstance(c.air.digital, Ideal):
        uploads = Uploads(
            c.air, max_power_w=c.power.max_power_w, num_parameters=num_parameters(), devices=devices, seed=seed,
            at_once=c.algorithm.scheme.concurrency(inputs),
        )  # fmt: skip
    digital = computing
    if uploads is not None or downloads is not None:
        digital = WithTransfers(computing, uploads=uploads, downloads=downloads)
    computing_world = inputs.latencies
    if digital is not plain or attendance is not None:
        inputs = replace(inputs, latencies=attended(digital, False), computing=computing_world)
    costs = Costs(compute_power_w=power_w, uploads=uploads, downloads=downloads, attendance=attendance)
    return UnitConditions(c, inputs, costs, computing)


def computing_latencies(
    devices: int, entry: AlgorithmConfig, seed: int, attendance: Attendance | None, *,
    model: Model, dataset: Dataset, shards: Shards,
) -> Latencies:  # fmt: skip
    """How long trainings take by themselves: without transfers, faults and absences."""
    samples, flop_per_sample = _samples(entry, shards, seed), _flop_per_sample(model, dataset)
    around = LatencyContext(devices, seed, attendance, samples, flop_per_sample)
    return latencies_of(entry.timing.latency, around)


def _compute_power_w(entry: AlgorithmConfig, computing: Latencies) -> Any:
    """What devices draw while they compute: one number for all, or [K] by their classes."""
    if not isinstance(computing, ComputeLatencies):
        return entry.power.compute_power_w
    if entry.power.compute_power_w != Power().compute_power_w:
        raise UserError(
            "power.compute_power_w is one for all devices, and with timing.latency = 'work' every class has its own: "
            "give timing.class_power_w"
        )
    return computing.power_w


def _samples(entry: AlgorithmConfig, shards: Shards, seed: int) -> Callable[..., Any]:
    """As `samples_of`, which needs JAX, when it is first asked."""

    @functools.cache
    def made() -> Callable[..., Any]:
        from ..training.workload import samples_of

        return samples_of(entry.training, shards, seed)

    return lambda device, training: made()(device, training)


def _flop_per_sample(model: Model, dataset: Dataset) -> Callable[[], float]:
    def count() -> float:
        from ..training.workload import flop_per_sample

        return flop_per_sample(model, tuple(dataset.input_shape), dataset.num_classes)

    return count
