"""What the channel and the power control did: amplitude sum, weights, noise, transmit power."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from ...base.columns import drawn_in
from ...base.formatting import listing
from ...pages.curves import column
from ...pages.page import Section
from .quantity import quantity_figure
from .study import Study

# An algorithm without any of these does not use the air (its weights are still weights).
ON_AIR = ("amplitude_sum", "noise_std", "transmit_power_w_mean", "transmit_power_w_max")


def power_section(study: Study, points: int) -> Section:
    """Amplitudes, noise and transmit power of the algorithms that use the air."""
    silent = [
        entry.name
        for entry in study.drawn
        if all(not np.isfinite(column(entry.metrics, name)).any() for name in ON_AIR)
    ]
    figures = [
        figure for shown in drawn_in("power") if (figure := quantity_figure(study, points, shown, height_px=260))
    ]
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
