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


def host_rng(seed: int, purpose: Purpose, *counters: int) -> np.random.Generator:
    """NumPy generator for one address; used by everything that happens before the compiled program."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, int(purpose), *counters])))


def device_key(seed: int, purpose: Purpose) -> Any:
    """JAX key for one purpose; fold the counters (round, device, ...) in where it is used."""
    import jax

    return jax.random.fold_in(jax.random.key(seed), int(purpose))
