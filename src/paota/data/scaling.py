"""From stored samples to what a model sees: bytes to [0, 1], and each channel to mean 0 and standard deviation 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK = 1024  # samples turned into float64 at once


@dataclass(frozen=True)
class Scaling:
    """(x - mean_c) / std_c for channel c, where x is a byte / 255 or a float as it is. One entry: the same for all."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, x: npt.NDArray[Any]) -> Scaling:
        """From samples [N, H, W, C], one entry for each channel; from samples of another shape, one for all values.

        A channel that never changes is only shifted.
        """
        channels = x.shape[-1] if x.ndim == 4 else 1
        rows = x.reshape(len(x), -1)
        blocks = [slice(i, i + BLOCK) for i in range(0, len(x), BLOCK)]

        def mean_of(value: Callable[[Any], Any]) -> npt.NDArray[np.float64]:
            """Over samples first, which is quick, then over the places of each channel."""
            total = np.sum([value(rows[block].astype(np.float64)).sum(axis=0) for block in blocks], axis=0)
            mean: npt.NDArray[np.float64] = total.reshape(-1, channels).mean(axis=0) / len(rows)
            return mean

        mean = mean_of(lambda row: row)
        centre = np.tile(mean, rows.shape[1] // channels)
        std = np.sqrt(mean_of(lambda row: (row - centre) ** 2))
        unit = 255.0 if x.dtype == np.uint8 else 1.0
        return cls(tuple((mean / unit).tolist()), tuple((np.where(std > 0, std, unit) / unit).tolist()))
