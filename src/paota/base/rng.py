"""Counter-based randomness: every draw is addressed by (seed, purpose, counters), never taken from a shared stream.

A result does not depend on the order of work, on chunk sizes, padding or resuming, nor on the other algorithms of the
experiment. All algorithms of one experiment get the same devices, latencies and channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from .errors import UserError
from .types import Floats, Ints, NumPyArray

if TYPE_CHECKING:
    import jax

Seeds = int | Sequence[int]  # their number, or the seeds themselves
LARGEST_SEED = 2**31 - 1
MOST_SEEDS = 1_000_000


class Purpose(IntEnum):
    """The purpose of a draw. The numbers are part of the file format of results: never renumber, only append."""

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
    LAYERS = 20


def seed_numbers(seeds: Seeds, first: int) -> tuple[int, ...]:
    """Return the seeds of all repetitions.

    Args:
        seeds: their number, counted up from `first`, or the seeds themselves.
        first: the experiment's own seed.
    """
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        if seeds < 1:
            raise UserError(f"seeds must be at least 1, not {seeds}")
        if seeds > MOST_SEEDS or first + seeds - 1 > LARGEST_SEED:
            raise UserError(
                f"seeds: {seeds} repetitions from seed {first} on are too many: at most {MOST_SEEDS:,}, up to seed {LARGEST_SEED}"
            )
        return tuple(range(first, first + int(seeds)))
    numbers = None if isinstance(seeds, str | bytes | bool) or not hasattr(seeds, "__iter__") else list(seeds)
    if not numbers or not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers):
        raise UserError(
            f"seeds must be a number of repetitions, such as 3, or a list of seeds, such as [1, 2, 3], not {seeds!r}"
        )
    if bad := [n for n in numbers if not 0 <= n <= LARGEST_SEED]:
        raise UserError(f"seeds: a seed must be from 0 to {LARGEST_SEED}, not {bad[0]}")
    if len(set(numbers)) < len(numbers):
        raise UserError(f"seeds names a seed twice: {numbers}")
    return tuple(int(n) for n in numbers)


def host_rng(seed: int, purpose: Purpose, *counters: int) -> np.random.Generator:
    """Return the NumPy generator of one address, for draws on the host."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, int(purpose), *counters])))


def pick_draws(device: Ints, training: Ints, row: Callable[[int], NumPyArray], columns: tuple[int, ...] = ()) -> Floats:
    """Return draws that are made for all devices at once, one row per training number: [*columns, n].

    Args:
        device: [n].
        training: which training of the device, [n].
        row: a function that returns the draws of all devices for one training number, [*columns, K].
        columns: leading axes of a row.
    """
    out = np.empty((*columns, len(device)))
    order = np.argsort(training, kind="stable")
    numbers, first = np.unique(training[order], return_index=True)
    edges = [*first.tolist(), len(order)]
    for number, begin, end in zip(numbers.tolist(), edges[:-1], edges[1:], strict=True):
        where = order[begin:end]
        out[..., where] = row(number)[..., device[where]]
    return out


def device_key(seed: int, purpose: Purpose) -> jax.Array:
    """Return the JAX key of one purpose; the caller folds in the counters (round, device, ...)."""
    import jax  # start-up time

    return jax.random.fold_in(jax.random.key(seed), int(purpose))


def draw_key(root: jax.Array, purpose: Purpose, *counters: jax.Array | int) -> jax.Array:
    """Return the JAX key of one draw inside the compiled program; `root` is the key of the seed."""
    import jax  # start-up time

    key = jax.random.fold_in(root, int(purpose))
    for counter in counters:
        key = jax.random.fold_in(key, counter)
    return key
