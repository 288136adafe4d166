"""The conditions of one unit (algorithm and seed): latencies, availability and costs.

Latencies are stacked: trainings, then faults, then transfers, then absences.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..air.profiles import block_s as block_seconds
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
    from ..air.digital import RatedUploads, Uploads
    from ..models.base import Model


@dataclass(frozen=True)
class UnitConditions:
    """The conditions of one algorithm and seed."""

    entry: AlgorithmConfig
    inputs: TimelineInputs
    costs: Costs
    computing: Latencies  # of a training alone, faults included

    def with_faults(self, timeline: Timeline) -> Timeline:
        """Return the timeline with lost broadcasts, faults and guards."""
        from ..air.downlink import misses_broadcast  # start-up time

        air, computing = self.entry.air, self.computing
        if getattr(air.downlink, "broadcast_loss", None) is not None:
            timeline = timeline.without_broadcasts(
                functools.partial(misses_broadcast, air, computing.seed, computing.devices)
            )
        return apply_faults(timeline, computing, self.entry.guards)


def attendance_of(timing: Timing) -> Attendance | None:
    """Return the fleet that the settings name; None: all devices are always available."""
    if timing.fleet_file is None:
        if timing.fleet_repeat_s is not None:
            raise UserError("timing.fleet_repeat_s needs timing.fleet_file, the file that repeats")
        return None
    return Attendance.of(read_fleet(timing.fleet_file), timing.fleet_repeat_s)


def conditions_of(
    experiment: Experiment, entry: AlgorithmConfig, seed: int, *, model: Model, dataset: Dataset, shards: Shards
) -> UnitConditions:
    """Return the conditions of one unit, made from the settings.

    Args:
        experiment: the experiment.
        entry: the algorithm.
        seed: the seed.
        model: the model, made for the data.
        dataset: the data.
        shards: the shards of this seed.
    """
    from ..air.digital import Ideal, Rated, RatedUploads, Uploads, WithTransfers  # start-up time
    from ..air.downlink import Downloads, IdealDownlink  # start-up time
    from ..models.base import count_parameters  # start-up time

    c, devices = entry, experiment.data.devices
    attendance = attendance_of(c.timing)
    computing = computing_latencies(devices, c, seed, attendance, model=model, dataset=dataset, shards=shards)
    power_w = _compute_power_w(c, computing)
    if c.faults.in_timeline:
        computing = FaultyLatencies(computing, c.faults)
    num_parameters = functools.partial(count_parameters, model, tuple(dataset.input_shape), dataset.num_classes)
    downloads = None
    if not isinstance(c.air.downlink, IdealDownlink):
        downloads = Downloads(c.air, num_parameters=num_parameters(), attendance=attendance)
    block_s = 0.0
    if isinstance(c.timing.latency, ComputeLatency):  # other latencies are synthetic: d/B seconds would say nothing
        block_s = block_seconds(c.algorithm.symbols(num_parameters(), c.air.packing == "complex"), c.air)

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
    uploads: RatedUploads | Uploads | None = None
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
    if digital is not plain or attendance is not None:
        inputs = replace(inputs, latencies=attended(digital, False), computing=inputs.latencies)
    costs = Costs(compute_power_w=power_w, uploads=uploads, downloads=downloads, attendance=attendance)
    return UnitConditions(c, inputs, costs, computing)


def computing_latencies(
    devices: int, entry: AlgorithmConfig, seed: int, attendance: Attendance | None, *,
    model: Model, dataset: Dataset, shards: Shards,
) -> Latencies:  # fmt: skip
    """Return the latencies of trainings alone, without transfers, faults and absences."""
    from ..training.batches import flop_per_sample, samples_of  # start-up time

    flop = functools.partial(flop_per_sample, model, tuple(dataset.input_shape), dataset.num_classes)
    context = LatencyContext(devices, seed, attendance, samples_of(entry.training, shards, seed), flop)
    return latencies_of(entry.timing.latency, context)


def _compute_power_w(entry: AlgorithmConfig, computing: Latencies) -> float | Float[np.ndarray, " K"]:
    """Return the power that devices draw while they compute: one number for all, or one for each by its class."""
    if not isinstance(computing, ComputeLatencies):
        return entry.power.compute_power_w
    if entry.power.compute_power_w != Power().compute_power_w:
        raise UserError(
            "power.compute_power_w is one for all devices, and with timing.latency = 'work' every class has its own: "
            "give timing.class_power_w"
        )
    return computing.power_w
