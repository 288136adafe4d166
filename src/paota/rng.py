"""Counter-based randomness: every draw is addressed by (seed, purpose, counters), never taken from a shared stream.

So a result does not depend on the order of work, on chunk sizes, padding or resuming, nor on which other algorithms run
beside it, and all algorithms of one experiment meet the same devices, latencies and channels.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np


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
