"""The picture of docs/channels.md.

python benchmarks/channel_pictures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

from paota.air.channel import selective
from paota.air.settings import Air
from paota.base import settings

mpl.use("Agg")
mpl.rcParams.update({"svg.hashsalt": "paota", "font.size": 9})  # the same picture gives the same file

import matplotlib.pyplot as plt  # noqa: E402

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "img"
TDL_C: dict[str, Any] = {"subcarriers": 64, "delay_profile": "tdl-c", "delay_spread_s": 300e-9}


def channel_picture(path: Path) -> None:
    """Draw |h(f)| of one device while it moves, and the subcarriers that truncation leaves out."""
    air = settings.parse(Air, {**TDL_C, "fading": "jakes", "doppler_hz": 0.02}, "air")
    times = np.arange(0, 200.0, 2.0)
    draw = jax.jit(jax.vmap(lambda t: selective(air, jax.random.key(0), jnp.int32(0), t, jnp.arange(1))[0, 0]))
    gain = np.abs(np.asarray(draw(times))).T ** 2  # [F, times]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True, constrained_layout=True)
    shown = left.pcolormesh(
        times, np.arange(64), 10 * np.log10(gain), cmap="viridis", vmin=-25, vmax=6, rasterized=True
    )
    figure.colorbar(shown, ax=left, label="|h(f)|² (dB)")
    right.pcolormesh(times, np.arange(64), gain < 0.1, cmap="Greys", vmin=0, vmax=1.5, rasterized=True)
    left.set(xlabel="simulated time (s)", ylabel="subcarrier", title="Channel of one device, TDL-C, 300 ns")
    right.set(xlabel="simulated time (s)", title=f"Left out at a threshold of 0.1: {np.mean(gain < 0.1):.1%}")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    channel_picture(IMAGES / "channels-fading.svg")
