"""The colours of light and dark pages, and the style of each series.

The first colours are Okabe and Ito's colour-blind-safe set, darkened or lightened until a line stands out from the page
(contrast at least 3:1). A dash pattern carries the same information a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base.types import Table

SERIES = {
    "light": ["#0072b2", "#d55e00", "#00875f", "#b8518f", "#8f6a00", "#2f8fc4", "#50565f", "#6a3d9a"],
    "dark": ["#58a9e6", "#ff8c42", "#2fc79a", "#eb9cc8", "#e3b94a", "#8fd0ff", "#b9c0ca", "#bb97e8"],
}
# Staleness of a contribution: 0, 1, 2, 3, 4 and more. Pages always show the number with the colour.
STALENESS = {
    "light": ["#9ecae1", "#f2d16b", "#f0a04b", "#d95f3b", "#9c2f4f"],
    "dark": ["#3f7fa6", "#a98a2f", "#b96a1f", "#bf4b2c", "#a83c62"],
}
STALENESS_TEXT = {
    "light": ["#10202b", "#10202b", "#10202b", "#ffffff", "#ffffff"],
    "dark": ["#ffffff", "#ffffff", "#ffffff", "#ffffff", "#ffffff"],
}
# The page itself: CSS variables of the same names, and the `$` colours of the figures.
_CHROME = {  # light, dark
    "page": ("#f6f7f9", "#0f1115"),
    "card": ("#ffffff", "#171a20"),
    "text": ("#1a1f27", "#e6e9ee"),
    "muted": ("#5a6472", "#a0a9b6"),
    "line": ("#dfe3e8", "#2a2f38"),
    "rule": ("#b3bac4", "#4b5462"),
    "grid": ("#e8ebef", "#252a33"),
    "faded": ("#dde3ea", "#2a313c"),
    "accent": ("#00609a", "#7cc0f2"),
    "good": ("#1c6b3a", "#6fd19a"),
    "middling": ("#80580a", "#e3b94a"),
    "alert": ("#a8321b", "#ff9a80"),
}
CHROME = {theme: {name: pair[i] for name, pair in _CHROME.items()} for i, theme in enumerate(("light", "dark"))}
# Plotly's names of the dashes, and the same as lengths of strokes and gaps in pixels.
DASHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "11 4", "longdashdot": "11 3 2 3"}

# More lines than this look alike.
MOST_SERIES = len(SERIES["light"]) * len(DASHES)


def style_of(series: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return (colour, dash) for each (run, label), all different for up to `MOST_SERIES` of them.

    With several runs the label chooses the colour and the run the dash, so that an algorithm has the same colour in
    each run. With one run, or too many runs for that, both count up, colours first.
    """
    labels = list(dict.fromkeys(label for _, label in series))
    runs = {run for run, _ in series}
    if len(runs) > 1 and len(labels) <= len(SERIES["light"]) and max(runs) < len(DASHES):
        dashes = list(DASHES)
        return [(labels.index(label), dashes[run]) for run, label in series]
    return [_counted(position) for position in range(len(series))]


def payload() -> Table:
    """Return the colours of both themes as the script reads them: lists by name, and the colours of the page."""
    lists: Table = {"series": SERIES, "staleness": STALENESS, "staleness-text": STALENESS_TEXT, "chrome": CHROME}
    return {theme: {name: colours[theme] for name, colours in lists.items()} for theme in CHROME}


def resolved(token: str) -> str:
    """Return the colour of `$muted` or `$staleness2` on a light page; any other text is a colour already."""
    if not token.startswith("$"):
        return token
    name = token[1:].rstrip("0123456789")
    position = token[1 + len(name) :]
    colours = payload()["light"]
    return str(colours[name][int(position)] if position else colours["chrome"][name])


def theme_css() -> str:
    """Return the CSS variables of both themes. The reader's system or the page's button decides; print is light."""
    rules = {theme: "".join(f"--{name}:{colour};" for name, colour in CHROME[theme].items()) for theme in CHROME}
    light, dark = f"{rules['light']}color-scheme:light;", f"{rules['dark']}color-scheme:dark;"
    return (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f":root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}@media print{{:root[data-theme]{{{light}}}}}"
    )


def _counted(position: int) -> tuple[int, str]:
    lap, colour = divmod(position, len(SERIES["light"]))
    return colour, list(DASHES)[(colour + lap) % len(DASHES)]
