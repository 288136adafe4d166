"""The work that networks are timed on: numbers that look like images, and what is computed with them in a round."""

from __future__ import annotations

import numpy as np

DEVICES, STEPS, BATCH, LEARNING_RATE = 20, 5, 32, 0.05
TRAINING, TEST, CLASSES = 10_000, 10_000, 10
GREY, COLOUR = (28, 28, 1), (32, 32, 3)

# name: shape of a sample
MODELS = {
    "cnn-grey": GREY,
    "cnn-colour": COLOUR,
    "fedavg-cnn": GREY,
    "lenet5": GREY,
    "resnet8": COLOUR,
    "resnet20": COLOUR,
    "mlp": GREY,
}


def data(shape: tuple[int, ...], samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 [samples, *shape] and labels: a faint stripe in noise, at the height of the class."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, CLASSES, samples)
    x = draw.standard_normal((samples, *shape), dtype=np.float32)
    x[np.arange(samples), 2 * y + 1] += 1.0
    return x, y


def batches(draw: np.random.Generator) -> np.ndarray:
    """Samples of every step of the devices of a round: int64 [devices, steps, batch]."""
    return draw.integers(0, TRAINING, (DEVICES, STEPS, BATCH))
