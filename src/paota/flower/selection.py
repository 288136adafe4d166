"""Whom a synchronous round asks: the simulator's draws, among the devices that can be asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ..rng import Purpose, host_rng
from ..timing.timeline import Participants


def draw_participants(seed: int, round: int, participants: int, devices: int, idle: Collection[int]) -> list[int]:
    """The simulator's draw for this round; whoever is not `idle` is replaced by others drawn after it."""
    rng = host_rng(seed, Purpose.SELECTION, round)
    chosen = rng.choice(devices, min(participants, devices), replace=False).tolist()
    spare = [k for k in rng.permutation(devices).tolist() if k in idle and k not in chosen]
    here = [k for k in chosen if k in idle]
    return sorted(here + spare[: participants - len(here)])


def draw_oldest(
    seed: int, past: Sequence[Participants], participants: int, devices: int, idle: Collection[int]
) -> list[int]:
    """Of the `idle` devices, those that have not taken part for longest; ties by the simulator's lot.

    `past` holds who took part in each of the rounds before.
    """
    age = np.full(devices, len(past))
    for round, there in enumerate(past):
        age[there.device] = len(past) - 1 - round
    lot = host_rng(seed, Purpose.SELECTION, len(past)).permutation(devices)
    order = np.lexsort((lot, -age)).tolist()
    return sorted([k for k in order if k in idle][:participants])
