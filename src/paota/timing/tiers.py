"""Groups of devices whose events are numbered by their speed, and groups that are balanced in speed and data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .schemes import Scheme, World, by_speed, grouped
from .timeline import Timeline


@dataclass(frozen=True)
class Tiers(Scheme):
    """As `Grouped`, and every event says whose it is: 0 for the quickest group."""

    groups: int

    def timeline(self, world: World) -> Timeline:
        members = by_speed(world.latencies, min(self.groups, world.latencies.devices))
        timeline = grouped(
            world.latencies, groups=self.groups, updates=world.match_updates(), horizon=world.horizon, members=members
        )
        return numbered(timeline, members)


@dataclass(frozen=True)
class GroupedByData(Scheme):
    """As `Grouped`, with groups that are balanced in their data too: see `by_speed_and_data`."""

    groups: int
    reach: int

    def timeline(self, world: World) -> Timeline:
        latencies = world.latencies
        if world.label_counts is None:
            raise UserError("groups by speed and data (reach above 1) need to know which labels the devices hold")
        everyone = np.arange(latencies.devices)
        first_s = latencies(everyone, np.zeros_like(everyone))
        members = by_speed_and_data(first_s, world.label_counts, min(self.groups, latencies.devices), self.reach)
        return grouped(
            latencies, groups=self.groups, updates=world.match_updates(), horizon=world.horizon, members=members
        )


def numbered(timeline: Timeline, members: list[NDArray[np.int64]]) -> Timeline:
    """A timeline of disjoint groups, its events numbered by group; an event with nobody changes nothing and is 0."""
    group_of = np.zeros(sum(map(len, members)), np.int64)
    for number, part in enumerate(members):
        group_of[part] = number
    numbers = np.zeros(len(timeline), np.int64)
    somebody = timeline.ready > 0
    numbers[somebody] = group_of[timeline.device[timeline.offsets[:-1][somebody]]]
    return replace(timeline, group=numbers)


def by_speed_and_data(
    first_s: NDArray[np.float64], label_counts: NDArray[np.int64], groups: int, reach: int
) -> list[NDArray[np.int64]]:
    """Members of `groups` groups of (almost) equal size, the quickest group first.

    Devices come in the order of their speed. Each goes to one of the first `reach` groups that still have room: to the
    one whose distance sum_c |share_c - share_c of all| it lowers most, the earth mover's distance between labels; that
    of an empty group is 2, the largest. `reach` = 1 is grouping by speed alone.

    Args:
        first_s: how long the first training of each device takes, [K].
        label_counts: samples of each label that each device holds, [K, C].
        groups: how many; no more than devices.
        reach: how many groups a device may choose from.
    """
    sizes = [len(part) for part in np.array_split(np.arange(len(first_s)), groups)]
    everything = label_counts.sum(axis=0) / max(label_counts.sum(), 1)
    held = np.zeros((groups, label_counts.shape[1]))
    members: list[list[int]] = [[] for _ in range(groups)]
    for device in np.argsort(first_s, kind="stable").tolist():
        open_groups = [g for g in range(groups) if len(members[g]) < sizes[g]][:reach]
        before = held[open_groups]
        change = _distance(before + label_counts[device], everything) - _distance(before, everything)
        chosen = open_groups[int(np.argmin(change))]
        members[chosen].append(device)
        held[chosen] += label_counts[device]
    return [np.sort(np.array(part, np.int64)) for part in members]


def _distance(counts: NDArray[np.float64], everything: NDArray[np.float64]) -> NDArray[np.float64]:
    """sum_c |share_c - share_c of all| of each row [G, C]; 2 where there is nothing."""
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total[:, 0] > 0, np.abs(counts / np.maximum(total, 1) - everything).sum(axis=1), 2.0)
