"""A small synthetic data set for tests and first tries: ten noisy patterns of 8 x 8 pixels, learnt in a few rounds."""

from __future__ import annotations

import functools

import numpy as np

from paota.base.types import Ints
from paota.data.dataset import Dataset

KEY = 20_260  # any number, but fixed: the data must never change
SIDE, CLASSES, TRAIN_SAMPLES, TEST_SAMPLES = 8, 10, 2_000, 500

BRIGHT = 128  # mean value of a pattern's lit pixels; the others are dark, as in MNIST
LIT_BELOW = 96  # of 256: about three pixels in eight are lit
NOISE_TERMS = 6  # a sum of this many uniform steps is close to a Gaussian


@functools.cache
def load() -> Dataset:
    """Return 2,000 training and 500 test samples, with the same number of each class."""
    # Only integers from the raw bit stream: the bytes are the same for every NumPy version and machine.
    bits = np.random.Philox(key=KEY)
    patterns = np.where(_bytes(bits, CLASSES, SIDE, SIDE) < LIT_BELOW, BRIGHT, 0)
    labels = np.arange(TRAIN_SAMPLES + TEST_SAMPLES, dtype=np.int32) % CLASSES
    noise = (_bytes(bits, NOISE_TERMS, len(labels), SIDE, SIDE) - 128).sum(axis=0) // 2
    pixels = np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8)
    return Dataset.from_arrays(
        name="synthetic",
        x_train=pixels[:TRAIN_SAMPLES],
        y_train=labels[:TRAIN_SAMPLES],
        x_test=pixels[TRAIN_SAMPLES:],
        y_test=labels[TRAIN_SAMPLES:],
    )


def _bytes(bits: np.random.Philox, *shape: int) -> Ints:
    """Return uniform numbers 0..255: the top byte of each 64-bit word, independent of the machine's byte order."""
    words = np.asarray(bits.random_raw(int(np.prod(shape))), dtype=np.uint64)
    return (words >> np.uint64(56)).astype(np.int64).reshape(shape)
