"""Every number of the reproduction as tidy CSV files, with Table I beside the values of the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...base.files import write_csv
from ...base.types import Table as Row
from ...results.measures import Floats, median, quartiles
from .catalogue import Scale, seeds_of
from .cells import Stored
from .evidence import Evidence, Radiated
from .gather import METHOD_LABELS, Cells, accuracy_of, radiated_by, values_of
from .verdicts import Verdict

TARGETS = (0.5, 0.6, 0.7, 0.8)
PRINTED = {  # Table I of the paper: rounds and seconds to each target accuracy
    "paota": ((6, 36.0), (10, 60.0), (18, 108.0), (57, 342.0)),
    "local-sgd": ((3, 45.61), (6, 78.17), (12, 181.24), (29, 451.62)),
    "cotaf": ((6, 91.30), (12, 181.21), (29, 316.75), (44, 676.93)),
}


def write_tables(
    cells: Cells, evidence: Evidence, verdicts: Sequence[Verdict], scale: Scale, folder: Path
) -> dict[str, list[Row]]:
    """Write all tables to `folder` and return them by name."""
    made = evidence_tables(evidence, verdicts) | {
        "ablations": list(ablation_rows(cells)),
        "optimum": list(optimum_rows(cells, scale)),
        "power": list(power_rows(cells, evidence)),
    }
    write_rows(made, folder)
    for name, cell in cells.items():
        if name.startswith("bound-"):
            write_csv(folder / f"{name}.csv", dict(cell.arrays))
    return made


def evidence_tables(evidence: Evidence, verdicts: Sequence[Verdict]) -> dict[str, list[Row]]:
    """Return the tables that follow from the evidence alone, by name."""
    return {
        "verdicts": [verdict_row(v) for v in verdicts],
        "trials": [row for v in verdicts for row in trial_rows(v)],
        "table1": list(table1_rows(evidence)),
        "accuracy": list(accuracy_rows(evidence)),
        "curves": list(curve_rows(evidence)),
        "noise": list(noise_rows(evidence)),
        "breaks": list(break_rows(evidence)),
    }


def write_rows(tables: Mapping[str, Sequence[Row]], folder: Path) -> None:
    """Write each table as NAME.csv to `folder`."""
    for name, rows in tables.items():
        keys = list(rows[0]) if rows else ["nothing"]
        write_csv(folder / f"{name}.csv", {key: np.array([row[key] for row in rows], dtype=object) for key in keys})


def verdict_row(v: Verdict) -> Row:
    """Return one claim with its verdict."""
    change = v.changed
    return {
        "claim": v.claim.id, "statement": v.claim.statement, "paper": v.claim.paper, "verdict": v.status,
        "measured": v.claim.measured, "value": v.estimate.value, "low": v.estimate.low, "high": v.estimate.high,
        "unit": v.estimate.unit, "estimate": str(v.estimate), "change": change.change if change else "",
        "change_estimate": str(change.estimate) if change else "", "rule": v.claim.rule, "reason": v.reason,
    }  # fmt: skip


def trial_rows(v: Verdict) -> Iterable[Row]:
    """Yield every trial of a claim, also those that do not decide."""
    for tried in v.tried:
        yield {
            "claim": v.claim.id, "change": tried.change or "as printed", "value": tried.estimate.value,
            "low": tried.estimate.low, "high": tried.estimate.high, "unit": tried.estimate.unit,
            "estimate": str(tried.estimate), "outcome": tried.outcome, "p_holds": tried.p_holds, "p_fails": tried.p_fails,
            "equal_terms": tried.terms is None or tried.terms.equal, "radiated": str(tried.terms or ""),
        }  # fmt: skip


def table1_rows(evidence: Evidence) -> Iterable[Row]:
    """Yield rounds and seconds to each target, with quartiles and the paper's own values."""
    for period_s, setting in ((8, evidence.quiet), (6, evidence.six)):
        for method in METHOD_LABELS:
            printed = dict(zip(TARGETS, PRINTED.get(method, ()), strict=False))
            for target in evidence.targets:
                rounds, seconds = setting[method].rounds_to(target), setting[method].seconds_to(target)
                theirs = printed.get(target, (math.nan, math.nan))
                (r25, r50, r75), (s25, s50, s75) = quartiles(rounds), quartiles(seconds)
                yield {
                    "period_s": period_s, "method": method, "target": target,
                    "paper_rounds": float(theirs[0]), "rounds": r50, "rounds_q25": r25, "rounds_q75": r75,
                    "paper_seconds": theirs[1], "seconds": s50, "seconds_q25": s25, "seconds_q75": s75,
                    "reached": int(np.isfinite(rounds).sum()), "seeds": len(rounds),
                }  # fmt: skip


