"""Every number behind the figures, as tidy CSV files, and Table I beside the paper's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.files import Columns, write_csv
from ...results.measures import median, quartiles
from . import printed
from .catalogue import Scale, seeds_of
from .evidence import Evidence, Radiated
from .gather import METHOD_LABELS, Cells, final, radiated_by, seconds_to, values_of
from .verdicts import Verdict

Facts = dict[str, Any]


def write_tables(
    cells: Cells, evidence: Evidence, verdicts: Sequence[Verdict], scale: Scale, folder: Path
) -> dict[str, list[Facts]]:
    """All tables, written and returned by name."""
    made = {
        "verdicts": [verdict_row(v) for v in verdicts],
        "trials": [row for v in verdicts for row in trial_rows(v)],
        "table1": list(table1_rows(evidence)),
        "accuracy": list(accuracy_rows(evidence)),
        "curves": list(curve_rows(evidence)),
        "noise": list(noise_rows(evidence)),
        "breaks": list(break_rows(evidence)),
        "ablations": list(ablation_rows(cells)),
        "optimum": list(optimum_rows(cells, scale)),
        "power": list(power_rows(cells, evidence)),
    }
    for name, rows in made.items():
        write_csv(folder / f"{name}.csv", columns_of(rows))
    for name, cell in cells.items():
        if name.startswith("bound-"):
            write_csv(folder / f"{name}.csv", {key: np.asarray(value) for key, value in cell.arrays.items()})
    return made


def columns_of(rows: Sequence[Facts]) -> Columns:
    """Rows with equal keys as a table, column by column."""
    names = list(rows[0]) if rows else ["nothing"]
    return {name: np.array([row[name] for row in rows], dtype=object) for name in names}


def verdict_row(v: Verdict) -> Facts:
    """One claim with its verdict."""
    return {
        "claim": v.claim.id, "statement": v.claim.statement, "paper": v.claim.paper, "verdict": v.status,
        "measured": v.claim.measured, "value": v.estimate.value, "low": v.estimate.low, "high": v.estimate.high,
        "unit": v.estimate.unit, "change": v.changed.change if v.changed else "", "rule": v.claim.rule, "reason": v.reason,
    }  # fmt: skip


def trial_rows(v: Verdict) -> Iterable[Facts]:
    """Every trial of a claim, whether it decided or not."""
    for tried in v.tried:
        yield {
            "claim": v.claim.id, "change": tried.change or "as printed", "value": tried.estimate.value,
            "low": tried.estimate.low, "high": tried.estimate.high, "unit": tried.estimate.unit,
            "estimate": str(tried.estimate), "outcome": tried.outcome, "p_holds": tried.p_holds, "p_fails": tried.p_fails,
            "equal_terms": tried.terms is None or tried.terms.equal, "radiated": str(tried.terms or ""),
        }  # fmt: skip


def table1_rows(evidence: Evidence) -> Iterable[Facts]:
    """Rounds and seconds to each target, with quartiles and the paper's own figures."""
    for period_s, setting in ((8, evidence.quiet), (6, evidence.six)):
        for method in METHOD_LABELS:
            for target in evidence.targets:
                rounds, seconds = setting[method].rounds_to(target), setting[method].seconds_to(target)
                theirs = _printed(method, target)
                (r25, r50, r75), (s25, s50, s75) = quartiles(rounds), quartiles(seconds)
                yield {
                    "period_s": period_s, "method": method, "target": target,
                    "paper_rounds": theirs[0], "rounds": r50, "rounds_q25": r25, "rounds_q75": r75,
                    "paper_seconds": theirs[1], "seconds": s50, "seconds_q25": s25, "seconds_q75": s75,
                    "reached": int(np.isfinite(rounds).sum()), "seeds": len(rounds),
                }  # fmt: skip


def _printed(method: str, target: float) -> tuple[float, float]:
    if method not in printed.TABLE or target not in printed.TARGETS:
        return math.nan, math.nan
    rounds, seconds = printed.TABLE[method][printed.TARGETS.index(target)]
    return float(rounds), seconds


