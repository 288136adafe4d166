"""Compare all algorithms on one setting, tuned with the same budget on other seeds than those that are reported.

    python benchmarks/field.py SETTING [--store runs/field] [--out docs/data] [--only NAME ...] [--tuned]
        [--seconds S] [--missing]
    python benchmarks/field_page.py        # draws the figures and the summary of docs/field.md from the CSV files

SETTING: paper, street, fixed-speeds, slow-unique, lognormal, half-slow or cifar10 (whose data PAOTA_DATA names). Seeds 0 to
4 choose among the variants of every rival. Seeds 35 to 49 are reported, for the default and for the choice, or with
`--tuned` for the choice alone. Seeds 5 to 34 were reported for earlier forms of PAOTA+, which led to today's form. Each
variant with a block of five seeds is one file in the store, so the command continues where it was stopped. `--seconds`
stops it by itself, and `--missing` only counts what is left. A file in the store knows its settings, not the code: remove
the files of a rule that has changed.

All algorithms run for the same simulated time on the same devices, data, latencies and channels, and are evaluated on the
same grid of time. A seed that never reaches the target counts as the whole duration; `reached` counts the others.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import paota
from paota.base.files import write_text
from paota.base.registry import DIGITAL_UPLINKS
from paota.experiment.files import read_preset
from paota.results.measures import accuracy_at, reach
from paota.results.result import Trajectory

SEEDS_A_BLOCK = 5
TUNING, SHOWN = (0,), (7, 8, 9)  # blocks of seeds
REFERENCE = "paota-plus"

# Handsets of 23 dBm: 0.2 W is the mean power of a digital sender, and of an analog one too, whose limit is on the sum over
# its 8070 symbols.
HANDSET_W, SYMBOLS = 0.2, 8070
PLAIN = {"air": {"digital": "ofdma"}, "power": {"cap": "physical"}}
STREET = {
    "air": {
        "path_loss": "umi", "n0_dbm_per_hz": -167.0, "csi_error": 0.01, "phase_error_rad": 0.05, "digital": "ofdma"
    },
    "power": {"cap": "physical", "max_power_w": HANDSET_W},
}  # fmt: skip
SLOW = {
    "data": {"partition": "rare-class", "rare_class": 9, "holders": 0.3},
    "timing": {"latency": "two-speeds", "slow_share": 0.3},
}
HALF_SLOW: dict[str, Any] = {
    "latency": "two-speeds", "slow_share": 0.5, "slow_low_s": 50.0, "slow_high_s": 150.0, "low_s": 5.0, "high_s": 15.0
}  # fmt: skip
CIFAR10 = {key: value for key, value in read_preset("cifar10").items() if isinstance(value, dict)}


@dataclass(frozen=True)
class Setting:
    """A surrounding for all rivals, and how they are judged in it."""

    table: dict[str, Any]  # of an experiment file
    target: float = 0.8  # of test accuracy
    duration_s: float = 600.0
    grid_s: float = 4.0
    look_updates: int = 2000  # device updates after which accuracies are compared, beside half and all of the time

    @property
    def looks_s(self) -> tuple[float, float]:
        """Simulated times at which accuracies are compared."""
        return self.duration_s / 2, self.duration_s

    def experiment(self, name: str, seed: int, entry: dict[str, Any]) -> dict[str, Any]:
        """The table of settings in which one contestant runs."""
        return {
            "name": name,
            "duration_s": self.duration_s,
            "seed": seed,
            **self.table,
            "evaluation": {"every_s": self.grid_s, "train_loss": "batches"},
            "algorithms": [entry],
        }

    def measures(self, run: Trajectory) -> dict[str, Any]:
        """Return the kept results of one seed: costs at the target (null: never reached), and columns on the grid of time."""
        metrics = run.metrics
        totals = {
            "time_s": metrics["time_s"],
            "updates": np.cumsum(metrics["ready"]),
            "radiated_j": np.cumsum(metrics["energy_j"]),
            "computed_j": np.cumsum(metrics["compute_j"]),
            "airtime_ms": 1e3 * np.cumsum(metrics["airtime_s"]),
        }
        reached = {name: reach(run, self.target, total) for name, total in totals.items()}
        grid_s = np.arange(round(self.duration_s / self.grid_s) + 1) * self.grid_s
        in_force = np.searchsorted(metrics["time_s"], grid_s + 1e-6, side="right") - 1
        return {
            **{name: value if math.isfinite(value) else None for name, value in reached.items()},
            "accuracy_on_grid": [round(accuracy_at(run, t_s + 1e-6), 4) for t_s in grid_s],
            "updates_on_grid": totals["updates"][in_force].tolist(),
        }

    def accuracy_after(self, seed: dict[str, Any], seconds: float) -> float:
        """Test accuracy at a simulated time: that of the last point of the grid."""
        return float(seed["accuracy_on_grid"][int(seconds / self.grid_s + 1e-6)])

    def seconds(self, seeds: Sequence[dict[str, Any]]) -> np.ndarray:
        """Seconds to the target [seeds]; a seed that never reaches it counts as the whole duration."""
        return np.array([self.duration_s if seed["time_s"] is None else seed["time_s"] for seed in seeds])

    def best_variant(self, tuning: Sequence[Sequence[dict[str, Any]]]) -> int:
        """The variant with the least mean time to the target on the tuning seeds; the first of equals, or of none."""
        return int(np.argmin([self.seconds(seeds).mean() for seeds in tuning])) if tuning else 0


SETTINGS = {
    "paper": Setting(PLAIN),
    "street": Setting(STREET),
    "fixed-speeds": Setting({**PLAIN, "timing": {"latency": "per-device"}}),
    "slow-unique": Setting({**PLAIN, **SLOW}),
    "lognormal": Setting({**PLAIN, "timing": {"latency": "lognormal"}}),
    "half-slow": Setting({**PLAIN, "timing": HALF_SLOW}),
    # The preset's first target, in three quarters of its time.
    "cifar10": Setting(CIFAR10, target=0.3, duration_s=300.0, grid_s=10.0, look_updates=1000),
}


@dataclass(frozen=True)
class Rival:
    """One row of the table: what it is by default, and its variants, the default among them."""

    label: str
    default: dict[str, Any]
    others: tuple[dict[str, Any], ...] = ()  # what each changes

    def variants(self) -> list[dict[str, Any]]:
        """All of them as entries of an experiment file, the default first; sections are merged."""
        return [self.default, *(_merged(self.default, other) for other in self.others)]


def _merged(entry: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = {**entry, **other}
    for name in entry.keys() & other.keys():
        if isinstance(entry[name], dict):
            merged[name] = {**entry[name], **other[name]}
    return merged


def _step(learning_rate: float) -> dict[str, Any]:
    return {"server": {"optimiser": "sgd", "learning_rate": learning_rate}}


def _momentum(learning_rate: float, momentum: float) -> dict[str, Any]:
    return {"server": {"optimiser": "momentum", "learning_rate": learning_rate, "momentum": momentum}}


# Four variants for every rival, one for PAOTA+.
FIRST_30 = {"participants": 30, "selected": 100}
SYNCHRONOUS = (_step(1.5), {**FIRST_30, **_momentum(1.5, 0.3)}, {**FIRST_30, **_step(1.5)})
PERIODS = tuple({"timing": {"period_s": period}} for period in (6.0, 4.0, 2.0))
FEDBUFF = (
    {"server_learning_rate": 0.5, **_momentum(0.7, 0.3)}, {"server_learning_rate": 0.5}, {"server_learning_rate": 0.3}
)  # fmt: skip
RIVALS = (
    Rival("paota-plus", {"name": "paota-plus"}),
    Rival("paota", {"name": "paota"}, PERIODS),
    Rival("paota (update)", {"name": "paota", "payload": "update"}, PERIODS),
    Rival("local-sgd", {"name": "local-sgd"}, SYNCHRONOUS),
    Rival("cotaf", {"name": "cotaf", "fading": True}, SYNCHRONOUS),
    Rival("threshold", {"name": "threshold"}, SYNCHRONOUS),
    Rival("baa", {"name": "baa", "payload": "update"}, SYNCHRONOUS),
    Rival("full-power", {"name": "full-power", "payload": "update"}, SYNCHRONOUS),
    Rival("majority-vote", {"name": "majority-vote"}, (FIRST_30, {"step": 0.003}, {**FIRST_30, "step": 0.003})),
    Rival("fedbuff", {"name": "fedbuff"}, FEDBUFF),
    Rival("fedasync", {"name": "fedasync"}, tuple({"mixing": mixing} for mixing in (0.9, 0.3, 0.1))),
    Rival("tt-fed", {"name": "tt-fed"}, PERIODS),
    Rival("air-fedga", {"name": "air-fedga"}, ({"mixing": 1.0}, {"groups": 10}, {"groups": 3, "mixing": 1.0})),
)  # fmt: skip
# With the same budget, but not in the tables of docs/field.md: name them with --only.
NEWCOMERS = (
    Rival("saota", {"name": "saota"}, PERIODS),
    Rival("sa-airfed", {"name": "sa-airfed"}, PERIODS),
    Rival("biased-ota", {"name": "biased-ota"}, SYNCHRONOUS),
    Rival("age-top-k", {"name": "age-top-k"}, SYNCHRONOUS),
    Rival("energy-aware", {"name": "energy-aware"}, SYNCHRONOUS),
    Rival("age-based", {"name": "age-based"}, (_step(1.5), {"participants": 30}, {"participants": 30, **_step(1.5)})),
    Rival("fsk-vote", {"name": "fsk-vote"}, (FIRST_30, {"step": 0.003}, {**FIRST_30, "step": 0.003})),
    Rival("scaffold", {"name": "scaffold"}, SYNCHRONOUS),
    Rival("fedat", {"name": "fedat"}, ({"tiers": 10}, {"tiers": 3}, {"training": {"proximal": 0.4}})),
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One variant of one rival with one block of seeds: what is computed, and kept, at a time."""

    setting: str
    rival: Rival
    variant: int
    block: int

    def experiment(self) -> dict[str, Any]:
        """The table of settings that it runs."""
        entry = {**self.rival.variants()[self.variant], "label": self.rival.label}
        over_the_air = paota.Experiment.from_dict({"algorithms": [entry]}).algorithms[0].algorithm.over_the_air
        if self.setting == "street" and over_the_air:
            entry["power"] = {**entry.get("power", {}), "max_power_w": HANDSET_W * SYMBOLS}
        return SETTINGS[self.setting].experiment(f"field-{self.setting}", SEEDS_A_BLOCK * self.block, entry)

    def path(self, store: Path) -> Path:
        """Return the path of its outcome."""
        rival = "".join(c if c.isalnum() else "-" for c in self.rival.label).strip("-")
        return store / self.setting / f"{rival}-{self.variant}-{self.block}.json"

    def outcome(self, store: Path) -> list[dict[str, Any]] | None:
        """One table of measures a seed; None while it has not been computed, or was with other settings."""
        path = self.path(store)
        if not path.is_file():
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        return kept["seeds"] if kept["experiment"] == self.experiment() else None

    def compute(self, store: Path) -> None:
        result = paota.run(self.experiment(), seeds=SEEDS_A_BLOCK)
        self.path(store).parent.mkdir(parents=True, exist_ok=True)
        seeds = [SETTINGS[self.setting].measures(run) for run in result.trajectories]
        write_text(self.path(store), json.dumps({"experiment": self.experiment(), "seeds": seeds}, indent=1))


