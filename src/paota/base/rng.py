"""Counter-based randomness: every draw is addressed by (seed, purpose, counters), never taken from a shared stream.

So a result does not depend on the order of work, on chunk sizes, padding or resuming, nor on which other algorithms run
beside it, and all algorithms of one experiment meet the same devices, latencies and channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from .errors import UserError

Seeds = int | Sequence[int]  # how many, or which
LARGEST_SEED = 2**31 - 1
MOST_SEEDS = 1_000_000


class Purpose(IntEnum):
    """What a draw is for. The numbers are part of the file format of results: never renumber, only append."""

    PARTITION = 1
    INITIAL_MODEL = 2
    LATENCY = 3
    SELECTION = 4
    BATCH = 5
    CHANNEL = 6
    NOISE = 7
    POSITION = 8
    CHANNEL_ESTIMATE = 9
    PHASE_ERROR = 10
    TIMING_ERROR = 11
    UPLOAD = 12
    CHANNEL_FOR_LIFE = 13
    FAULT = 14
    LOCAL_STEPS = 15
    AUGMENTATION = 16
    SIGNAL = 17
    PRIVACY_NOISE = 18
    BROADCAST = 19


def seed_numbers(seeds: Seeds, first: int) -> tuple[int, ...]:
    """The seeds of all repetitions.

    Args:
        seeds: how many, counted up from `first`, or the numbers themselves.
        first: the experiment's own seed.
    """
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        if seeds < 1:
            raise UserError(f"seeds must be at least 1, not {seeds}")
        if seeds > MOST_SEEDS or first + seeds - 1 > LARGEST_SEED:
            raise UserError(
                f"seeds: so many repetitions from seed {first} on are too many: at most {MOST_SEEDS:,}, and up to seed "
                f"{LARGEST_SEED}"
            )
        return tuple(range(first, first + int(seeds)))
    numbers = None if isinstance(seeds, str | bytes | bool) or not hasattr(seeds, "__iter__") else list(seeds)
    if not numbers or not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers):
        raise UserError(
            f"seeds must be a number of repetitions, such as 3, or a list of seeds, such as [1, 2, 3], not {seeds!r}"
        )
    if bad := [n for n in numbers if not 0 <= n <= LARGEST_SEED]:
        raise UserError(f"seeds: a seed lies between 0 and {LARGEST_SEED}, not at {bad[0]}")
    if len(set(numbers)) < len(numbers):
        raise UserError(f"seeds names a seed twice: {numbers}")
    return tuple(sorted(int(n) for n in numbers))


def host_rng(seed: int, purpose: Purpose, *counters: int) -> np.random.Generator:
    """NumPy generator for one address; used by everything that happens before the compiled program."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, int(purpose), *counters])))


def device_key(seed: int, purpose: Purpose) -> Any:
    """JAX key for one purpose; fold the counters (round, device, ...) in where it is used."""
    import jax

    return jax.random.fold_in(jax.random.key(seed), int(purpose))


def draw_key(root: Any, purpose: Purpose, *counters: Any) -> Any:
    """The JAX key of one draw inside the compiled program; `root` is the seed's key, the counters may be arrays."""
    import jax

    key = jax.random.fold_in(root, int(purpose))
    for counter in counters:
        key = jax.random.fold_in(key, counter)
    return key
