"""The tables and the picture of docs/paota-plus.md: what the rule loses without one of its parts, and its timeline.

python benchmarks/paota_plus.py ablation [--out docs/paota-plus.md]    # seeds 0 to 4, which chose the constants
python benchmarks/paota_plus.py noise [--out docs/paota-plus.md]       # seeds 1000 to 1009
python benchmarks/paota_plus.py timeline --out docs/img/paota-plus-timeline.svg    # needs Matplotlib
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from field_page import between
from field_settings import SETTINGS, Setting

import paota
from paota.algorithms.base import DeviceResult, Event, Heard, Step
from paota.algorithms.paota_plus import PaotaPlus
from paota.base.files import write_text
from paota.base.types import Bools
from paota.timing.first_to_finish import Arrivals, FirstToFinish, Punctuality
from paota.timing.latency import Latencies, TwoSpeeds
from paota.timing.timeline import Horizon
from paota.timing.virtual import TimelineInputs, make_timeline

COLUMNS = ("paper", "fixed-speeds", "half-slow", "slow-unique", "slow-half-of-classes")
NOISE_DBM_PER_HZ = (-74.0, -58.0, -54.0, -50.0, -46.0)


class NeverSlow(Punctuality):
    def slow(self) -> Bools:
        return np.zeros(len(self.seen), bool)


class AlwaysAFifth(Arrivals):
    def best(self) -> int:
        return max(1, round(0.2 * self.devices))


@dataclass(frozen=True)
class AbortAll(FirstToFinish):
    """Every training that has not finished is aborted."""

    def records(self, devices: int) -> tuple[Punctuality, Arrivals]:
        return NeverSlow(devices), Arrivals(devices, self.noise)


@dataclass(frozen=True)
class Fifth(FirstToFinish):
    """The server waits for a fifth of all devices in every event."""

    def records(self, devices: int) -> tuple[Punctuality, Arrivals]:
        return Punctuality(devices), AlwaysAFifth(devices, self.noise)


@dataclass(frozen=True, kw_only=True)
class NoSlowDevices(PaotaPlus):
    scheme = AbortAll()


@dataclass(frozen=True, kw_only=True)
class FixedShare(PaotaPlus):
    scheme = Fifth()


@dataclass(frozen=True, kw_only=True)
class OneSum(PaotaPlus):
    """Late updates are added to the fresh ones, and act at once."""

    def signal(self, result: DeviceResult) -> Any:
        return super().signal(result._replace(staleness=jnp.zeros_like(result.staleness)))

    def next_model(self, event: Event, heard: Heard) -> Step:
        return super().next_model(event._replace(staleness=jnp.zeros_like(event.staleness)), heard)


@dataclass(frozen=True, kw_only=True)
class FullStart(PaotaPlus):
    """The first two steps are as large as the others."""

    def next_model(self, event: Event, heard: Heard) -> Step:
        step = super().next_model(event, heard)
        larger = 1 / jnp.minimum(1.0, (event.round + 2) / 4)
        return step._replace(model=event.model + larger * (step.model - event.model))


OWN = {"no-slow-devices": NoSlowDevices, "fixed-share": FixedShare, "one-sum": OneSum, "full-start": FullStart}
VARIANTS: dict[str, dict[str, Any]] = {
    "the rule": {},
    "all others restart, also slow ones": {"name": "no-slow-devices"},
    "a fifth of the devices in every event": {"name": "fixed-share"},
    "one sum: late updates act at once": {"name": "one-sum"},
    "late updates are dropped, $v = 0$": {"late_weight": 0.0},
    "no boost": {"boost": 1e-6},
    "$d = 0.7$": {"decay": 0.7},
    "no soft start": {"name": "full-start"},
    "$n_0 = 6$": {"noise": 6.0},
    "$n_0 = 24$": {"noise": 24.0},
    "1.2 of the limit": {"step": 1.2},
}


def line(cells: Sequence[str], *, bold: bool = False) -> str:
    return f"| {' | '.join(f'**{cell}**' if bold else cell for cell in cells)} |"


def seconds_of(setting: Setting, entries: dict[str, dict[str, Any]], seed: int, seeds: int) -> dict[str, str]:
    """Return the mean seconds to the target of every entry; a lower bound where a seed never reaches it."""
    table = setting.experiment("paota-plus", seed, [{**entry, "label": words} for words, entry in entries.items()])
    result = paota.run(table, seeds=seeds)
    cells = {}
    for words in entries:
        measures = [setting.measures(run) for run in result.of(words)]
        never = "≥ " if any(seed["time_s"] is None for seed in measures) else ""
        cells[words] = f"{never}{setting.seconds(measures).mean():.0f}"
    return cells


def ablation_table() -> str:
    """Return the seconds of each variant in each setting, and the geometric mean of the ratios to the rule."""
    for name, algorithm in OWN.items():
        paota.register("algorithm", name, algorithm)
    entries = {words: {"name": "paota-plus", **changes} for words, changes in VARIANTS.items()}
    found = {name: seconds_of(SETTINGS[name], entries, 0, 5) for name in COLUMNS}
    lines = [line(["variant", *(f"`{name}`" for name in COLUMNS), "ratio"]), "|---" + "|--:" * (len(COLUMNS) + 1) + "|"]
    for words in VARIANTS:
        own, rule = (np.array([float(found[name][w].lstrip("≥ ")) for name in COLUMNS]) for w in (words, "the rule"))
        ratio = np.exp(np.mean(np.log(own / rule)))
        lines.append(line([words, *(found[name][words] for name in COLUMNS), f"{ratio:.2f}"], bold=words == "the rule"))
    return "\n".join(lines)


def noise_table() -> str:
    """Return the seconds to 70 % under noise, beside over-selection with the first 20 and the first 30 devices."""
    start = {"name": "cotaf", "fading": True, "selected": 100}
    step = {"server": {"optimiser": "momentum", "learning_rate": 1.5, "momentum": 0.6}}
    entries: dict[str, dict[str, Any]] = {"PAOTA+": {"name": "paota-plus"}}
    entries |= {f"COTAF, first {n}": {**start, **step, "participants": n} for n in (20, 30)}
    lines = [line(["noise (dBm/Hz)", *entries]), "|--:" * (len(entries) + 1) + "|"]
    for level in NOISE_DBM_PER_HZ:
        setting = replace(SETTINGS["paper"], table={"air": {"n0_dbm_per_hz": level}}, target=0.7, grid_s=2.0)
        cells = seconds_of(setting, entries, 1000, 10)
        lines.append(line([f"{level:g}", *cells.values()]))
    return "\n".join(lines)


def draw_timeline(file: Path) -> None:
    """Draw the trainings of eight devices, of which two are slow: fresh, late and aborted ones."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "paota", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    law = TwoSpeeds(slow_share=0.25, low_s=5, high_s=15, slow_low_s=25, slow_high_s=40)
    latencies = Latencies(law, devices=8, seed=3)
    timeline = make_timeline(
        FirstToFinish(noise=3.0), TimelineInputs(latencies, 8.0, Horizon(rounds=None, duration_s=170.0))
    )
    figure, axes = plt.subplots(figsize=(7.6, 3.0), layout="constrained")

    def bars(trainings: Any, ends_s: Any, late: Any, colours: tuple[str, str], words: tuple[str, str]) -> None:
        for chosen, colour, word in zip((~late, late), colours, words, strict=True):
            length_s = (ends_s - trainings.start_s)[chosen]
            axes.barh(trainings.device[chosen], length_s, left=trainings.start_s[chosen], color=colour, label=word, height=0.7,
                      edgecolor="white", lw=1.2)  # fmt: skip

    bars(timeline, timeline.finish_s, timeline.staleness > 0, ("#0072B2", "#D55E00"), ("fresh", "late"))
    aborted = timeline.aborted
    assert aborted is not None
    none = np.zeros(len(aborted.device), bool)
    bars(aborted, timeline.time_s[aborted.event], none, ("#DDDDDD", "#DDDDDD"), ("aborted", ""))
    for time_s in timeline.time_s:
        axes.axvline(time_s, color="0.3", lw=0.6, ls=":")
    axes.set(xlabel="simulated seconds (dotted lines: the server makes a new model)", xlim=(0, 130), yticks=range(8))
    axes.set_yticklabels([f"device {k}{' (slow)' if k < 2 else ''}" for k in range(8)])
    axes.invert_yaxis()
    handles, labels = axes.get_legend_handles_labels()
    shown = [(handle, label) for handle, label in zip(handles, labels, strict=True) if label]
    axes.legend(*zip(*shown, strict=True), frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("ablation", "noise", "timeline"))
    parser.add_argument("--out", type=Path, help="the Markdown file whose table is replaced, or the picture")
    args = parser.parse_args()
    if args.part == "timeline":
        draw_timeline(args.out or Path("docs/img/paota-plus-timeline.svg"))
        return
    made = ablation_table() if args.part == "ablation" else noise_table()
    if args.out is None:
        print(made)
        return
    write_text(args.out, between(args.out.read_text(encoding="utf-8"), made, args.part))


if __name__ == "__main__":
    main()