def accuracy_after_updates(seed: dict[str, Any], updates: int) -> float:
    """Test accuracy at the last point of the grid with at most `updates` device updates; NaN if there were never that many."""
    counts = np.array(seed["updates_on_grid"])
    if counts[-1] < updates:
        return math.nan
    return float(seed["accuracy_on_grid"][int(np.searchsorted(counts, updates, side="right")) - 1])


def interval(values: np.ndarray) -> float:
    """Half the width of the 95 % interval of the mean (Student)."""
    n = len(values)
    return float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.inf


COLUMNS = (
    "algorithm", "variant", "uplink", "seconds", "seconds_interval", "reached", "seeds", "difference_s",
    "difference_interval", "accuracy_half", "accuracy_half_interval", "accuracy_end", "accuracy_end_interval",
    "accuracy_updates", "accuracy_updates_interval", "airtime_ms", "updates", "computed_kj",
)  # fmt: skip


def row(
    setting: Setting, name: tuple[str, str, str], seeds: Sequence[dict[str, Any]], reference: Sequence[dict[str, Any]]
) -> dict[str, str]:
    """One line of the table, by column: means over the seeds with 95 % intervals; differences are paired by seed.

    Seconds, differences and costs are lower bounds where `reached` is less than `seeds`.

    Args:
        name: algorithm, variant and uplink.
        seeds: the measures of each seed.
        reference: those of the reference algorithm on the same seeds.
    """
    times = setting.seconds(seeds)
    accuracies = [[setting.accuracy_after(seed, look_s) for seed in seeds] for look_s in setting.looks_s]
    accuracies.append([accuracy_after_updates(seed, setting.look_updates) for seed in seeds])
    reached = sum(seed["time_s"] is not None for seed in seeds)
    difference = ("", "") if seeds is reference else _mean(times - setting.seconds(reference), "+.0f")
    percent = [part for accuracy in accuracies for part in _mean(100 * np.array(accuracy), ".1f")]
    costs = [_spent(seeds, "airtime_ms"), _spent(seeds, "updates"), _spent(seeds, "computed_j", 1e-3)]
    cells = [*name, *_mean(times, ".0f"), str(reached), str(len(seeds)), *difference, *percent, *costs]
    return dict(zip(COLUMNS, cells, strict=True))


