"""Draws without replacement for many devices at once; the work grows with what is drawn, not with the population."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def draw_distinct(populations: Ints, counts: Ints, rng: np.random.Generator) -> Ints:
    """For each row k, a uniformly random set of counts[k] numbers out of 0..populations[k]-1.

    Needs 0 <= counts <= populations. The rows stand one after the other, each ascending.
    """
    # A row that wants more than half draws what to leave out, so that a new draw succeeds at least half the time.
    inverted = 2 * counts > populations
    stride = int(populations.max(initial=1))
    keys = _distinct_keys(populations, np.where(inverted, populations - counts, counts), stride, rng)
    if inverted.any():
        keys = _complement(keys, populations, inverted, stride)
    return keys - np.repeat(np.arange(len(counts)) * stride, counts)


def _distinct_keys(populations: Ints, counts: Ints, stride: int, rng: np.random.Generator) -> Ints:
    """Sorted keys row*stride + number. The same as drawing one by one and skipping what a row has already: each row
    ends with the first counts[k] different numbers of an endless uniform sequence, i.e. with a uniformly random set."""
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


def _complement(keys: Ints, populations: Ints, inverted: npt.NDArray[np.bool_], stride: int) -> Ints:
    """Keys in which the inverted rows hold what they had left out."""
    row = keys // stride
    all_keys = ragged_ranges(np.flatnonzero(inverted) * stride, populations[inverted])
    left_out = keys[inverted[row]]
    chosen = np.ones(len(all_keys), bool)
    chosen[np.searchsorted(all_keys, left_out)] = False
    return np.sort(np.concatenate([keys[~inverted[row]], all_keys[chosen]]))


def ragged_ranges(starts: Ints, lengths: Ints) -> Ints:
    """starts[0], starts[0]+1, ... (lengths[0] of them), then the same from starts[1], and so on."""
    before = np.cumsum(lengths) - lengths
    shifted: Ints = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(starts - before, lengths)
    return shifted


def blocks(weights: Ints, limit: int) -> Iterator[slice]:
    """Cut rows into runs of at most `limit` total weight (a single heavier row is a run of its own)."""
    totals = np.cumsum(weights)
    start = 0
    while start < len(weights):
        done = int(totals[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(totals, done + limit, side="right")))
        yield slice(start, stop)
        start = stop
