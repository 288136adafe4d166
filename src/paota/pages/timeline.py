"""The timeline figure: which devices train, wait for the deadline and send, and how stale their updates are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .curves import Rows, column
from .figure import OWN_LEGEND, Figure, Layout, Trace, View, level, numbers, scatter, together

MOST_DEVICES = 20
EVENTS = 12
# A fully asynchronous run has one contribution per event, so twelve events would show little.
FEWEST_CONTRIBUTIONS = 40
MOST_EVENTS = 120
# Each timeline takes some 20 kB of the file.
MOST_TIMELINES = 12
STALENESS_SHADES = 5


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The records of one trajectory until the figure ends at `end_s`; `times_s` of its aggregations."""

    rows: Rows
    devices: np.ndarray
    times_s: np.ndarray
    end_s: float


def timeline_figure(stretches: Mapping[str, tuple[str, Stretch]], *, id: str = "timeline") -> Figure:
    """Return a figure with one view for each (name, stretch) and a selector if there are several."""
    tallest = max(len(stretch.devices) for _, stretch in stretches.values())
    words = (
        f"{name}: {len(stretch.times_s)} aggregations in {stretch.end_s:.0f} seconds, largest staleness "
        f"{stretch.rows['staleness'].max():.0f}."
        for name, stretch in stretches.values()
    )
    return Figure(
        id=id,
        title="Training, waiting and sending",
        caption="A bar is one local training; its number and shade show how many rounds old its starting model is when it "
        "is sent. Dotted lines are waiting, triangles sending, dashed lines aggregations at the server. Faded bars are "
        "sent after the figure ends.",
        alt="Gantt chart of the first devices and aggregations, one row for each device. " + " ".join(words),
        views={key: _view(stretch) for key, (_, stretch) in stretches.items()},
        choices={key: name for key, (name, _) in stretches.items()},
        group="timeline",
        height_px=120 + 22 * tallest,
        wide=True,
    )


def stretch_of(
    records: Mapping[str, np.ndarray], *, devices: int = MOST_DEVICES, events: int = EVENTS
) -> Stretch | None:
    """Return the beginning of one trajectory, or None without complete records.

    Args:
        records: of its devices, with the columns device, round, staleness, start_s, finish_s, time_s (of sending),
            version and weight.
        devices: number of devices, the first ones that take part.
        events: number of aggregations at least.
    """
    names = ("device", "round", "staleness", "start_s", "finish_s", "time_s", "version", "weight")
    rows = {name: column(records, name) for name in names}
    known = [np.isfinite(rows[name]) for name in ("device", "staleness", "start_s", "finish_s", "time_s")]
    rows = _chosen(rows, np.all(known, axis=0))
    times_s, contributions = np.unique(rows["time_s"], return_counts=True)
    enough = int(np.searchsorted(np.cumsum(contributions), FEWEST_CONTRIBUTIONS)) + 1
    shown = times_s[: max(events, min(enough, MOST_EVENTS))]
    rows = _chosen(rows, rows["start_s"] < shown.max(initial=-np.inf))
    if not len(rows["device"]):
        return None
    first = np.unique(rows["device"])[:devices]
    rows = _chosen(rows, np.isin(rows["device"], first))
    return Stretch(rows=rows, devices=first, times_s=shown, end_s=float(shown[-1]))


def _chosen(rows: Rows, chosen: np.ndarray) -> Rows:
    return {name: values[chosen] for name, values in rows.items()}


