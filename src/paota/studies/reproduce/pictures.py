"""Figs. 1 and 2 as drawings of what really happened in a run: who transmitted how loud, and who worked when."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...pages.figure import OWN_LEGEND, Figure, Layout, View, numbers, scatter
from ...pages.page import Section
from ...pages.timeline import STALENESS_SHADES, stretch_of, timeline_figure
from .store import Stored

SHOWN_ROUND = 4  # of the system
SHOWN_DEVICES, SHOWN_ROUNDS = 10, 5  # of the work-flow


def system(cell: Stored, devices: int) -> Section:
    """Fig. 1: one aggregation. Dots are devices; those that were ready send, as loud as the line is wide."""
    arrays = cell.arrays
    rounds = arrays["devices/round"]
    now = rounds == min(SHOWN_ROUND, int(rounds.max()))
    ready, staleness = (arrays[f"devices/{name}"][now].astype(int) for name in ("device", "staleness"))
    power = arrays["devices/amplitude"][now] / arrays["devices/amplitude"][now].max()
    angle = 2 * np.pi * np.arange(devices) / devices
    radius = 0.72 + 0.28 * ((np.arange(devices) * 0.618) % 1)  # spread, so that dots do not touch
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    shades = np.minimum(staleness, STALENESS_SHADES - 1)
    traces = [
        scatter("lines", [x[k], 0.13 * x[k]], [y[k], 0.13 * y[k]], showlegend=False)
        | {"line": {"color": f"$staleness{shade}", "width": 0.5 + 2 * loud, "dash": "solid"}}
        for k, shade, loud in zip(ready, shades, power.tolist(), strict=True)
    ]
    waiting = np.delete(np.arange(devices), ready)
    look: dict[str, Any] = {"symbol": "circle-open", "color": "$muted", "size": 7}
    traces.append(scatter("markers", x[waiting], y[waiting], name="still training", marker=look))
    for shade in np.unique(shades):
        mine = shades == shade
        sending = scatter("markers", x[ready[mine]], y[ready[mine]], name=f"sends, staleness {shade}", hoverinfo="all")
        look = {"color": f"$staleness{shade}", "size": 9}
        records = [numbers(record, 4) for record in np.stack([ready, staleness, power], axis=1)[mine]]
        hover = "device %{customdata[0]}, staleness %{customdata[1]}<extra></extra>"
        traces.append(sending | {"marker": look, "customdata": records, "hovertemplate": hover})
    look = {"symbol": "square", "color": "$text", "size": 34}
    server = {"text": ["PS"], "textfont": {"size": 13, "color": "$card"}, "showlegend": False}
    traces.append(scatter("markers+text", [0], [0], marker=look, **server))
    hidden = {"visible": False, "range": [-1.15, 1.15]}
    layout: Layout = {"xaxis": hidden, "yaxis": hidden | {"scaleanchor": "x"}, "hovermode": "closest"} | OWN_LEGEND
    records_of = ("device", "staleness", "amplitude beside the loudest")
    figure = Figure(
        id="system",
        title=f"One aggregation: {len(ready)} of {devices} devices are ready",
        caption="The server PS hears y = Σ h_k φ_k w_k + n and makes w^(r+1) = y / Σ b_k p_k of it.",
        alt="Drawing of the server amid the devices; those that are ready are connected to it.",
        views={"all": View(traces=traces, layout=layout, record_columns=records_of)},
        height_px=440,
    )
    return Section(
        id="fig1-system",
        title="Fig. 1: the system",
        intro="One aggregation of a real run: the ready devices transmit together, as loud as their line is wide; the "
        "others are still training. Positions are for drawing only.",
        figures=[figure],
    )


def workflow(cell: Stored) -> Section:
    """Fig. 2: who worked when, in the first rounds."""
    names = ("round", "device", "staleness", "start_s", "finish_s", "weight")
    records = {name: np.asarray(cell.arrays[f"devices/{name}"]) for name in names}
    records["time_s"] = cell.of("paota", "time_s")[0][records["round"].astype(int)]
    records["version"] = records["round"] - 1 - records["staleness"]
    stretch = stretch_of(records, devices=SHOWN_DEVICES, events=SHOWN_ROUNDS)
    return Section(
        id="fig2-workflow",
        title="Fig. 2: the work-flow",
        intro="The first rounds of the same run. Nobody waits for the slowest.",
        figures=[timeline_figure({"paota": ("PAOTA", stretch)}, id="workflow")] if stretch else [],
    )
