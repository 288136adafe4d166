"""Figs. 1 and 2 as drawings of what really happened in a run: who transmitted how loud, and who worked when."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..reproduce.store import Stored
from .reproduction_style import new_figure

STALENESS = ("#56b4e9", "#e69f00", "#d55e00", "#9c2f4f")
SHOWN_DEVICES, SHOWN_ROUNDS = 10, 5


def system(cell: Stored, *, devices: int, round_shown: int = 4) -> Any:
    """Fig. 1: one aggregation. Dots are devices; those that were ready send, as loud as the line is wide."""
    figure, axis = new_figure(1, width=3.5, height=3.4)
    column = {name: cell.arrays[f"devices/{name}"] for name in ("round", "device", "staleness", "power")}
    shown = min(round_shown, int(column["round"].max()))
    now = column["round"] == shown
    angle = 2 * np.pi * np.arange(devices) / devices
    radius = 0.72 + 0.28 * ((np.arange(devices) * 0.618) % 1)  # spread, so that dots do not touch
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    ready = column["device"][now].astype(int)
    axis.scatter(
        np.delete(x, ready), np.delete(y, ready), s=10, facecolor="white", edgecolor="0.6", label="still training"
    )
    power = column["power"][now] / column["power"][now].max()
    for staleness in np.unique(column["staleness"][now]):
        mine = column["staleness"][now] == staleness
        colour = STALENESS[min(int(staleness), len(STALENESS) - 1)]
        for k, loud in zip(ready[mine], power[mine], strict=True):
            axis.plot([x[k], 0.13 * x[k]], [y[k], 0.13 * y[k]], color=colour, linewidth=0.3 + 1.3 * loud, zorder=1)
        axis.scatter(
            x[ready[mine]], y[ready[mine]], s=14, color=colour, zorder=2, label=f"sends, staleness {int(staleness)}"
        )
    axis.scatter([0], [0], s=420, marker="s", color="#222222", zorder=3)
    axis.text(0, 0, "PS", color="white", ha="center", va="center", fontsize=8, zorder=4)
    axis.text(0, -1.22, r"$y = \sum_k h_k \phi_k w_k + n$,   $w^{r+1} = y / \sum_k b_k p_k$", ha="center", fontsize=8)
    axis.set(
        xlim=(-1.15, 1.15),
        ylim=(-1.35, 1.1),
        aspect="equal",
        title=f"aggregation {shown}: {len(ready)} of {devices} devices are ready",
    )
    axis.set_axis_off()
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=6)
    return figure


def workflow(cell: Stored) -> Any:
    """Fig. 2: who worked when. Bars are local trainings; at every dashed line the finished ones are summed up."""
    figure, axis = new_figure(1, width=5.5, height=2.8)
    names = ("round", "device", "staleness", "start_s", "finish_s")
    column = {name: cell.arrays[f"devices/{name}"] for name in names}
    deadlines = np.unique(cell.of("paota", "time_s")[0])[1 : SHOWN_ROUNDS + 1]
    end_s = float(deadlines[-1])
    for device in range(SHOWN_DEVICES):
        for i in np.flatnonzero((column["device"] == device) & (column["start_s"] < end_s)):
            start, finish = float(column["start_s"][i]), float(column["finish_s"][i])
            staleness = int(column["staleness"][i])
            due = float(cell.of("paota", "time_s")[0][int(column["round"][i])])
            colour = STALENESS[min(staleness, len(STALENESS) - 1)]
            axis.barh(device, min(finish, end_s) - start, left=start, height=0.62, color=colour, linewidth=0)
            if due <= end_s:
                axis.plot([finish, due], [device, device], color="0.5", linewidth=0.7, linestyle=":")
                axis.plot(due, device, marker="^", color="black", markersize=3, zorder=3)
                axis.text(
                    (start + finish) / 2,
                    device,
                    str(staleness),
                    fontsize=5.5,
                    ha="center",
                    va="center",
                    color="#222222",
                )
    for r, deadline in enumerate(deadlines):
        axis.axvline(deadline, color="#222222", linewidth=0.8, linestyle="--", zorder=0)
        axis.text(deadline - 0.3, -1.0, f"$w^{{{r + 1}}}$", ha="right", fontsize=7)
    axis.set(
        xlabel="simulated time in s (number in a bar: staleness; triangle: takes part in that aggregation)",
        ylabel="device",
        xlim=(0, end_s * 1.02),
        ylim=(SHOWN_DEVICES - 0.4, -1.6),
    )
    axis.set_yticks(range(SHOWN_DEVICES))
    axis.grid(False)
    return figure