def _quartiles(name: str, values: Floats) -> Row:
    low, middle, high = quartiles(values)
    return {name: middle, "q25": low, "q75": high}


def accuracy_rows(evidence: Evidence) -> Iterable[Row]:
    """Yield the final accuracy of every method in the paper's settings."""
    for name, setting in (
        ("-174 dBm/Hz, 8 s", evidence.quiet),
        ("-74 dBm/Hz, 8 s", evidence.loud),
        ("-174 dBm/Hz, 6 s", evidence.six),
    ):
        for method, curves in setting.items():
            yield {"setting": name, "method": method, **_quartiles("final_accuracy", curves.final_accuracy())}


def curve_rows(evidence: Evidence) -> Iterable[Row]:
    """Yield the curves of Figs. 3 and 4: means over the seeds, round by round."""
    for name, setting in (("quiet", evidence.quiet), ("loud", evidence.loud)):
        for method, curves in setting.items():
            gap = evidence.gap(setting, method)
            for r in range(curves.accuracy.shape[1]):
                yield {
                    "setting": name, "method": method, "round": r, "time_s": float(np.mean(curves.time_s[:, r])),
                    "test_accuracy": float(np.mean(curves.accuracy[:, r])), "gap": float(np.mean(gap[:, r])),
                }  # fmt: skip


def noise_rows(evidence: Evidence) -> Iterable[Row]:
    """Yield the final accuracy of every series at every noise level."""
    for name, curve in evidence.noise.items():
        for level, accuracy in zip(curve.levels_dbm, curve.accuracy, strict=True):
            series = {"series": name, "title": curve.title, "path_loss": curve.path_loss, "n0_dbm_per_hz": level}
            yield series | _quartiles("final_accuracy", accuracy)


def break_rows(evidence: Evidence) -> Iterable[Row]:
    """Yield the noise density at which each series breaks."""
    for name, curve in evidence.noise.items():
        series = {"series": name, "title": curve.title, "path_loss": curve.path_loss}
        without = {"without_noise": median(curve.accuracy[0])}
        yield series | without | _quartiles("breaks_at_dbm_per_hz", curve.breaks_dbm())


def ablation_rows(cells: Cells) -> Iterable[Row]:
    """Yield final accuracy and seconds to 70 and 80 % for every value of every ablation."""

    def row(kind: str, value: float | str, method: str, cell: Stored, label: str) -> Row:
        curves = accuracy_of(cell, label)
        seconds = {f"seconds_to_{percent}": median(curves.seconds_to(percent / 100)) for percent in (70, 80)}
        ablation = {"ablation": kind, "value": value, "method": method}
        return ablation | _quartiles("final_accuracy", curves.final_accuracy()) | seconds

    for kind in ("period", "classes", "devices"):
        for _, value, cell in values_of(cells, kind):
            for label in cell.labels:
                yield row(kind, value, label, cell, label)
    labelled = [("omega", "paota"), ("beta", "paota"), ("beta-update", "paota-update")]
    for kind, method in (*labelled, *((f"eta-{method}", method) for method in METHOD_LABELS)):
        for label in cells[kind].labels if kind in cells else ():
            found = float(label) if kind.startswith("eta-") else label
            yield row(kind.partition("-")[0], found, method, cells[kind], label)


def optimum_rows(cells: Cells, scale: Scale) -> Iterable[Row]:
    """Yield F(w*) of each seed, and how finished the seed's own search was, if it had one."""
    best = np.min(cells["optimum-crossed"].arrays["values"], axis=1)
    for lowest, seed in zip(best, seeds_of(scale), strict=True):
        search = cells.get(f"optimum-{seed}")
        own = {} if search is None else search.facts
        yield {"seed": seed, "best": lowest} | {
            key: own.get(key, math.nan) for key in ("value", "gradient_norm", "last_gain")
        }


def power_rows(cells: Cells, evidence: Evidence) -> Iterable[Row]:
    """Yield the radiated power of every method, its violations of Eq. individual_power, and the received noise."""
    for name, setting in (("-174 dBm/Hz", "quiet"), ("-74 dBm/Hz", "loud")):
        for label in cells[setting].labels:
            spent = radiated_by(cells[setting], [label])
            if spent is not None:
                noise_std = float(np.nanmedian(cells[setting].of(label, "noise_std")))
                yield _power_row(name, label, spent, noise_std)
    for curve in evidence.noise.values():
        if curve.radiated is not None:
            where = "noise sweep, path loss" if curve.path_loss else "noise sweep"
            yield _power_row(where, curve.title, curve.radiated, math.nan)


def _power_row(setting: str, method: str, spent: Radiated, noise_std: float) -> Row:
    return {
        "setting": setting, "method": method, "radiated_w": spent.median_w, "over_budget": spent.over_budget,
        "noise_std_a_weight": noise_std,
    }  # fmt: skip
