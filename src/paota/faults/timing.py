"""Faults of the timeline: slower devices, and trainings that are lost or staler."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.rng import Purpose, host_rng, pick_draws
from ..timing.latency import Latencies
from ..timing.timeline import Timeline
from . import Faults, Guards

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
STRAGGLER, STUCK, DROPOUT, BROADCAST = range(4)


class FaultyLatencies(Latencies):
    """Latencies with stragglers, and with the time that the server loses on devices that drop out or get stuck."""

    def __init__(self, healthy: Latencies, faults: Faults) -> None:
        super().__init__(healthy.model, devices=healthy.devices, seed=healthy.seed)
        self.healthy, self.faults = healthy, faults

    def __call__(
        self, device: Int[Whole, " n"], training: Int[Whole, " n"], start_s: Floats | None = None
    ) -> Float[Floats, " n"]:
        """Return the seconds of each training with faults, [n]."""
        seconds = self.healthy(device, training, start_s)
        seconds = np.where(self.stragglers[device], seconds * self.faults.slow_factor, seconds)
        seconds = np.where(self.dropped(device, training), seconds + self.faults.away_s, seconds)
        return np.where(self.hangs(device, training), self.faults.give_up_s, seconds)

    @cached_property
    def stragglers(self) -> Bool[Flags, " K"]:
        """A flag per device that is True for stragglers."""
        return self._whole_run(self.faults.stragglers, STRAGGLER)

    @cached_property
    def stuck(self) -> Bool[Flags, " K"]:
        """A flag per device that is True for devices that get stuck."""
        return self._whole_run(self.faults.stuck, STUCK)

    def hangs(self, device: Int[Whole, " n"], training: Int[Whole, " n"]) -> Bool[Flags, " n"]:
        """Return a flag per training that is True if it never finishes."""
        return self.stuck[device] & (training >= self.faults.stuck_after)

    def dropped(self, device: Int[Whole, " n"], training: Int[Whole, " n"]) -> Bool[Flags, " n"]:
        """Return a flag per training that is True if a dropout loses it."""
        return self._each_time(self.faults.dropout, DROPOUT, device, training)

    def misses_broadcast(self, device: Int[Whole, " n"], training: Int[Whole, " n"]) -> Bool[Flags, " n"]:
        """Return a flag per training that is True if its model never arrived; the first model always arrives."""
        return self._each_time(self.faults.lost_broadcasts, BROADCAST, device, training) & (training > 0)

    def _whole_run(self, share: float | None, kind: int) -> Bool[Flags, " K"]:
        chosen = np.zeros(self.devices, bool)
        rank = host_rng(self.seed, Purpose.FAULT, kind).permutation(self.devices)
        chosen[rank[: round((share or 0.0) * self.devices)]] = True
        return chosen

    def _each_time(
        self, probability: float | None, kind: int, device: Int[Whole, " n"], training: Int[Whole, " n"]
    ) -> Bool[Flags, " n"]:
        if probability is None:
            return np.zeros(len(device), bool)

        def row(number: int) -> NDArray[np.float64]:
            return host_rng(self.seed, Purpose.FAULT, kind, number).random(self.devices)

        return pick_draws(device, training, row) < probability


def apply_faults(timeline: Timeline, latencies: Latencies, guards: Guards) -> Timeline:
    """Return the timeline with missed broadcasts, lost updates and updates that are too stale to be sent.

    An event that loses all its devices stays, as an event without ready devices.
    """
    if isinstance(latencies, FaultyLatencies):
        timeline = timeline.without_broadcasts(latencies.misses_broadcast)
        lost = latencies.dropped(timeline.device, timeline.training) | latencies.hangs(
            timeline.device, timeline.training
        )
        timeline = _keep(timeline, ~lost)
    if guards.max_staleness is not None:
        timeline = _keep(timeline, timeline.staleness <= guards.max_staleness)
    return timeline


def _keep(timeline: Timeline, kept: Bool[Flags, " n"]) -> Timeline:
    counts = np.bincount(timeline.event[kept], minlength=len(timeline))
    lost = timeline.ready - counts + (0 if timeline.lost is None else timeline.lost)
    columns = {name: getattr(timeline, name)[kept] for name in ("device", "version", "training", "start_s", "finish_s")}
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return dataclasses.replace(timeline, offsets=offsets, lost=lost, **columns)
