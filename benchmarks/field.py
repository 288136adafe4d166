"""Compare all algorithms on one setting. Every rival is tuned with the same number of trials, on other seeds than those reported.

    python benchmarks/field.py SETTING [--store runs/field] [--out docs/data] [--only NAME ...]
    python benchmarks/field_page.py        # draws the figures and tables of docs/field.md from the CSV files

SETTING is one of `SETTINGS` in benchmarks/field_settings.py. A rival has 64 trials in a space of its own (`RIVALS`): its
default, 31 at random, and four times eight near the best four so far. They run with seeds 0 and 1, the best ten also with
seeds 2 to 4. The least mean time to the target chooses. Seeds 1000 to 1014 are reported, for the default and for the choice.
PAOTA+ is reported with its defaults: its constants are the same in all settings.

A search and a report are one file each in the store, so the command continues where it was stopped. A file in the store knows
its settings, not the code: remove the files of a rule that has changed.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from field_settings import DAY_AND_NIGHT, HANDSET_W, SETTINGS, SYMBOLS, Setting, write_day_and_night
from scipy import stats

import paota
from paota.base.files import write_text
from paota.base.registry import DIGITAL_UPLINKS

FIRST, GENERATIONS, EACH, PARENTS, KEPT = 32, 4, 8, 4, 10  # trials: 32 at random, then 4 times 8 near the best four
TRIALS = FIRST + GENERATIONS * EACH
SPREAD = 0.12  # standard deviation of a step from a parent, in the unit cube
FIRST_SEEDS, SEARCH_SEEDS, SHOWN_SEEDS = (0, 2), (2, 3), (1000, 15)  # (first seed, number of seeds)

Entry = dict[str, Any]
Point = Sequence[float]  # in the unit cube
Space = Callable[[Point, int], Entry]  # what the trial at a point changes, for K devices

Measures = list[dict[str, Any]]  # of each seed

SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
GROUPS = (2, 3, 5, 7, 10, 20)


def between(low: float, high: float, u: float) -> float:
    """Return the number at `u` in [0, 1] between two numbers, on a logarithmic scale, with three digits."""
    return float(f"{low * (high / low) ** u:.3g}")


def one_of(options: Sequence[Any], u: float) -> Any:
    """Return the option at `u` in [0, 1]."""
    return options[min(int(u * len(options)), len(options) - 1)]


def count_of(devices: int, u: float, shares: Sequence[float] = SHARES) -> int:
    """Return the number of devices in one of the shares."""
    return max(1, round(one_of(shares, u) * devices))


def server_step(u: Point, low: float = 0.5, high: float = 3) -> Entry:
    """Return a server step, and a momentum of 0 (a quarter of the space) to 0.9."""
    momentum = round(max(0.0, 1.2 * u[1] - 0.3), 2)
    return {"server": {"optimiser": "momentum", "learning_rate": between(low, high, u[0]), "momentum": momentum}}


def period(u: Point, devices: int) -> Entry:
    return {"timing": {"period_s": between(2, 16, u[2])}}


def period_and_step(u: Point, devices: int) -> Entry:
    return {**server_step(u), **period(u, devices)}


def common_start(u: Point, devices: int) -> Entry:
    """All devices start (three quarters of the space), or only those that count."""
    count = count_of(devices, u[2])
    return {**server_step(u), "participants": count, "selected": devices if u[3] < 0.75 else count}


def oldest(u: Point, devices: int) -> Entry:
    return {**server_step(u), "participants": count_of(devices, u[2])}


def vote(u: Point, devices: int) -> Entry:
    return {**common_start(u, devices), "server": {"optimiser": "none"}, "step": between(0.0005, 0.03, u[0])}


def buffer(u: Point, devices: int) -> Entry:
    return {**server_step(u, 0.1, 2), "buffer_size": count_of(devices, u[2], SHARES[:7])}


def arrival(u: Point, devices: int) -> Entry:
    return {"mixing": round(between(0.05, 1, u[0]), 2), "a": round(u[1], 2)}


def groups(u: Point, devices: int) -> Entry:
    return {"groups": one_of(GROUPS, u[2]), **arrival(u, devices)}


def tiers(u: Point, devices: int) -> Entry:
    return {"tiers": one_of(GROUPS, u[2]), "training": {"proximal": between(0.01, 1, u[0])}}


@dataclass(frozen=True)
class Rival:
    """One rival: its default as an entry of an experiment file, and its space of trials."""

    label: str
    default: Entry
    space: Space | None = None  # None: nothing to tune

    def entry(self, point: Point | None, devices: int) -> Entry:
        """Return a trial as an entry of an experiment file; the default at None."""
        return self.default if point is None or self.space is None else {**self.default, **self.space(point, devices)}


RIVALS = (  # in every setting; PAOTA has its defaults there, and its search on the paper's setting
    Rival("paota-plus", {"name": "paota-plus"}),
    Rival("paota", {"name": "paota"}),
    Rival("cotaf", {"name": "cotaf", "fading": True}, common_start),
    Rival("local-sgd", {"name": "local-sgd"}, common_start),
)
OTHERS = (  # on the paper's setting
    Rival("fedbuff", {"name": "fedbuff"}, buffer),
    Rival("paota (model)", {"name": "paota"}, period),
    Rival("paota (update)", {"name": "paota", "payload": "update"}, period_and_step),
    Rival("threshold", {"name": "threshold"}, common_start),
    Rival("baa", {"name": "baa", "payload": "update"}, common_start),
    Rival("full-power", {"name": "full-power", "payload": "update"}, common_start),
    Rival("majority-vote", {"name": "majority-vote"}, vote),
    Rival("fsk-vote", {"name": "fsk-vote"}, vote),
    Rival("saota", {"name": "saota"}, period_and_step),
    Rival("sa-airfed", {"name": "sa-airfed"}, period_and_step),
    Rival("biased-ota", {"name": "biased-ota"}, common_start),
    Rival("age-top-k", {"name": "age-top-k"}, common_start),
    Rival("energy-aware", {"name": "energy-aware"}, common_start),
    Rival("age-based", {"name": "age-based"}, oldest),
    Rival("scaffold", {"name": "scaffold"}, common_start),
    Rival("tt-fed", {"name": "tt-fed"}, period),
    Rival("air-fedga", {"name": "air-fedga"}, groups),
)
ASYNCHRONOUS = (  # thousands of events per run: not in the tables, but --only computes them
    Rival("fedat", {"name": "fedat"}, tiers),
    Rival("fedasync", {"name": "fedasync"}, arrival),
)


@dataclass(frozen=True)
class Pair:
    """One rival in one setting."""

    setting: str
    rival: Rival

    @property
    def judged(self) -> Setting:
        """The setting."""
        return SETTINGS[self.setting]

    def entry(self, point: Point | None, label: str) -> Entry:
        """Return a trial as an entry of an experiment file."""
        entry = {**self.rival.entry(point, self.judged.devices), "label": label}
        over_the_air = paota.Experiment.from_dict({"algorithms": [entry]}).algorithms[0].algorithm.over_the_air
        if self.judged.symbol_power and over_the_air:
            entry["power"] = {"max_power_w": HANDSET_W * SYMBOLS}
        return entry

    def run(self, points: Sequence[Point | None], seeds: tuple[int, int]) -> list[Measures]:
        """Run trials with (first seed, number of seeds) and return the measures of every trial and seed."""
        entries = [self.entry(point, str(n)) for n, point in enumerate(points)]
        result = paota.run(self.judged.experiment(f"field-{self.setting}", seeds[0], entries), seeds=seeds[1])
        return [[self.judged.measures(run) for run in result.of(entry["label"])] for entry in entries]

    def search(self, store: Path) -> Point | None:
        """Return the point of the best trial; None is the default."""
        if self.rival.space is None:
            return None
        return self._stored(store, "search", self._search)["best"]  # type: ignore[no-any-return]

    def _search(self) -> dict[str, Any]:
        rng = np.random.default_rng(sum(map(ord, self.rival.label)))
        points: list[Point | None] = [None, *rng.random((FIRST - 1, 5)).round(4).tolist()]
        seen = self.run(points, FIRST_SEEDS)
        for _ in range(GENERATIONS):
            parents = [points[n] or rng.random(5) for n in self._best(seen)[:PARENTS]]
            near = [parents[n % PARENTS] + SPREAD * rng.standard_normal(5) for n in range(EACH)]
            points += [np.clip(point, 0, 1).round(4).tolist() for point in near]
            seen += self.run(points[-EACH:], FIRST_SEEDS)
        kept = self._best(seen)[:KEPT]
        for n, more in zip(kept, self.run([points[n] for n in kept], SEARCH_SEEDS), strict=True):
            seen[n] = seen[n] + more
        best = min(kept, key=lambda n: self._badness(seen[n]))
        trials = [self.rival.entry(point, self.judged.devices) for point in points]
        return {"best": points[best], "trials": trials, "measures": seen}

    def _best(self, seen: Sequence[Measures]) -> list[int]:
        return sorted(range(len(seen)), key=lambda n: self._badness(seen[n]))

    def report(self, store: Path, point: Point | None) -> Measures:
        """Return the measures of the reported seeds of one trial."""
        kind = "default" if point is None else "tuned"
        return list(self._stored(store, kind, lambda: {"seeds": self.run([point], SHOWN_SEEDS)[0]}, point)["seeds"])

    def shown(self, store: Path) -> list[Point | None]:
        """Return the default and the best trial, each once."""
        best = self.search(store)
        return [None] if best is None else [None, best]

    def _badness(self, seeds: Measures) -> tuple[float, float]:
        """Mean seconds to the target; of trials that never reach it, the last accuracy decides."""
        return float(self.judged.seconds(seeds).mean()), -float(np.mean([seed["accuracy"] for seed in seeds]))

    def _stored(
        self, store: Path, kind: str, compute: Callable[[], dict[str, Any]], point: Point | None = None
    ) -> dict[str, Any]:
        """Return the file of this pair in the store. It is computed again if the settings of the pair have changed."""
        name = "".join(c if c.isalnum() else "-" for c in self.rival.label).strip("-")
        file = store / self.setting / f"{name}-{kind}.json"
        settings = self.judged.experiment("", 0, [self.entry(point, kind)])
        if file.is_file():
            kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if kept["settings"] == json.loads(json.dumps(settings)):
                return kept
        begin = time.monotonic()
        made = {"settings": settings, **compute()}
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(made, indent=1))
        print(f"{self.setting}: {self.rival.label}, {kind}: {time.monotonic() - begin:.0f} s", flush=True)
        return made


COLUMNS = (
    "algorithm", "variant", "uplink", "seconds", "seconds_interval", "reached", "seeds", "difference_s",
    "difference_interval", "p_value", "airtime_ms", "updates", "computed_kj",
)  # fmt: skip


def interval(values: np.ndarray, confidence: float = 0.95) -> float:
    """Half the width of the interval of the mean (Student)."""
    n = len(values)
    return float(stats.t.ppf((1 + confidence) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n))


def row(setting: Setting, names: tuple[str, str, str], seeds: Measures, reference: Measures) -> dict[str, str]:
    """Return one line of the table: means over the seeds with 95 % intervals; differences are paired by seed.

    Seconds, differences and costs are lower bounds where `reached` is less than `seeds`.

    Args:
        setting: the setting.
        names: algorithm, variant and uplink.
        seeds: the measures of each seed.
        reference: those of the reference algorithm on the same seeds.
    """
    times = setting.seconds(seeds)
    paired = times - setting.seconds(reference)
    differs = bool(np.any(paired != 0))
    cells = (
        *names, f"{times.mean():.1f}", f"{interval(times):.1f}", sum(seed["time_s"] is not None for seed in seeds),
        len(seeds), f"{paired.mean():+.1f}" if differs else "", f"{interval(paired):.1f}" if differs else "",
        f"{stats.ttest_1samp(paired, 0).pvalue:.2g}" if differs else "",
        *(_spent(seeds, *cost) for cost in (("airtime_ms", 1.0), ("updates", 1.0), ("computed_j", 1e-3))),
    )  # fmt: skip
    return dict(zip(COLUMNS, map(str, cells), strict=True))


def _spent(seeds: Measures, name: str, unit: float) -> str:
    """The mean over the seeds that reached the target; the others have spent more."""
    known = [unit * seed[name] for seed in seeds if seed[name] is not None]
    return f"{np.mean(known):.1f}" if known else ""


def uplink(rival: Rival) -> str:
    """Return in words how the rival's devices send."""
    entry = paota.Experiment.from_dict({"air": {"digital": "ofdma"}, "algorithms": [rival.default]}).algorithms[0]
    return "air" if entry.algorithm.over_the_air else DIGITAL_UPLINKS.name_of(type(entry.air.digital))


