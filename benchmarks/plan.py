"""Compare the planner's choice and computation with a full grid search. Prints the table of docs/plan.md.

    python benchmarks/plan.py --out docs/plan.md

On six settings, every candidate is simulated with every seed until it reaches the target (the grid), and the planner
searches the same candidates. A run that the planner stops early equals the beginning of the grid's run bit for bit, so its
search is replayed on the grid's runs. These seeds are used for this page only; no constant of the planner was tuned (the
factor of 3 between rungs is the usual one). Computation is counted in device updates. An interrupted benchmark resumes.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from paota.base.formatting import quantity
from paota.experiment.experiment import Experiment
from paota.results.result import Trajectory
from paota.simulate import prepare as plan_runs
from paota.studies.plan.candidates import Candidate
from paota.studies.plan.plan import begun, prepare
from paota.studies.plan.search import PLANS, Rung, Search, is_over, ranked, updates_of
from paota.studies.sweep.grid import make_axes

SEEDS = (100, 101, 102, 103, 104)
TARGET = 0.8
DURATION_S = 600.0
OVER: dict[str, list[Any]] = {
    "timing.period_s": [4, 6, 8, 10, 12],
    "algorithms.paota.payload": ["model", "update"],
    "algorithms.cotaf.participants": [10, 20, 30],
}
ALGORITHMS = [
    {"name": "paota"},
    {"name": "paota-plus"},
    {
        "name": "cotaf", "fading": True, "selected": 100,
        "server": {"optimiser": "momentum", "learning_rate": 1.5, "momentum": 0.6},
    },
]  # fmt: skip
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper": ("the paper's, U(5, 15) s", {}),
    "heavy-tail": ("lognormal, median 9 s, spread 0.8", {"timing": {"latency": "lognormal", "spread": 0.8}}),
    "per-device": ("one latency for each device's life, U(5, 15) s", {"timing": {"latency": "per-device"}}),
    "two-speeds": ("30 % slow devices with a class of their own", {
        "data": {"partition": "rare-class"}, "timing": {"latency": "two-speeds"},
    }),
    "dirichlet": ("the paper's, Dirichlet 0.3", {"data": {"partition": "dirichlet", "concentration": 0.3}}),
    "noisy": ("the paper's, noise of -54 dBm/Hz", {"air": {"n0_dbm_per_hz": -54.0}}),
}  # fmt: skip
HEADER = """| latencies | the grid's best | the planner's choice | verdict | updates, grid | ... that stops | planner | share |
|---|---|---|---|--:|--:|--:|--:|"""


def search_of(setting: str, out: Path) -> Search:
    """Return a search over the candidates of this page, in a separate folder."""
    table = {"name": setting, "duration_s": DURATION_S, "targets": [TARGET], "algorithms": ALGORITHMS}
    experiment = Experiment.from_dict({**table, **SETTINGS[setting][1]})
    spec = prepare(experiment, target=TARGET, axes=make_axes(OVER), seeds=SEEDS)
    return begun(PLANS.begin_or_resume(out, spec), spec, jobs=int(os.environ.get("JOBS", "2")))  # processes


class Replay(Search):
    """A planner that reads its runs from a complete grid."""

    grid_runs: dict[int, dict[int, Trajectory]]

    def compute(self, candidates: Sequence[Candidate], rung: Rung, number: int) -> None:
        """Replay the runs that `Search.compute` would have simulated, and add up their cost."""
        for candidate in candidates:
            mine = self.runs.setdefault(candidate.index, {})
            for seed in rung.seeds:
                if seed in mine and is_over(mine[seed], self.stop_at, self.duration_s):
                    continue
                mine[seed] = until(self.grid_runs[candidate.index][seed], rung.until_s)
                self.updates += updates_of(mine[seed])


def until(run: Trajectory, time_s: float) -> Trajectory:
    """Return a run cut at the first round at or after a time."""
    rows = int(np.searchsorted(run.metrics["time_s"], time_s)) + 1
    lost = run.diverged_round if run.diverged_round is not None and run.diverged_round < rows else None
    return replace(run, metrics={name: c[:rows] for name, c in run.metrics.items()}, diverged_round=lost)


def whole_updates(search: Search) -> int:
    """Return the device updates of a grid without stopping at the target, from the timelines."""
    total = 0
    for candidate in search.candidates:
        made = plan_runs(candidate.experiment, seeds=SEEDS)
        total += sum(len(timeline.device) for timeline in made.timelines.values())
    return total


def row(setting: str, store: Path) -> str:
    """Return one line of the table."""
    grid = search_of(setting, store / setting)
    whole = whole_updates(grid)
    everybody = list(grid.candidates)
    with grid.pool:
        grid.compute(everybody, Rung(grid.seeds, grid.duration_s), 2)
    planner = Replay(grid.spec, grid.path, jobs=1)
    planner.grid_runs = grid.runs
    planner.run()
    best = ranked(everybody, grid.known(everybody), grid.best, (), final=True)[0]
    assert planner.chosen is not None
    chosen = everybody[planner.chosen.index]
    mine, theirs = grid.cost(chosen), grid.cost(best)
    stopped = sum(updates_of(run) for runs in grid.known(everybody).values() for run in runs)
    verdict = "the same" if chosen is best else "within its spread" if mine.median <= theirs.high else "worse"
    return (
        f"| {SETTINGS[setting][0]} | {best.name}: {shown(theirs.median)} ({shown(theirs.low)} to {shown(theirs.high)}) s "
        f"| {chosen.name}: {shown(mine.median)} s | {verdict} | {whole:,} | {stopped:,} | {planner.updates:,} "
        f"| {planner.updates / whole:.0%}, {planner.updates / stopped:.0%} |"
    )


def shown(value: float) -> str:
    """Return seconds as text, or "never"."""
    return quantity(value) if math.isfinite(value) else "never"


def main() -> int:
    """Compute missing runs, print the table, and write it between the marks of a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=f"one of {', '.join(SETTINGS)} (default: all)")
    parser.add_argument("--store", type=Path, default=Path("runs/plan-benchmark"), help="where runs are kept")
    parser.add_argument("--out", type=Path, help="a page with the marks of the table")
    args = parser.parse_args()
    args.store.mkdir(parents=True, exist_ok=True)
    lines = [HEADER]
    for setting in args.settings or SETTINGS:
        lines.append(row(setting, args.store))
        print(lines[-1], flush=True)
    if args.out is not None:
        first, last = "<!-- plan table: begin -->", "<!-- plan table: end -->"
        before, _, rest = args.out.read_text().partition(first)
        _, _, after = rest.partition(last)
        args.out.write_text(f"{before}{first}\n{chr(10).join(lines)}\n{last}{after}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
