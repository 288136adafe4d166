"""Numbers and names in human-readable form, and text that is safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

NARROW_SPACE = "\u202f"
SHARE_TICKS = ".4~p"  # Plotly's format: `90%`, or `89.5%` where rounded ticks would repeat
# Not allowed in HTML, and invisible.
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def percent(share: float, decimals: int = 1) -> str:
    """0.831 -> `83.1 %`."""
    return f"{100 * share:.{decimals}f}{NARROW_SPACE}%"


def target_percent(target: float) -> str:
    """A target with the digits it was given: 0.8 -> `80 %`, 0.825 -> `82.5 %`."""
    return f"{100 * target:.6g}{NARROW_SPACE}%"


@dataclass(frozen=True)
class Score:
    """The score in the column `test_accuracy`, by its name: an accuracy is a share in percent; other scores are numbers."""

    name: str = "accuracy"

    @property
    def is_share(self) -> bool:
        """True if the score is a share between 0 and 1, shown in percent."""
        return "accuracy" in self.name.lower()

    @property
    def formats(self) -> tuple[str, str]:
        """Plotly's formats of the ticks and of hovered values."""
        return (SHARE_TICKS, ".2%") if self.is_share else ("", ".4~g")

    def show(self, value: float) -> str:
        """0.831 -> `83.1 %`, or a plain number."""
        return percent(value) if self.is_share else f"{value:.4g}"

    def target(self, value: float) -> str:
        """A target with the digits it was given: 0.825 -> `82.5 %`, or a plain number."""
        return target_percent(value) if self.is_share else f"{value:.4g}"

    def compact(self, value: float, decimals: int | None = None) -> str:
        """Format for the terminal: 0.8 -> `80%`, or `80.0%` with `decimals`."""
        if not self.is_share:
            return f"{value:.4g}"
        return f"{100 * value:.6g}%" if decimals is None else f"{value:.{decimals}%}"


def quantity(value: float) -> str:
    """Format rounds or seconds: whole numbers without decimals, small ones with three digits, large ones grouped."""
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"


def brief(value: float) -> str:
    """Format a number for a narrow column, with at least two digits: 361, 9.4, 0.033."""
    return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.2g}"


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]


def duration(seconds: float) -> str:
    """Return seconds in the unit that fits: `45 s`, `3 minutes`, `1 day`."""
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size or (unit == "days" and seconds == size):
            number = seconds / size
            return f"{number:.3g} {unit if number != 1 else unit[:-1]}"
    return f"{seconds:.3g} s"


def counted(count: int, noun: str) -> str:
    """`1 seed`, `5 seeds`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listing(names: Sequence[str]) -> Markup:
    """Return `a, b and c`, escaped except for markup."""
    *first, last = names or [""]
    return Markup(" and ").join([Markup(", ").join(first), last] if first else [last])


def sentences(parts: Iterable[str]) -> str:
    """Join the sentences that are not empty."""
    return " ".join(part for part in parts if part)


def printable(text: str) -> str:
    """Return the text with every control character and lone surrogate replaced by U+FFFD."""
    return CONTROLS.sub("\ufffd", text)


def isolated(name: object) -> Markup:
    """Return a user's name, escaped; right-to-left letters in it cannot reorder the line around it."""
    return Markup("<bdi>{}</bdi>").format(printable(str(name)))


def strong(name: object) -> Markup:
    """Return `isolated(name)` in bold."""
    return Markup("<strong>{}</strong>").format(isolated(name))


def over_budget(found: Mapping[str, float]) -> str:
    """Return the sentence on transmissions beyond the power budget: "exceeds its power budget in 9 % of ..."."""
    watts = f"{brief(found['largest_w'])} W" if found["largest_w"] < 1e4 else f"{brief(found['largest_w'] / 1e3)} kW"
    return f"exceeds its power budget in {percent(found['share'], 0)} of its transmissions, with up to {watts}"
