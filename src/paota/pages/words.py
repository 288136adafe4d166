"""Numbers as people write them."""

from __future__ import annotations

NARROW_SPACE = "\u202f"


def percent(share: float, decimals: int = 1) -> str:
    """0.831 -> `83.1 %`."""
    return f"{100 * share:.{decimals}f}{NARROW_SPACE}%"


def target_percent(target: float) -> str:
    """A target with the digits it was given: 0.8 -> `80 %`, 0.825 -> `82.5 %`."""
    return f"{100 * target:.6g}{NARROW_SPACE}%"


def quantity(value: float) -> str:
    """Rounds or seconds: whole numbers bare, small ones with the digits that matter, big ones grouped."""
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    """`1 seed`, `5 seeds`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