def _view(stretch: Stretch) -> View:
    rows = stretch.rows
    place = np.searchsorted(stretch.devices, rows["device"])
    inside = rows["time_s"] <= stretch.end_s
    traces = [_waiting(rows, place, stretch.end_s)]
    for shade in range(STALENESS_SHADES):
        last = shade == STALENESS_SHADES - 1
        shaded = inside & (rows["staleness"] >= shade if last else rows["staleness"] == shade)
        name = f"staleness {shade}{' or more' if last else ''}"
        if shaded.any():
            traces.append(_training(rows, place, shaded, stretch.end_s, shade, name))
    if (~inside).any():
        traces.append(_training(rows, place, ~inside, stretch.end_s, None, "sent later"))
    traces.append(_sending(rows, place, inside))
    devices = {
        "tickvals": list(range(len(stretch.devices))),
        "ticktext": [f"{device:.0f}" for device in stretch.devices],
    }
    bare = {"showgrid": False, "zeroline": False}
    range_s = [0.0, 1.015 * stretch.end_s]  # with room for the last triangles
    layout: Layout = {
        "xaxis": bare | {"title": {"text": "simulated seconds"}, "tickformat": ",", "range": range_s},
        "yaxis": bare | devices | {"title": {"text": "device"}, "range": [len(stretch.devices) - 0.4, -0.6]},
    }
    aggregations = [level(float(at), vertical=True, dash="dash") for at in stretch.times_s]
    bars = {"barmode": "overlay", "bargap": 0.25, "hovermode": "closest"}
    return View(
        traces=traces,
        layout=together(layout | bars | OWN_LEGEND, *aggregations),
        record_columns=("device", "start_s", "finish_s", "version", "sent_s", "staleness", "weight"),
    )


def _training(rows: Rows, place: np.ndarray, chosen: np.ndarray, end_s: float, shade: int | None, name: str) -> Trace:
    """Return bars of the chosen trainings, in the shade of their staleness, or faded for those that are sent later."""
    start_s, finish_s = rows["start_s"][chosen], np.minimum(rows["finish_s"][chosen], end_s)
    bars: Trace = {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "base": _moments(start_s),
        "x": _moments(finish_s - start_s),
        "y": numbers(place[chosen]),
        "marker": {"color": "$faded" if shade is None else f"$staleness{shade}"},
        "customdata": _details(rows, chosen),
        "hovertemplate": "device %{customdata[0]}<br>trains %{customdata[1]} to %{customdata[2]} s from version "
        "%{customdata[3]}<br>sent at %{customdata[4]} s, staleness %{customdata[5]}"
        "<br>weight %{customdata[6]:.3~g}<extra></extra>",
    }
    if shade is None:
        return bars
    return bars | {
        "text": [f"{staleness:.0f}" for staleness in rows["staleness"][chosen]],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "textfont": {"size": 11, "color": f"$staleness-text{shade}"},
    }


def _details(rows: Rows, chosen: np.ndarray) -> list[list[float | None]]:
    names = ("device", "start_s", "finish_s", "version", "time_s", "staleness", "weight")
    shown = [_moments(rows[name][chosen]) if name.endswith("_s") else numbers(rows[name][chosen], 6) for name in names]
    return [list(row) for row in zip(*shown, strict=True)]


def _moments(seconds: np.ndarray) -> list[float | None]:
    """Return times to the millisecond; significant digits would be too coarse late in a long run."""
    return numbers(np.round(seconds, 3), 15)


def _waiting(rows: Rows, place: np.ndarray, end_s: float) -> Trace:
    """Return one line with gaps, from each end of a training to its sending."""
    until_s = np.minimum(rows["time_s"], end_s)
    waits = rows["finish_s"] < until_s
    gap = np.full(waits.sum(), np.nan)
    x = np.stack([rows["finish_s"][waits], until_s[waits], gap], axis=1).ravel()
    y = np.stack([place[waits], place[waits], gap], axis=1).ravel()
    look = {"color": "$muted", "width": 1.5, "dash": "dot"}
    return scatter("lines", x, y, name="waits", connectgaps=False, line=look) | {"x": _moments(x)}


def _sending(rows: Rows, place: np.ndarray, inside: np.ndarray) -> Trace:
    look = {"symbol": "triangle-up", "size": 9, "color": "$text", "line": {"color": "$page", "width": 1}}
    sent_s = rows["time_s"][inside]
    drawn = scatter("markers", sent_s, place[inside], name="sends", cliponaxis=False, marker=look)
    return drawn | {"x": _moments(sent_s)}