def changes(entry: Entry, default: Entry) -> str:
    """Return in words what a trial changes: `participants = 30, learning_rate = 1.5`."""
    flat: dict[str, Any] = {}
    for key, value in entry.items():
        if value != default.get(key):
            flat.update(
                {k: v for k, v in value.items() if k != "optimiser"} if isinstance(value, dict) else {key: value}
            )
    return ", ".join(f"{key} = {value}" for key, value in flat.items()) or "default"


def lines_of(setting: str, rivals: Sequence[Rival], store: Path) -> list[dict[str, str]]:
    """Compute what is missing, and return the lines of a setting: each rival's default, and its best trial."""
    reference = Pair(setting, RIVALS[0]).report(store, None)
    made = []
    for rival in rivals:
        pair = Pair(setting, rival)
        for point in pair.shown(store):
            variant = changes(rival.entry(point, pair.judged.devices), rival.default)
            made.append(row(pair.judged, (rival.label, variant, uplink(rival)), pair.report(store, point), reference))
    return made


def write_csv(lines: Sequence[dict[str, str]], file: Path) -> None:
    """Write the lines of a setting."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_text(file, text.getvalue())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--store", type=Path, default=Path("runs/field"), help="where outcomes are kept")
    parser.add_argument("--out", type=Path, default=Path("docs/data"), help="the folder of the CSV files")
    parser.add_argument(
        "--only", nargs="+", choices=[r.label for r in RIVALS + OTHERS + ASYNCHRONOUS], help="search these; no CSV file"
    )
    args = parser.parse_args()
    if not DAY_AND_NIGHT.is_file():
        write_day_and_night()
    if args.only:
        for rival in (rival for rival in RIVALS + OTHERS + ASYNCHRONOUS if rival.label in args.only):
            pair = Pair(args.setting, rival)
            for point in pair.shown(args.store):
                pair.report(args.store, point)
        return 0
    rivals = RIVALS + OTHERS if args.setting == "paper" else RIVALS
    write_csv(lines_of(args.setting, rivals, args.store), args.out / f"field-{args.setting}.csv")
    return 0


if __name__ == "__main__":
    sys.exit(main())
