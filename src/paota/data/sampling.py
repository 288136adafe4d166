"""Draws without replacement for many devices at once, at a cost that grows with the draws, not with the population."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from paota.base.types import Bools, Ints


def draw_distinct(populations: Ints, counts: Ints, rng: np.random.Generator) -> Ints:
    """Draw, for each row k, a uniformly random set of counts[k] numbers from 0..populations[k]-1.

    Args:
        populations: [n].
        counts: [n], from 0 to `populations`.
        rng: generator of the draws.

    Returns:
        The rows one after the other, each ascending.
    """
    # A row that needs more than half draws its complement, so that a new draw succeeds at least half the time.
    inverted = 2 * counts > populations
    stride = int(populations.max(initial=1))
    keys = _distinct_keys(populations, np.where(inverted, populations - counts, counts), stride, rng)
    if inverted.any():
        keys = _complement(keys, populations, inverted, stride)
    return keys - np.repeat(np.arange(len(counts)) * stride, counts)


def _distinct_keys(populations: Ints, counts: Ints, stride: int, rng: np.random.Generator) -> Ints:
    """Return sorted keys row*stride + number.

    The distribution equals that of single draws that skip repeated numbers: a row ends with the first counts[k] distinct
    numbers of an endless uniform sequence, which is a uniformly random set.
    """
    rows = np.arange(len(counts))
    edges = np.append(rows, len(rows)) * stride
    keys = np.empty(0, np.int64)
    missing = counts
    while missing.any():
        row = np.repeat(rows, missing)
        fresh = row * stride + (rng.random(len(row)) * populations[row]).astype(np.int64)
        keys = _sorted_unique(np.concatenate([keys, fresh]))
        missing = counts - np.diff(np.searchsorted(keys, edges))
    return keys


def _sorted_unique(keys: Ints) -> Ints:
    keys.sort()
    first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if first.all() else keys[first]


def _complement(keys: Ints, populations: Ints, inverted: Bools, stride: int) -> Ints:
    """Return the keys with the inverted rows replaced by their complements."""
    row = keys // stride
    all_keys = ragged_ranges(np.flatnonzero(inverted) * stride, populations[inverted])
    left_out = keys[inverted[row]]
    chosen = np.ones(len(all_keys), bool)
    chosen[np.searchsorted(all_keys, left_out)] = False
    return np.sort(np.concatenate([keys[~inverted[row]], all_keys[chosen]]))


def ragged_ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return starts[0], starts[0]+1, ... (lengths[0] numbers), then the same from starts[1], and so on."""
    before = np.cumsum(lengths) - lengths
    shifted: Ints = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(starts - before, lengths)
    return shifted


def blocks(weights: Ints, limit: int) -> Iterator[slice]:
    """Yield slices of consecutive rows of at most `limit` total weight; a heavier row is a slice by itself."""
    totals = np.cumsum(weights)
    start = 0
    while start < len(weights):
        done = int(totals[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(totals, done + limit, side="right")))
        yield slice(start, stop)
        start = stop
