"""From devices, radio, model and target to what should be deployed: `paota.plan` and `paota plan`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.files import to_toml, write_csv, write_text
from ...base.rng import Seeds, seed_numbers
from ...base.system import only_one
from ...experiment.experiment import Experiment, as_experiment
from ..sweep.grid import Axis, make_axes
from ..sweep.metrics import SPENT, parse_metric
from .candidates import curve_of, pace_of
from .estimate import Pace
from .outcome import PlanRow, Recommendation, recommendation
from .search import Search, final_experiment
from .spec import PLANS, PlanSpec, parse_constraint

__all__ = ["Pace", "PlanRow", "PlanSpec", "Recommendation", "Search", "answer", "plan", "prepare"]


def plan(
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    target: float | None = None,
    over: Mapping[str, Sequence[Any]] | None = None,
    algorithms: Sequence[str] = (),
    where: Sequence[str] = (),
    best: str = "seconds_to",
    seeds: Seeds = 5,
    jobs: int | None = None,
    out: str | Path | None = None,
) -> Recommendation:
    """Which period, how many devices, how much power, which payload and algorithm get to a target at the least cost.

    A script that uses several processes must start from `if __name__ == "__main__":`.

    Args:
        experiment: as for `paota.run`: the devices, the radio, the model and the data. Its end is the longest that a
            candidate may take.
        target: test accuracy, 0 to 1 (default: the highest of the experiment's targets).
        over: the values to choose from, e.g. {"timing.period_s": [4, 6, 8]}; by default what usually matters to each
            algorithm.
        algorithms: labels or names to choose from; by default the experiment's own, and for the paper's three a short list.
        where: what it may cost, e.g. ["joules_to:0.8 < 2000", "airtime_s < 5"].
        best: what to make small: "seconds_to", "joules_to", "airtime_to", "updates_to" or "rounds_to".
        seeds: repetitions of the finalists, or a list of seeds.
        jobs: processes (default: one a core; with 1 everything happens in this one). They change no answer.
        out: a folder to keep; an interrupted plan goes on when the call is repeated.

    Returns:
        The recommendation, with all that was tried.
    """
    spec = prepare(
        as_experiment(experiment), target=target, axes=make_axes(over or {}), algorithms=algorithms, where=where,
        best=best, seeds=seeds,
    )  # fmt: skip
    if out is None:
        with tempfile.TemporaryDirectory(prefix="paota-plan-") as temporary:
            return answer(begun(PLANS.begin(Path(temporary) / "plan", spec), spec, jobs=jobs), keep=False)
    return answer(begun(PLANS.begin_or_go_on(out, spec), spec, jobs=jobs))


def prepare(
    experiment: Experiment, *, target: float | None = None, axes: Sequence[Axis] = (), algorithms: Sequence[str] = (),
    where: Sequence[str] = (), best: str = "seconds_to", seeds: Seeds = 5,
) -> PlanSpec:  # fmt: skip
    """What is to be planned; what can be refused is, before anything is written or computed."""
    if target is None:
        if not experiment.targets:
            raise UserError("the experiment has no targets: say which accuracy is wanted, e.g. --target 0.8")
        target = max(experiment.targets)
    if not 0 < target <= 1:
        raise UserError(f"the target is a test accuracy above 0 and at most 1, not {target:g}")
    name = best.partition(":")[0]
    if name not in SPENT:
        raise UserError(f"a plan makes one of {', '.join(SPENT)} small, not '{best}'")
    if ":" in best and parse_metric(best).argument != target:
        raise UserError(f"--best {best} and the target {target:g} differ: give --best {name}")
    for text in where:
        parse_constraint(text)
    for key in ("rounds", "duration_s", "seed"):
        if key in [axis.key for axis in axes]:
            raise UserError(f"a plan is not over {key}: it is the same for all candidates")
    seed_numbers(seeds, experiment.seed)
    return PlanSpec(
        experiment=experiment, target=float(target), best=f"{name}:{target:g}", axes=tuple(axes),
        algorithms=tuple(algorithms), where=tuple(where), seeds=seeds if isinstance(seeds, int) else tuple(seeds),
    )  # fmt: skip


def begun(path: Path, spec: PlanSpec, *, jobs: int | None = None, ray: str | None = None) -> Search:
    """A search in the plan folder `path`; `jobs` and `ray` as for `paota.studies.sweep.sweep.compute`."""
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs must be at least 1, not {jobs}")
    return Search(spec, path, jobs=jobs or os.cpu_count() or 1, ray=ray)


def answer(search: Search, *, keep: bool = True) -> Recommendation:
    """Search, and write the answer into the plan's folder."""
    PLANS.refuse_changed_files(search.path, search.spec.experiment)
    with only_one(search.path):
        search.run()
    search.foresee([c for c in search.candidates if c.index in search.reached_rung])
    chosen = search.chosen
    if chosen is not None:  # a scheme may change its pace: what it is like until the target
        search.foreseen[chosen.index] = pace_of(chosen, search.cost(chosen, "seconds_to").median)
    experiment = None if chosen is None else final_experiment(search.spec.experiment, chosen, search.spec.target)
    made = recommendation(search, experiment)
    made = replace(made, curve=tuple(curve_of(chosen)) if chosen is not None else ())
    if keep:
        made = replace(made, folder=search.path)
        write(made, search.path)
    return made


def write(made: Recommendation, path: Path) -> None:
    """`experiment.toml`, `plan.csv` and the page."""
    from .page import write_page

    if made.experiment is not None:
        write_text(path / "experiment.toml", to_toml(made.experiment.to_dict()))
    write_csv(path / "plan.csv", made.table)
    write_page(path / "report.html", made)
