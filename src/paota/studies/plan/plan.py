"""The recommendation of a deployment for devices, radio, model and target: `paota.plan` and `paota plan`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...base.errors import UserError, concise
from ...base.files import to_toml, write_csv, write_text
from ...base.rng import Seeds, seed_numbers
from ...base.system import only_one
from ...base.types import Settings
from ...experiment.experiment import Experiment, as_experiment, with_objects
from ..study import check_jobs
from ..sweep.grid import Axis, make_axes
from ..sweep.metrics import SPENT, parse_constraint, parse_metric
from .candidates import CURVE_POINTS, Candidate, Pace, paces_of
from .outcome import Recommendation, recommendation
from .search import PLANS, PlanSpec, Search


@concise
def plan(
    experiment: Experiment | Settings | str | Path | None = None,
    *,
    target: float | None = None,
    over: Mapping[str, Sequence[object]] | None = None,
    algorithms: Sequence[str] = (),
    where: Sequence[str] = (),
    best: str = "seconds_to",
    seeds: Seeds = 5,
    jobs: int | None = None,
    out: str | Path | None = None,
) -> Recommendation:
    """Recommend the algorithm, period, number of devices, power and payload that reach a target at the least cost.

    Models, data sets and registered things of a script or notebook are sent to the processes, as for `paota.sweep`.

    Args:
        experiment: as for `paota.run`: the devices, the radio, the model and the data. Its end is the longest time of a
            candidate.
        target: test accuracy, 0 to 1 (default: the highest of the experiment's targets).
        over: the values to choose from, e.g. {"timing.period_s": [4, 6, 8]}; by default what usually matters to each
            algorithm.
        algorithms: labels or names to choose from; by default the experiment's own, and for the paper's three a short list.
        where: limits of the cost, e.g. ["joules_to:0.8 < 2000", "airtime_s < 5"].
        best: the cost to minimise: "seconds_to", "joules_to", "airtime_to", "updates_to" or "rounds_to".
        seeds: repetitions of the finalists, or a list of seeds.
        jobs: number of processes (default: one per core; 1 computes everything in this process). It changes no result.
        out: a folder to keep; repeating the call resumes an interrupted plan.

    Returns:
        The recommendation, with all candidates.
    """
    spec = prepare(
        as_experiment(experiment), target=target, axes=make_axes(over or {}), algorithms=algorithms, where=where,
        best=best, seeds=seeds,
    )  # fmt: skip
    if out is None:
        with tempfile.TemporaryDirectory(prefix="paota-plan-") as temporary:
            return answer(begun(PLANS.begin(Path(temporary) / "plan", spec), spec, jobs=jobs), keep=False)
    return answer(begun(PLANS.begin_or_resume(out, spec), spec, jobs=jobs))


def prepare(
    experiment: Experiment, *, target: float | None = None, axes: Sequence[Axis] = (), algorithms: Sequence[str] = (),
    where: Sequence[str] = (), best: str = "seconds_to", seeds: Seeds = 5,
) -> PlanSpec:  # fmt: skip
    """Return the question of a plan; refuse mistakes before anything is written or computed."""
    if target is None:
        if not experiment.targets:
            raise UserError("the experiment has no targets: give the accuracy to reach, e.g. --target 0.8")
        target = max(experiment.targets)
    if not 0 < target <= 1:
        raise UserError(f"the target is a test accuracy above 0 and at most 1, not {target:g}")
    name = best.partition(":")[0]
    if name not in SPENT:
        raise UserError(f"a plan minimises one of {', '.join(SPENT)}, not '{best}'")
    if ":" in best and parse_metric(best).argument != target:
        raise UserError(f"--best {best} and the target {target:g} differ: give --best {name}")
    for text in where:
        parse_constraint(text)
    for key in ("rounds", "duration_s", "seed"):
        if key in [axis.key for axis in axes]:
            raise UserError(f"a plan cannot vary {key}: it is the same for all candidates")
    seed_numbers(seeds, experiment.seed)
    return PlanSpec(
        experiment=experiment, target=float(target), best=f"{name}:{target:g}", axes=tuple(axes),
        algorithms=tuple(algorithms), where=tuple(where), seeds=seeds if isinstance(seeds, int) else tuple(seeds),
    )  # fmt: skip


def begun(path: Path, spec: PlanSpec, *, jobs: int | None = None, ray: str | None = None) -> Search:
    """Return a search in the plan folder `path`; `jobs` and `ray` as for `paota.studies.sweep.sweep.compute`."""
    check_jobs(jobs)
    return Search(spec, path, jobs=jobs or os.cpu_count() or 1, ray=ray)


def answer(search: Search, *, keep: bool = True) -> Recommendation:
    """Search; with `keep`, write `experiment.toml`, `plan.csv` and the page into the plan's folder."""
    from .page import write_page  # start-up time

    PLANS.refuse_changed_files(search.path, search.spec.experiment)
    with only_one(search.path):
        search.run()
    search.foresee([c for c in search.candidates if c.index in search.reached_rung])
    chosen, experiment = search.chosen, None
    curve: Sequence[Pace] = ()
    if chosen is not None:  # a scheme may change its pace: the estimate holds until the target
        until_s = search.cost(chosen, "seconds_to").median
        search.foreseen[chosen.index], curve = paces_of(chosen, until_s, CURVE_POINTS)
        experiment = final_experiment(search.spec.experiment, chosen, search.spec.target)
    made = recommendation(search, experiment, curve)
    if keep:
        path = search.path
        made = replace(made, folder=path)
        if experiment is not None:
            write_text(path / "experiment.toml", to_toml(experiment.to_dict()))
        write_csv(path / "plan.csv", made.table)
        write_page(path / "report.html", made)
    return made


def final_experiment(given: Experiment, chosen: Candidate, target: float) -> Experiment:
    """Return the experiment to deploy: the choice with the given evaluation, until the target."""
    table = with_objects(chosen.experiment.to_dict(), chosen.experiment.objects)
    table["evaluation"] = {**given.to_dict()["evaluation"], "stop_at": target}
    return Experiment.from_dict({**table, "targets": sorted({*given.targets, target})}, base=given.base)
