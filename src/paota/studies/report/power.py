"""What the channel and the power control did: amplitude sum, weights, noise, transmit power."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from ...base.formatting import listing
from ...pages.curves import column
from ...pages.page import Section
from .quantity import Quantity, quantity_figure
from .study import Study

QUANTITIES = (
    Quantity(
        "power_sum",
        "Amplitude sum S",
        "Sum of the amplitude gains of all that send. The server divides the received signal, noise included, "
        "by S: the larger, the quieter.",
    ),
    Quantity(
        "weight_square_sum",
        "Sum of squared weights",
        "Sum of alpha squared. It is 1/n when n devices weigh the same, and 1 when one of them decides alone.",
    ),
    Quantity(
        "noise_std",
        "Noise on each weight",
        "Standard deviation of the noise that one model weight receives, after the division by S.",
        log=True,
    ),
    Quantity(
        "transmit_w_mean",
        "Mean transmit power (W)",
        "|phi w|^2 of a sending device, which the paper limits by P_max, averaged over the devices of each round.",
        log=True,
        beside_power_limit=True,
    ),
    Quantity(
        "transmit_w_max",
        "Largest transmit power (W)",
        "The same for the loudest device of each round; above the line it breaks the power limit.",
        log=True,
        beside_power_limit=True,
    ),
    Quantity(
        "over_budget",
        "Devices over the power limit",
        "Share of the sending devices whose radiated power exceeds the limit P_max.",
        share=True,
    ),
    Quantity(
        "control_bits",
        "Control bits",
        "Said on the control channel in each round: norms and reports of the devices, their amplitudes, and what stale "
        "devices have to be told first.",
        log=True,
    ),
)


# An algorithm without any of these does not use the air (its weights are still weights).
ON_AIR = ("power_sum", "noise_std", "transmit_w_mean", "transmit_w_max")


def power_section(study: Study, points: int) -> Section:
    """Amplitudes, noise and transmit power of the algorithms that use the air."""
    silent = [
        entry.name
        for entry in study.drawn
        if all(not np.isfinite(column(entry.metrics, name)).any() for name in ON_AIR)
    ]
    figures = [figure for shown in QUANTITIES if (figure := quantity_figure(study, points, shown, height_px=260))]
    if len(silent) == len(study.drawn) or not figures:
        return Section(
            id="power",
            title="Power and noise",
            intro="No algorithm of this report sends over the air, so there is no power and no noise to show.",
        )
    note = Markup(" Not on the air, and so without power and noise: {}.").format(listing(silent)) if silent else ""
    return Section(
        id="power",
        title="Power and noise",
        intro="What the devices put on the air and what the server made of it, round by round." + note,
        figures=figures,
    )
