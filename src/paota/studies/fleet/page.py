"""The page of a fleet: who is there when, for how long, and how fast."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...base.files import write_text
from ...base.formatting import percent, quantity
from ...pages.figure import Figure, Trace, View, axes, level, line_chart, log_ticks, numbers, scatter, together
from ...pages.page import Page, Section, SettingsFile, Table, TableCell, TableRow, render
from ...timing.describe import Description
from ...timing.fleet import RATES, Fleet, Floats

SHOWN_DEVICES = 30
QUANTILES = (0.1, 0.5, 0.9)
BARS = 30
UNITS = {
    "latency_s": ("Seconds of a local training", "s"),
    "gflop_per_s": ("Speed of computing, GFLOP/s", "GFLOP/s"),
    "down_mbit_per_s": ("Downlink, Mbit/s", "Mbit/s"),
    "up_mbit_per_s": ("Uplink, Mbit/s", "Mbit/s"),
}


def write_page(path: Path, fleet: Fleet, found: Description, *, name: str, toml: str) -> None:
    """The page as one file at `path`; `name` is the fleet's file, `toml` the settings that use it."""
    write_text(path, render(build(fleet, found, name=name, toml=toml)))


def build(fleet: Fleet, found: Description, *, name: str, toml: str) -> Page:
    """The page of a fleet and what was found in it."""
    presence = Section(
        id="presence",
        title="Who is there",
        intro="A device that is away starts no training, and one that leaves suspends or loses the one it is in.",
        figures=[_share(found), _devices(fleet, found), *_lengths(found)],
    )
    speeds = [_histogram(column, found.rates[column]) for column in RATES if column in found.rates]
    fast = Section(id="speed", title="How fast", intro="One value for each device, of its first row.", figures=speeds)
    use = SettingsFile(name="experiment.toml", toml=toml, command="paota run experiment.toml")
    return Page(
        kind="PAOTA fleet",
        title=f"{name}: {found.devices:,} devices",
        heading=f"{found.devices:,} devices over {duration(found.span_s)}",
        ran=f"{name}, {found.rows:,} rows",
        findings=findings(found),
        sections=[
            presence,
            *([fast] if speeds else []),
            Section(id="numbers", title="In numbers", intro="", tables=[_table(found)]),
            Section(id="settings", title="To use it", intro="", settings=[use]),
        ],
    )


def findings(found: Description) -> list[str]:
    """What is in a fleet, in sentences."""
    least, most = int(np.argmin(found.share)), int(np.argmax(found.share))
    said = [
        f"On average {percent(found.mean_share)} of the devices are there: at least {percent(found.share[least])} "
        f"({clock(found.moment_s[least])}), at most {percent(found.share[most])} ({clock(found.moment_s[most])})."
    ]
    if found.never:
        said.append(f"{found.never:,} of {found.devices:,} devices are never there.")
    if len(found.stay_s):
        away = f", and is away for {duration(float(np.median(found.gap_s)))} between" if len(found.gap_s) else ""
        stays = duration(float(np.median(found.stay_s)))
        said.append(f"Half of the times that a device comes it stays for {stays} or longer{away}.")
    if not found.repeats:
        said.append("What the last rows say holds for good; timing.fleet_repeat_s would let it start over.")
    return said


def duration(seconds: float) -> str:
    """In the unit that fits."""
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size or (unit == "days" and seconds == size):
            number = seconds / size
            return f"{number:.3g} {unit if number != 1 else unit[:-1]}"
    return f"{seconds:.3g} s"


def clock(seconds: float) -> str:
    """A moment of a trace that begins at midnight: `3 h`, `day 2, 14 h`."""
    day, rest = divmod(seconds, 86_400.0)
    hour = f"{rest / 3600:.3g} h"
    return f"day {int(day) + 1}, {hour}" if day else hour


def _share(found: Description) -> Figure:
    hours = found.moment_s / 3_600
    curve = scatter("lines", hours, found.share, name="there", line={"color": "$accent"}, hoverinfo="all")
    layout = axes("hours from the beginning", y_format=".0%", y_hover=".1%", from_zero=True)
    layout = together(layout, level(found.mean_share, f"mean {percent(found.mean_share, 0)}"))
    return line_chart(
        {"all": ([curve], layout)},
        id="share",
        title="Share of the devices that are there",
        caption="Aggregations can only count on these.",
        alt="the share of the devices that are there, against hours.",
        wide=True,
    )