def _mean(values: np.ndarray, digits: str) -> tuple[str, str]:
    """The mean and half of its 95 % interval; empty where a value is unknown."""
    if np.isnan(values).any():
        return "", ""
    return f"{values.mean():{digits}}", f"{interval(values):{digits.lstrip('+')}}"


def _spent(seeds: Sequence[dict[str, Any]], name: str, unit: float = 1.0) -> str:
    """The mean over the seeds that reached the target; the others have spent more."""
    known = [unit * seed[name] for seed in seeds if seed[name] is not None]
    return f"{np.mean(known):.0f}" if known else ""


def uplink(cell: Cell) -> str:
    """Return in words how the rival's devices send."""
    entry = paota.Experiment.from_dict(cell.experiment()).algorithms[0]
    return "air" if entry.algorithm.over_the_air else DIGITAL_UPLINKS.name_of(type(entry.air.digital))


def changes(rival: Rival, variant: int) -> str:
    """Return in words what a variant changes: `participants = 30, learning_rate = 1.5`."""
    if variant == 0:
        return "default"
    flat: dict[str, Any] = {}
    for key, value in rival.others[variant - 1].items():
        flat.update({k: v for k, v in value.items() if k != "optimiser"} if isinstance(value, dict) else {key: value})
    return ", ".join(f"{key} = {value}" for key, value in flat.items())


