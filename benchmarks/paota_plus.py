"""The tables of docs/paota-plus.md: how large its gain may be, and what becomes of it without one of its parts.

    python benchmarks/paota_plus.py limits|variants [--out docs/paota-plus.md]

`limits`, seconds: how late updates are comes from timelines of 100 devices for 3,000 s (ten times as long where half of
them are ten times slower), without the first twenty events. `variants`, minutes: runs with seeds 0 to 4, which chose the
constants and are shown in no table of the field.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from field import HALF_SLOW, SETTINGS, between
from numpy.typing import NDArray

import paota
from paota.algorithms.paota_plus import PaotaPlus, stability_limit
from paota.base.files import write_text
from paota.timing.latency import Latencies, PerDevice, TwoSpeeds, Uniform
from paota.timing.schemes import ShareReady
from paota.timing.timeline import Horizon
from paota.timing.virtual import TimelineInputs, make_timeline

SLOW_HALF = TwoSpeeds(**{key: value for key, value in HALF_SLOW.items() if key != "latency"})
LAWS: dict[str, tuple[Any, float]] = {
    "U(5, 15), redrawn": (Uniform(), 3_000.0),
    "U(5, 15), for life": (PerDevice(), 3_000.0),
    "two speeds": (TwoSpeeds(slow_share=0.3), 3_000.0),
    "half ten times slower": (SLOW_HALF, 30_000.0),
}
FILTERS = (
    (0.0, 0.0, 1.0),
    (0.65, 0.0, 1.0),
    (0.0, 3.0, 6.0),
    (0.65, 3.0, 6.0),
    (0.65, 2.0, 4.0),
    (0.65, 4.0, 8.0),
    (0.65, 3.0, 4.0),
)
SHARES = (1 / 10, 1 / 5, 1 / 3, 1 / 2)


@functools.cache
def lateness(law: Any, duration_s: float, share: float) -> NDArray[np.float64]:
    """Shares of the updates that are 0, 1, 2, ... versions old."""
    latencies = Latencies(law, devices=100, seed=0)
    inputs = TimelineInputs(latencies, 8.0, Horizon(rounds=None, duration_s=duration_s))
    timeline = make_timeline(ShareReady(share), inputs)
    late = timeline.staleness[timeline.event > 20]
    return np.bincount(late) / len(late)


def limits(share: float, lead: float, boost: float, memory_turns: float) -> list[float]:
    """The largest gain for h = 1: of exactly equal latencies, devices out of step, then of all `LAWS`."""
    delays = [np.eye(round(1 / share))[-1], *(lateness(*law, share) for law in LAWS.values())]
    return [stability_limit(late, share, lead=lead, boost=boost, memory_turns=memory_turns) for late in delays]


def line(cells: Sequence[str], *, bold: bool = False) -> str:
    return f"| {' | '.join(f'**{cell}**' if bold and cell else cell for cell in cells)} |"


def limits_table() -> str:
    """Two tables: by the filter at the default share, and by the share with the default filter."""
    rule = PaotaPlus()
    own = (rule.lead, rule.boost, rule.memory_turns)
    names = ["all equal, out of step", *LAWS]
    lines = [line(["$a$", "$b$", r"$\tau$", *names, "restarts ($q = 1$, $a = 0$)"]), "|--:" * (len(names) + 4) + "|"]
    for lead, boost, turns in FILTERS:
        restarted = stability_limit([1.0], 1.0, boost=boost, memory_turns=turns)
        figures = [f"{limit:.2f}" for limit in (*limits(rule.share, lead, boost, turns), restarted)]
        cells = [f"{lead:g}", f"{boost:g}", f"{turns:g}" if boost else "", *figures]
        lines.append(line(cells, bold=(lead, boost, turns) == own))
    lines += ["", f"At other shares, with $a = {own[0]:g}$, $b = {own[1]:g}$, $\\tau = {own[2]:g}$:", ""]
    lines += [line(["$q$", *names]), "|--:" * (len(names) + 1) + "|"]
    for share in SHARES:
        figures = [f"{limit:.2f}" for limit in limits(share, *own)]
        lines.append(line([f"1/{round(1 / share)}", *figures], bold=share == rule.share))
    return "\n".join(lines)


VARIANTS: dict[str, dict[str, Any]] = {
    "the rule": {},
    "a fixed gain, $g = 1.3$": {"gain": 1.3},
    "no lead, $a = 0$": {"lead": 0.0},
    "no boost, $b = 0$": {"boost": 0.0},
    "`restarts = false`": {"restarts": False},
    "$b = 2$, $\\tau = 4$": {"boost": 2.0, "memory_turns": 4.0},
    "$b = 4$, $\\tau = 8$": {"boost": 4.0, "memory_turns": 8.0},
    "0.75 of the limit": {"boldness": 0.75},
    "0.95 of the limit": {"boldness": 0.95},
    "1.1 of the limit": {"boldness": 1.1},
    "an event at a tenth": {"share": 0.1},
    "an event at two fifths": {"share": 0.4},
}
COLUMNS = ("paper", "fixed-speeds", "slow-unique", "half-slow")
LOOK_S = 400.0


def variants_table() -> str:
    """Mean seconds to 80 % and accuracy at 400 s of each variant in each setting, seeds 0 to 4."""
    lines = [line(["variant", *(f"`{name}`" for name in COLUMNS)]), "|---" + "|--:" * len(COLUMNS) + "|"]
    for words, changes in VARIANTS.items():
        cells = []
        for setting in (SETTINGS[name] for name in COLUMNS):
            runs = paota.run(setting.experiment("variants", 0, {"name": "paota-plus", **changes}), seeds=5).trajectories
            seeds = [setting.measures(run) for run in runs]
            never = "≥ " if any(seed["time_s"] is None for seed in seeds) else ""
            accuracy = np.mean([setting.accuracy_after(seed, LOOK_S) for seed in seeds])
            cells.append(f"{never}{setting.seconds(seeds).mean():.0f} ({100 * accuracy:.1f} %)")
        lines.append(line([words, *cells], bold=not changes))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=("limits", "variants"))
    parser.add_argument("--out", type=Path, help="the Markdown file whose table is replaced; else it is printed")
    args = parser.parse_args()
    made = limits_table() if args.table == "limits" else variants_table()
    if args.out is None:
        print(made)
        return
    write_text(args.out, between(args.out.read_text(encoding="utf-8"), made, args.table))


if __name__ == "__main__":
    main()
