"""All algorithms on one setting, as one table: what 80 % costs in rounds, seconds, joules and airtime.

    python benchmarks/field.py [paper|realistic] [--seeds 5] [--rounds 100] [--out docs/algorithms.md] [--keep FOLDER]

Writes the table between the setting's markers in the given file (or prints it, without --out); `--from FOLDER` makes
the table of a run that was kept. All algorithms make as many device updates as PAOTA makes in `rounds` rounds, on the
same devices, data, latencies and channels. Those that upload digitally use OFDMA, so that their airtime is measured.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

import paota
from paota.experiment import Experiment
from paota.registry import DIGITAL_UPLINKS
from paota.runs.files import write_text
from paota.runs.measures import final_accuracy, reach
from paota.runs.results import Result, Trajectory
from paota.runs.trained import experiment_of

TARGET = 0.8
UPDATE = {"payload": "update"}
HALF = {"label": "fedbuff (eta_g = 0.5)", "server_learning_rate": 0.5}

PAPER = {
    "air": {"digital": "ofdma"},
    "algorithms": [
        {"name": "paota"},
        {"name": "paota", "label": "paota (update)", **UPDATE},
        {"name": "local-sgd", "label": "local-sgd (ideal)", "air": {"digital": "ideal"}},
        {"name": "local-sgd"},
        {"name": "fedasync"},
        {"name": "fedbuff"},
        {"name": "fedbuff", **HALF},
        {"name": "tt-fed"},
        {"name": "cotaf"},
        {"name": "baa"},
        {"name": "full-power"},
        {"name": "threshold"},
        {"name": "air-fedga"},
        {"name": "air-fedga", "label": "air-fedga (mixing = 1)", "mixing": 1.0},
    ],
}

# Handsets of 23 dBm in a street: 0.2 W is the mean power of a digital sender, and of an analog one too, whose limit is
# on the sum over its 8070 symbols.
ANALOG = {"power": {"max_power_w": 0.2 * 8070}}
REALISTIC = {
    "air": {
        "path_loss": "umi",
        "n0_dbm_per_hz": -167.0,
        "csi_error": 0.01,
        "phase_error_rad": 0.05,
        "digital": "ofdma",
    },
    "power": {"cap": "physical", "max_power_w": 0.2},
    "algorithms": [
        {"name": "paota", **ANALOG},
        {"name": "paota", "label": "paota (update)", **UPDATE, **ANALOG},
        {"name": "local-sgd"},
        {"name": "fedasync"},
        {"name": "fedbuff", **HALF},
        {"name": "tt-fed"},
        {"name": "cotaf", "label": "cotaf (fading)", "fading": True, **ANALOG},
        {"name": "baa", "label": "baa (update)", **UPDATE, **ANALOG},
        {"name": "full-power", "label": "full-power (update)", **UPDATE, **ANALOG},
        {"name": "threshold", **ANALOG},
        {"name": "air-fedga", **ANALOG},
    ],
}
SETTINGS: dict[str, dict[str, Any]] = {"paper": PAPER, "realistic": REALISTIC}

HEADER = (
    "| algorithm | uplink | events to 80 % | device updates to 80 % | simulated s to 80 % | radiated J to 80 % "
    "| airtime ms to 80 % | final accuracy |"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("setting", nargs="?", default="paper", choices=SETTINGS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, help="the Markdown file whose table is replaced")
    parser.add_argument("--keep", type=Path, help="also keep the run folder with its report")
    parser.add_argument("--from", type=Path, dest="kept", help="a folder that --keep has made: do not run again")
    args = parser.parse_args()
    asked = experiment(args.setting, args.rounds)
    result = paota.load(args.kept) if args.kept else paota.run(asked, seeds=args.seeds)
    if args.keep:
        result.save(args.keep)
    table = "\n".join([HEADER, "|---|---|--:|--:|--:|--:|--:|--:|", *(row(result, label) for label in result.labels)])
    if args.out is None:
        print(table)
    else:
        write_text(args.out, replaced(args.out.read_text(encoding="utf-8"), table, args.setting))
    return 0


def experiment(setting: str, rounds: int) -> Experiment:
    return Experiment.from_dict(
        {
            "name": f"field-{setting}",
            "rounds": rounds,
            "targets": [0.5, 0.6, 0.7, TARGET],
            "evaluation": {"train_loss": "batches"},
            **SETTINGS[setting],
        }
    )


def row(result: Result, label: str) -> str:
    runs = result.of(label)
    reached = [spent_to_target(run) for run in runs]
    cells = [
        spread([seed[key] for seed in reached]) for key in ("round", "updates", "time_s", "energy_j", "airtime_ms")
    ]
    final = np.array([final_accuracy(run) for run in runs])
    accuracy = f"{100 * final.mean():.1f} ± {100 * final.std(ddof=1) if len(final) > 1 else 0:.1f} %"
    lost = sum(run.diverged_round is not None for run in runs)
    accuracy = f"diverged ({lost} of {len(runs)} seeds)" if lost else accuracy
    return f"| {' | '.join([label, uplink(result, label), *cells, accuracy])} |"


def uplink(result: Result, label: str) -> str:
    contestant = next(c for c in experiment_of(result).contestants if c.label == label)
    if contestant.algorithm.over_the_air:
        return "over the air"
    return DIGITAL_UPLINKS.name_of(type(contestant.air.digital))


def spent_to_target(run: Trajectory) -> dict[str, float]:
    """What had been spent when the target was reached; infinite if it never was."""
    metrics = run.metrics
    totals = {
        "round": metrics["round"],
        "time_s": metrics["time_s"],
        "updates": np.cumsum(metrics["ready"]),
        "energy_j": np.cumsum(metrics["energy_j"]),
        "airtime_ms": 1e3 * np.cumsum(metrics["airtime_s"]),
    }
    return {name: reach(run, TARGET, total) for name, total in totals.items()}


def spread(values: list[float]) -> str:
    """Mean and standard deviation over the seeds that reached the target."""
    array = np.array([value for value in values if not math.isinf(value)])
    if not len(array):
        return "never"
    if np.isnan(array).all():
        return "–"
    some = "" if len(array) == len(values) else f" ({len(array)} of {len(values)} seeds)"
    return f"{figures(array.mean(), array.std(ddof=1) if len(array) > 1 else 0.0)}{some}"


def figures(mean: float, deviation: float) -> str:
    """Two digits of the deviation, and the mean to the same place."""
    power = math.floor(math.log10(mean)) if 0 < mean < 1e-3 else 0
    mean, deviation = mean / 10.0**power, deviation / 10.0**power
    leading = math.floor(math.log10(deviation)) if deviation > 0 else math.floor(math.log10(max(mean, 1e-9))) - 1
    places = max(0, 1 - leading)
    text = f"{mean:.{places}f} ± {deviation:.{places}f}"
    return text if power == 0 else f"({text})e{power}"


def replaced(text: str, table: str, setting: str) -> str:
    first, last = (f"<!-- field table, {setting}: {edge} -->" for edge in ("begin", "end"))
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise SystemExit(f"the file needs the markers {first} and {last}")
    return f"{before}{first}\n{table}\n{last}{after}"


if __name__ == "__main__":
    sys.exit(main())