def tuning_cells(setting: str, rival: Rival) -> list[Cell]:
    """Return the cells that choose among the variants; none if there is only one."""
    variants = range(len(rival.variants()))
    return [Cell(setting, rival, variant, block) for variant in variants for block in TUNING] if rival.others else []


def needed(setting: str, rivals: Sequence[Rival], store: Path, *, defaults: bool = True) -> Iterator[Cell]:
    """Every cell that the table needs, in order; the shown ones of a rival once its choice is known."""
    for rival in rivals:
        cells = tuning_cells(setting, rival)
        yield from cells
        tuned = [cell.outcome(store) for cell in cells]
        best = SETTINGS[setting].best_variant([seeds for seeds in tuned if seeds]) if all(tuned) else 0
        for variant in shown_variants(best, defaults):
            yield from (Cell(setting, rival, variant, block) for block in SHOWN)


def shown_variants(best: int, defaults: bool) -> list[int]:
    """The default and the choice, each once; or the choice alone."""
    return list(dict.fromkeys([0, best] if defaults else [best]))


def table(setting: str, rivals: Sequence[Rival], store: Path, *, defaults: bool = True) -> list[dict[str, str]]:
    """All lines of a setting, from a store with nothing missing."""

    def shown(rival: Rival, variant: int) -> list[dict[str, Any]]:
        return [seed for block in SHOWN for seed in Cell(setting, rival, variant, block).outcome(store) or ()]

    reference = shown(next(rival for rival in RIVALS if rival.label == REFERENCE), 0)
    judged = SETTINGS[setting]
    lines = []
    for rival in rivals:
        tuning = [cell.outcome(store) or [] for cell in tuning_cells(setting, rival)]
        for variant in shown_variants(judged.best_variant(tuning), defaults):
            seeds = reference if rival.label == REFERENCE else shown(rival, variant)
            name = (rival.label, changes(rival, variant), uplink(Cell(setting, rival, variant, 0)))
            lines.append(row(judged, name, seeds, reference))
    return lines


def write_csv(lines: Sequence[dict[str, str]], file: Path) -> None:
    """Write the lines of a setting."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_text(file, text.getvalue())


def between(text: str, made: str, mark: str) -> str:
    """`text` with `made` between the two markers of that name."""
    first, last = (f"<!-- {mark}: {edge} -->" for edge in ("begin", "end"))
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise SystemExit(f"the file needs the markers {first} and {last}")
    return f"{before}{first}\n{made}\n{last}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--store", type=Path, default=Path("runs/field"), help="where outcomes are kept")
    parser.add_argument("--out", type=Path, default=Path("docs/data"), help="the folder of the CSV files")
    parser.add_argument("--only", nargs="+", choices=[r.label for r in RIVALS + NEWCOMERS], help="these rivals")
    parser.add_argument("--tuned", action="store_true", help="leave the untuned rows out")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin nothing new after this many seconds")
    parser.add_argument("--missing", action="store_true", help="only say what is still to be computed")
    args = parser.parse_args()
    rivals = [r for r in RIVALS if not args.only or r.label in args.only or r.label == REFERENCE]
    rivals += [r for r in NEWCOMERS if r.label in (args.only or ())]
    begin = time.monotonic()
    missing = 0
    for cell in needed(args.setting, rivals, args.store, defaults=not args.tuned):
        if cell.outcome(args.store) is not None:
            continue
        if args.missing or time.monotonic() - begin > args.seconds:
            missing += 1
            continue
        print(
            f"{cell.setting}: {cell.rival.label}, {changes(cell.rival, cell.variant)}, block {cell.block}", flush=True
        )
        cell.compute(args.store)
    if missing:
        print(f"{missing} pieces are still missing")
        return 1
    lines = table(args.setting, rivals, args.store, defaults=not args.tuned)
    write_csv(lines, args.out / f"field-{args.setting}.csv")
    return 0


if __name__ == "__main__":
    sys.exit(main())