def _devices(fleet: Fleet, found: Description) -> Figure:
    """The first devices, one row each, a bar for every interval."""
    plain = fleet.availability()
    shown = min(SHOWN_DEVICES, len(fleet))
    last = int(plain.offsets[shown])
    place = np.repeat(np.arange(shown), np.diff(plain.offsets[: shown + 1]))
    start_h = np.minimum(plain.start_s[:last], found.span_s) / 3_600
    end_h = np.minimum(plain.end_s[:last], found.span_s) / 3_600
    bars: Trace = {
        "type": "bar", "orientation": "h", "name": "there", "base": numbers(start_h), "x": numbers(end_h - start_h),
        "y": numbers(place), "marker": {"color": "$accent"},
        "customdata": [[fleet.names[k], *numbers([a, b])] for k, a, b in zip(place.tolist(), start_h, end_h, strict=True)],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]} to %{customdata[2]} h<extra></extra>",
    }  # fmt: skip
    bare = {"showgrid": False, "zeroline": False}
    layout = {
        "xaxis": bare | {"title": {"text": "hours from the beginning"}, "range": [0, found.span_s / 3_600]},
        "yaxis": bare | {"title": {"text": "device"}, "range": [shown - 0.4, -0.6]},
        "barmode": "overlay", "bargap": 0.25, "hovermode": "closest",
    }  # fmt: skip
    return Figure(
        id="devices",
        title=f"The first {shown} devices" if shown < len(fleet) else "All devices",
        caption="A bar wherever the device is there.",
        alt="Bars that show when each of the first devices is there.",
        views={"all": View(traces=[bars], layout=layout, record_columns=("device", "from_h", "to_h"))},
        height_px=420,
        wide=True,
    )


def _lengths(found: Description) -> list[Figure]:
    parts = {
        "stay": ("How long a device stays, minutes", found.stay_s),
        "gap": ("How long it is away between, minutes", found.gap_s),
    }
    return [
        _bars(key, title, values / 60, "minutes", f"Histogram of {title.lower()}.")
        for key, (title, values) in parts.items()
        if len(values) and values.max() > 0
    ]


def _histogram(column: str, values: Floats) -> Figure:
    title, unit = UNITS[column]
    return _bars(column.replace("_", "-"), title, values, unit, f"Histogram of {RATES[column]}.")


def _bars(id: str, title: str, values: Floats, unit: str, alt: str) -> Figure:
    """A histogram whose bars are equally wide on a logarithmic axis, since speeds and times differ by factors."""
    known = values[values > 0]
    low, high = float(known.min()), float(known.max())
    edges = np.geomspace(low, max(high, low * 1.0001), BARS + 1)
    count, _ = np.histogram(known, edges)
    middle = np.sqrt(edges[1:] * edges[:-1])
    bars: Trace = {
        "type": "bar", "name": "count", "x": numbers(middle), "y": numbers(count), "width": numbers(np.diff(edges)),
        "marker": {"color": "$accent"},
    }  # fmt: skip
    layout = axes(unit, x_log=True, from_zero=True) | {"bargap": 0}
    layout["xaxis"] |= log_ticks(low, high) if high > low else {}
    quantiles = ", ".join(f"{quantity(float(np.quantile(known, q)))}" for q in QUANTILES)
    return Figure(
        id=id,
        title=title,
        caption=f"A tenth, half and nine tenths lie below {quantiles}.",
        alt=alt,
        views={"all": View(traces=[bars], layout=layout, columns=(unit, "count"))},
    )


def facts(found: Description) -> list[tuple[str, list[str]]]:
    """(what, its quantiles) of everything that differs between devices."""
    rows = [("there for, min", found.stay_s / 60), ("away for, min", found.gap_s / 60)]
    rows += [(f"{RATES[name].split(',')[0]}, {UNITS[name][1]}", values) for name, values in found.rates.items()]
    return [
        (name, [quantity(float(np.quantile(values, q))) for q in QUANTILES]) for name, values in rows if len(values)
    ]


def _table(found: Description) -> Table:
    rows = [
        TableRow(head=TableCell(text=name), cells=[TableCell(text=cell) for cell in cells])
        for name, cells in facts(found)
    ]
    return Table(label="numbers", heads=("", "a tenth below", "half below", "nine tenths below"), rows=rows)
