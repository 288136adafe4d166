"""What the channel and the power control did: amplitude sum, weights, noise, transmit power."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .curves import against_round
from .figure import Figure, Section, View, axes, drawn, level, line, listing, log_ticks, together
from .study import Study, column
from .words import quantity


@dataclass(frozen=True, kw_only=True)
class _Quantity:
    column: str
    title: str
    caption: str
    log: bool = False
    share: bool = False
    beside_power_limit: bool = False


QUANTITIES = (
    _Quantity(
        column="power_sum",
        title="Amplitude sum S",
        caption="Sum of the amplitude gains of all that send. The server divides the received signal, noise included, "
        "by S: the larger, the quieter.",
    ),
    _Quantity(
        column="weight_square_sum",
        title="Sum of squared weights",
        caption="Sum of alpha squared. It is 1/n when n devices weigh the same, and 1 when one of them decides alone.",
    ),
    _Quantity(
        column="noise_std",
        title="Noise on each weight",
        caption="Standard deviation of the noise that one model weight receives, after the division by S.",
        log=True,
    ),
    _Quantity(
        column="transmit_w_mean",
        title="Mean transmit power (W)",
        caption="|phi w|^2 of a sending device, which the paper limits by P_max, averaged over the devices of each round.",
        log=True,
        beside_power_limit=True,
    ),
    _Quantity(
        column="transmit_w_max",
        title="Largest transmit power (W)",
        caption="The same for the loudest device of each round; above the line it breaks the power limit.",
        log=True,
        beside_power_limit=True,
    ),
    _Quantity(
        column="over_budget",
        title="Devices over the power limit",
        caption="Share of the sending devices whose radiated power exceeds the limit P_max.",
        share=True,
    ),
)


# An algorithm without any of these does not use the air (its weights are still weights).
ON_AIR = ("power_sum", "noise_std", "transmit_w_mean", "transmit_w_max")


def power_section(study: Study, points: int) -> Section:
    silent = [
        series.name
        for series in drawn(study)
        if all(not np.isfinite(column(series.metrics, name)).any() for name in ON_AIR)
    ]
    figures = [figure for quantity_ in QUANTITIES if (figure := _figure(study, points, quantity_))]
    if len(silent) == len(drawn(study)) or not figures:
        return Section(
            id="power",
            title="Power and noise",
            intro="No algorithm of this report sends over the air, so there is no power and no noise to show.",
        )
    note = f" Not on the air, and so without power and noise: {listing(silent)}." if silent else ""
    return Section(
        id="power",
        title="Power and noise",
        intro="What the devices put on the air and what the server made of it, round by round." + note,
        figures=figures,
    )


def _figure(study: Study, points: int, shown: _Quantity) -> Figure | None:
    read = [(series, against_round(series.metrics, shown.column, points)) for series in drawn(study)]
    curves = [(series, curve) for series, curve in read if curve is not None]
    # A logarithmic axis needs something positive to show (an ideal channel has no noise at all).
    log = shown.log and any((curve.middle > 0).any() for _, curve in curves)
    if not curves:
        return None
    layout = axes(
        "round",
        y_format=".0%" if shown.share else "",
        y_hover=".1%" if shown.share else ".3g",
        log=log,
        from_zero=not log,
    )
    limits = sorted({limit for run in study.runs for limit in run.power_limits_w}) if shown.beside_power_limit else []
    if log:
        seen = [value for _, curve in curves for value in curve.middle[curve.middle > 0]] + limits
        layout["yaxis"] |= log_ticks(min(seen), max(seen))
    if limits:
        layout = together(layout, *(level(limit, f"P_max {quantity(limit)} W", log=log) for limit in limits))
    if shown.share:
        layout["yaxis"]["range"] = [0, 1.02]
    last = ", ".join(f"{series.name} {curve.middle[-1]:.3g}" for series, curve in curves)
    return Figure(
        id=shown.column.replace("_", "-"),
        title=shown.title,
        caption=shown.caption,
        alt=f"Line chart of {shown.title} against rounds. In the last round: {last}.",
        views={
            "all": View(
                traces=[line(series.index, curve, positive=log) for series, curve in curves],
                layout=layout,
                columns=("round", shown.title),
            )
        },
        height_px=260,
    )
