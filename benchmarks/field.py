"""All algorithms on the paper's setting, as one table: what 80 % costs in rounds, seconds, joules and airtime.

    python benchmarks/field.py [--seeds 5] [--rounds 100] [--out docs/algorithms.md] [--keep RUN_FOLDER]

Writes the table between the markers of the given file (or prints it, without --out). All algorithms make as many device
updates as PAOTA makes in `rounds` rounds, on the same devices, data, latencies and channels. Algorithms that upload
digitally do so over OFDMA, so that their airtime is measured; `local-sgd (ideal)` is the paper's reference.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

import paota
from paota.experiment import Experiment
from paota.files import Columns, write_text
from paota.registry import DIGITAL_UPLINKS
from paota.results import Result, first_reach

TARGET = 0.8
BEGIN, END = "<!-- field table: begin -->", "<!-- field table: end -->"
ENTRIES = [
    {"name": "paota"},
    {"name": "paota", "label": "paota (update)", "payload": "update"},
    {"name": "local-sgd", "label": "local-sgd (ideal)", "air": {"digital": "ideal"}},
    {"name": "local-sgd"},
    {"name": "fedasync"},
    {"name": "fedbuff"},
    {"name": "fedbuff", "label": "fedbuff (eta_g = 0.5)", "server_learning_rate": 0.5},
    {"name": "tt-fed"},
    {"name": "cotaf"},
    {"name": "baa"},
    {"name": "full-power"},
    {"name": "threshold"},
    {"name": "air-fedga"},
    {"name": "air-fedga", "label": "air-fedga (mixing = 1)", "mixing": 1.0},
]
HEADER = (
    "| algorithm | uplink | events to 80 % | device updates to 80 % | simulated s to 80 % | radiated J to 80 % "
    "| airtime s to 80 % | final accuracy |"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, help="the Markdown file whose table is replaced")
    parser.add_argument("--keep", type=Path, help="also keep the run folder with its report")
    args = parser.parse_args()
    experiment = Experiment.from_dict(
        {
            "name": "field",
            "rounds": args.rounds,
            "targets": [0.5, 0.6, 0.7, TARGET],
            "air": {"digital": "ofdma"},
            "evaluation": {"train_loss": "batches"},
            "algorithms": ENTRIES,
        }
    )
    result = paota.run(experiment, seeds=args.seeds)
    if args.keep:
        result.save(args.keep)
    table = "\n".join([HEADER, "|---|---|--:|--:|--:|--:|--:|--:|", *(row(result, label) for label in result.labels)])
    if args.out is None:
        print(table)
    else:
        write_text(args.out, replaced(args.out.read_text(encoding="utf-8"), table))
    return 0


def row(result: Result, label: str) -> str:
    runs = result.of(label)
    reached = [reach(run.metrics) for run in runs]
    cells = [spread([seed[key] for seed in reached]) for key in ("round", "updates", "time_s", "energy_j", "airtime_s")]
    final = np.array([known(run.metrics["test_accuracy"])[-1] for run in runs])
    accuracy = f"{100 * final.mean():.1f} ± {100 * final.std(ddof=1) if len(final) > 1 else 0:.1f} %"
    return f"| {' | '.join([label, uplink(result, label), *cells, accuracy])} |"


def uplink(result: Result, label: str) -> str:
    contestant = next(c for c in result.experiment.contestants if c.label == label)
    if contestant.algorithm.over_the_air:
        return "over the air"
    return DIGITAL_UPLINKS.name_of(type(contestant.air.digital))


def reach(metrics: Columns) -> dict[str, float]:
    """What had been spent when the target was reached; infinite if it never was."""
    totals = {
        "round": metrics["round"],
        "time_s": metrics["time_s"],
        "updates": np.cumsum(metrics["ready"]),
        "energy_j": np.cumsum(metrics["energy_j"]),
        "airtime_s": np.cumsum(metrics["airtime_s"]),
    }
    return {name: first_reach({**metrics, name: total}, TARGET, name) for name, total in totals.items()}


def spread(values: list[float]) -> str:
    """Mean and standard deviation over the seeds that reached the target."""
    array = np.array([value for value in values if not math.isinf(value)])
    if not len(array):
        return "not reached"
    if np.isnan(array).all():
        return "–"
    some = "" if len(array) == len(values) else f" ({len(array)} of {len(values)})"
    if len(array) == 1:
        return f"{figure(array[0])}{some}"
    return f"{figure(array.mean())} ± {figure(array.std(ddof=1))}{some}"


def figure(value: float) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:.1e}"


def known(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


def replaced(text: str, table: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the file needs the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