def accuracy_rows(evidence: Evidence) -> Iterable[Facts]:
    """Final accuracy of every method in the paper's settings."""
    for name, setting in (
        ("-174 dBm/Hz, 8 s", evidence.quiet),
        ("-74 dBm/Hz, 8 s", evidence.loud),
        ("-174 dBm/Hz, 6 s", evidence.six),
    ):
        for method, curves in setting.items():
            low, middle, high = quartiles(curves.final_accuracy())
            yield {"setting": name, "method": method, "final_accuracy": middle, "q25": low, "q75": high}


def curve_rows(evidence: Evidence) -> Iterable[Facts]:
    """Mean over seeds, round by round: what Figs. 3 and 4 draw."""
    for name, setting in (("quiet", evidence.quiet), ("loud", evidence.loud)):
        for method, curves in setting.items():
            gap = evidence.gap(setting, method)
            for r in range(curves.accuracy.shape[1]):
                yield {
                    "setting": name, "method": method, "round": r, "time_s": float(np.mean(curves.time_s[:, r])),
                    "test_accuracy": float(np.mean(curves.accuracy[:, r])), "gap": float(np.mean(gap[:, r])),
                }  # fmt: skip


def noise_rows(evidence: Evidence) -> Iterable[Facts]:
    """Final accuracy of every series at every noise level."""
    for name, curve in evidence.noise.items():
        for level, accuracy in zip(curve.levels_dbm, curve.accuracy, strict=True):
            low, middle, high = quartiles(accuracy)
            yield {
                "series": name, "title": curve.title, "path_loss": curve.path_loss, "n0_dbm_per_hz": level,
                "final_accuracy": middle, "q25": low, "q75": high,
            }  # fmt: skip


def break_rows(evidence: Evidence) -> Iterable[Facts]:
    """At which noise density each series breaks."""
    for name, curve in evidence.noise.items():
        low, middle, high = quartiles(curve.breaks_dbm())
        yield {
            "series": name, "title": curve.title, "path_loss": curve.path_loss,
            "without_noise": median(curve.accuracy[0]),
            "breaks_at_dbm_per_hz": middle, "q25": low, "q75": high,
        }  # fmt: skip


def ablation_rows(cells: Cells) -> Iterable[Facts]:
    """Final accuracy and seconds to 70 and 80 % for every value of every ablation."""

    def row(kind: str, value: Any, method: str, cell: Any, label: str) -> Facts:
        low, middle, high = quartiles(final(cell, label))
        return {
            "ablation": kind, "value": value, "method": method, "final_accuracy": middle, "q25": low, "q75": high,
            **{f"seconds_to_{t:.0%}".replace("%", ""): quartiles(seconds_to(cell, label, t))[1] for t in (0.7, 0.8)},
        }  # fmt: skip

    for kind in ("period", "classes", "devices"):
        for _, value, cell in values_of(cells, kind):
            for label in cell.labels:
                yield row(kind, value, label, cell, label)
    for kind, method in (("omega", "paota"), ("beta", "paota"), ("beta-update", "paota-update")):
        for label in cells[kind].labels if kind in cells else ():
            yield row(kind.partition("-")[0], label, method, cells[kind], label)
    for method in METHOD_LABELS:
        swept = cells.get(f"eta-{method}")
        for label in swept.labels if swept is not None else ():
            yield row("eta", float(label), method, swept, label)


def optimum_rows(cells: Cells, scale: Scale) -> Iterable[Facts]:
    """F(w*) of each seed, and how finished its own search was, if it had one."""
    best = np.min(cells["optimum-crossed"].arrays["values"], axis=1)
    for lowest, seed in zip(best, seeds_of(scale), strict=True):
        search = cells.get(f"optimum-{seed}")
        own = {} if search is None else search.facts
        yield {"seed": seed, "best": lowest} | {
            key: own.get(key, math.nan) for key in ("value", "gradient_norm", "last_gain")
        }


def power_rows(cells: Cells, evidence: Evidence) -> Iterable[Facts]:
    """What every method radiates, how often it breaks the paper's own constraint (Eq. individual_power), and what is heard."""
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


def _power_row(setting: str, method: str, spent: Radiated, noise_std: float) -> Facts:
    return {
        "setting": setting, "method": method, "radiated_w": spent.median_w, "over_budget": spent.over_budget,
        "noise_std_a_weight": noise_std,
    }  # fmt: skip
