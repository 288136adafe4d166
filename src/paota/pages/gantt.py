"""The picture of the timeline: who trains, who waits for the deadline, who sends, and how stale it is by then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .figure import Figure, Section, Trace, View, drawn, numbers
from .study import Series, Study, column

MOST_DEVICES = 20
EVENTS = 12
# A fully asynchronous run has one contribution an event; twelve of them would say little.
FEWEST_CONTRIBUTIONS = 40
MOST_EVENTS = 120
# Each takes some 20 kB of the file.
MOST_TIMELINES = 12
STALENESS_SHADES = 5


@dataclass(frozen=True, kw_only=True)
class _Stretch:
    """The records of one label and one seed that begin before the picture ends."""

    rows: dict[str, np.ndarray]
    devices: np.ndarray
    times_s: np.ndarray
    end_s: float


def timeline_section(study: Study) -> tuple[Section, list[tuple[str, str]]]:
    """The section, and the (view key, series name) choices of its selector."""
    recorded = [series for series in drawn(study) if len(column(series.devices, "time_s"))]
    stretches = [(series, _stretch(series)) for series in recorded[:MOST_TIMELINES]]
    present = [(series, stretch) for series, stretch in stretches if stretch is not None]
    if not present:
        empty = "This run kept no records of single devices, so there is no timeline to draw."
        return Section(id="timeline", title="Device timeline", intro=empty), []
    tallest = max(len(stretch.devices) for _, stretch in present)
    first = present[0][0]
    figure = Figure(
        id="timeline",
        title="Who trains, who waits, who sends",
        caption="A bar is one local training, from the start to its end; its number and shade say how many rounds old "
        "its starting model is when it is sent. The dotted line is waiting, the diamond is the sending, and "
        "each vertical line is an aggregation at the server. Faded bars are sent after the picture ends.",
        alt=f"Gantt chart of the first devices and aggregations, one row for each device. {_in_words(present)}",
        views={str(series.index): _view(stretch) for series, stretch in present},
        group="timeline",
        height_px=120 + 22 * tallest,
        wide=True,
    )
    section = Section(
        id="timeline",
        title="Device timeline",
        intro="The beginning of the run as it really went, for the first devices that take part "
        f"(seed {_first_seed(first)}).{_left_out(len(recorded))}",
        figures=[figure],
    )
    return section, [(str(series.index), series.name) for series, _ in present]


def _left_out(recorded: int) -> str:
    return f" Of {recorded} timelines the first {MOST_TIMELINES} are kept." if recorded > MOST_TIMELINES else ""


def _first_seed(series: Series) -> int:
    return int(np.asarray(series.devices["seed"]).min())


def _stretch(series: Series) -> _Stretch | None:
    names = ("device", "round", "staleness", "start_s", "finish_s", "time_s", "version", "weight")
    rows = {name: column(series.devices, name) for name in names}
    own = (np.asarray(series.devices["seed"]) == _first_seed(series)) & np.all(
        [np.isfinite(rows[name]) for name in ("device", "staleness", "start_s", "finish_s", "time_s")], axis=0
    )
    if not own.any():
        return None
    rows = {name: values[own] for name, values in rows.items()}
    times_s, contributions = np.unique(rows["time_s"], return_counts=True)
    enough = int(np.searchsorted(np.cumsum(contributions), FEWEST_CONTRIBUTIONS)) + 1
    shown = times_s[: max(EVENTS, min(enough, MOST_EVENTS))]
    rows = {name: values[rows["start_s"] < shown[-1]] for name, values in rows.items()}
    devices = np.unique(rows["device"])[:MOST_DEVICES]
    visible = np.isin(rows["device"], devices)
    rows = {name: values[visible] for name, values in rows.items()}
    return _Stretch(rows=rows, devices=devices, times_s=shown, end_s=float(shown[-1]))


def _view(stretch: _Stretch) -> View:
    rows = stretch.rows
    place = np.searchsorted(stretch.devices, rows["device"])
    inside = rows["time_s"] <= stretch.end_s
    traces = [_waiting(rows, place, stretch.end_s)]
    for shade in range(STALENESS_SHADES):
        last = shade == STALENESS_SHADES - 1
        level = rows["staleness"] >= shade if last else rows["staleness"] == shade
        name = f"staleness {shade}{' or more' if last else ''}"
        if (level & inside).any():
            traces.append(_training(rows, place, level & inside, stretch.end_s, shade, name))
    if (~inside).any():
        traces.append(_unfinished(rows, place, ~inside, stretch.end_s))
    traces.append(_sending(rows, place, inside))
    return View(
        traces=traces,
        layout={
            "xaxis": {"title": {"text": "simulated seconds"}, "range": [0, stretch.end_s * 1.015], "showgrid": False},
            "yaxis": {
                "tickvals": list(range(len(stretch.devices))),
                "ticktext": [f"{device:.0f}" for device in stretch.devices],
                "range": [len(stretch.devices) - 0.4, -0.6],
                "title": {"text": "device"},
                "showgrid": False,
                "zeroline": False,
            },
            "barmode": "overlay",
            "bargap": 0.25,
            "hovermode": "closest",
            "showlegend": True,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "shapes": [
                {
                    "type": "line",
                    "yref": "paper",
                    "y0": 0,
                    "y1": 1,
                    "x0": short,
                    "x1": short,
                    "layer": "between",
                    "line": {"color": "$rule", "width": 1},
                }
                for short in numbers(stretch.times_s)
            ],
        },
        record_columns=("device", "start_s", "finish_s", "version", "sent_s", "staleness", "weight"),
    )


def _training(
    rows: dict[str, np.ndarray], place: np.ndarray, chosen: np.ndarray, end_s: float, shade: int, name: str
) -> Trace:
    start_s, finish_s = rows["start_s"][chosen], np.minimum(rows["finish_s"][chosen], end_s)
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "base": numbers(start_s),
        "x": numbers(finish_s - start_s),
        "y": numbers(place[chosen]),
        "text": [f"{staleness:.0f}" for staleness in rows["staleness"][chosen]],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "textfont": {"size": 11, "color": f"$staleness-text{shade}"},
        "marker": {"color": f"$staleness{shade}"},
        "customdata": _details(rows, chosen),
        "hovertemplate": "device %{customdata[0]}<br>trains %{customdata[1]} to %{customdata[2]} s from version "
        "%{customdata[3]}<br>sent at %{customdata[4]} s, staleness %{customdata[5]}"
        "<br>weight %{customdata[6]:.3~g}<extra></extra>",
    }


def _details(rows: dict[str, np.ndarray], chosen: np.ndarray) -> list[list[float | None]]:
    names = ("device", "start_s", "finish_s", "version", "time_s", "staleness", "weight")
    return [numbers(row, 6) for row in np.stack([rows[name][chosen] for name in names], axis=1)]


def _unfinished(rows: dict[str, np.ndarray], place: np.ndarray, chosen: np.ndarray, end_s: float) -> Trace:
    start_s = rows["start_s"][chosen]
    return {
        "type": "bar",
        "orientation": "h",
        "name": "sent later",
        "base": numbers(start_s),
        "x": numbers(np.minimum(rows["finish_s"][chosen], end_s) - start_s),
        "y": numbers(place[chosen]),
        "marker": {"color": "$faded"},
        "customdata": _details(rows, chosen),
        "hovertemplate": "device %{customdata[0]}<br>trains %{customdata[1]} to %{customdata[2]} s from version "
        "%{customdata[3]}<br>sent at %{customdata[4]} s, staleness %{customdata[5]}<extra></extra>",
    }


def _waiting(rows: dict[str, np.ndarray], place: np.ndarray, end_s: float) -> Trace:
    """One broken line: finish to sending, then a gap."""
    x: list[float | None] = []
    y: list[float | None] = []
    for finish_s, sent_s, row in zip(rows["finish_s"], rows["time_s"], place, strict=True):
        if finish_s < min(sent_s, end_s):
            x += [*numbers([finish_s, min(sent_s, end_s)]), None]
            y += [int(row), int(row), None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "waits",
        "x": x,
        "y": y,
        "connectgaps": False,
        "line": {"color": "$muted", "width": 1.5, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _sending(rows: dict[str, np.ndarray], place: np.ndarray, inside: np.ndarray) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "sends",
        "x": numbers(rows["time_s"][inside]),
        "y": numbers(place[inside]),
        "cliponaxis": False,
        "marker": {"symbol": "diamond", "size": 8, "color": "$text", "line": {"color": "$page", "width": 1}},
        "hoverinfo": "skip",
    }


def _in_words(present: list[tuple[Series, _Stretch]]) -> str:
    return " ".join(
        f"{series.name}: {len(stretch.times_s)} aggregations in {stretch.end_s:.0f} seconds, largest staleness "
        f"{stretch.rows['staleness'].max():.0f}."
        for series, stretch in present
    )
