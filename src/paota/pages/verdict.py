"""The sentences at the top of the page, computed from the runs by rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import markup
from .curves import last_before
from .figure import listing
from .learning import target_key
from .study import Series, Study, column, number
from .words import counted, percent, quantity, target_percent


def what_ran(study: Study) -> str:
    """One sentence of facts, as HTML."""
    seeds = {len(run.seeds) for run in study.runs}
    devices = {run.devices for run in study.runs}
    rounds = {int(column(series.metrics, "round").max()) for series in study.series}
    datasets = {_setting(run.settings, "data", "dataset") for run in study.runs}
    parts = [counted(len(study.runs), "run")] if study.several else []
    parts.append(counted(len({series.label for series in study.series}), "algorithm"))
    parts.append(_span(seeds, "seed"))
    if devices and None not in devices:
        parts.append(_span({count for count in devices if count is not None}, "device"))
    parts.append(_span(rounds, "round"))
    dataset = f" on {markup.name(next(iter(datasets)))}" if len(datasets) == 1 and datasets != {None} else ""
    return f"{listing(parts)}{dataset}."


def headline(study: Study) -> list[str]:
    """The findings, as HTML sentences: who is soonest, who is best in the end, what went wrong."""
    sentences = [_soonest(study), _best(study), *_diverged(study)]
    return [sentence for sentence in sentences if sentence]


def seconds_to(series: Series, target: float) -> float | None:
    """Median simulated seconds to the target."""
    times = series.summary.get("seconds_to", {}).get(target_key(target), {})
    return number(times.get("median"))


def _soonest(study: Study) -> str:
    """The highest target that anybody reached, who reached it first, and how far behind the others were."""
    for target in reversed(study.targets):
        times = {series.index: seconds_to(series, target) for series in study.series}
        reached = sorted((time, index) for index, time in times.items() if time is not None)
        if not reached:
            continue
        best_time, best = reached[0]
        sentence = (
            f"{_strong(study.series[best])} reaches {target_percent(target)} first, after "
            f"{quantity(best_time)} simulated seconds{_median_note(study)}"
        )
        behind = _beside([(study.series[index], time) for time, index in reached[1:4]], best_time)
        missing = [markup.name(series.name) for series in study.series if times[series.index] is None]
        if behind:
            sentence += ": " + listing(behind)
        if missing and len(study.series) > 1:
            sentence += f"; {listing(missing[:4])}{' and others' if len(missing) > 4 else ''} did not get there"
        return sentence + "."
    if study.targets:
        return f"Nobody reached {target_percent(study.targets[0])}, the lowest target."
    return ""


def _beside(others: list[tuple[Series, float]], best_s: float) -> list[str]:
    """`9 % sooner than a and b`, `20 % sooner than c`: how the first compares with those behind it."""
    groups: dict[str, list[str]] = {}
    for other, time_s in others:
        lead = "as soon as" if time_s <= best_s else f"{percent(1 - best_s / time_s, 0)} sooner than"
        groups.setdefault(lead, []).append(markup.name(other.name))
    return [f"{lead} {listing(names)}" for lead, names in groups.items()]


def _best(study: Study) -> str:
    finals = [(float(values.mean()), series) for series in study.series if len(values := final_accuracies(series))]
    if not finals:
        return ""
    best, series = max(finals, key=lambda found: found[0])
    sentence = f"The best final accuracy is {percent(best)}, by {_strong(series)}"
    equal = equal_time_accuracies(study)
    means = [(float(values.mean()), index) for index, values in equal.items() if len(values)]
    if len(means) > 1 and study.equal_time_s is not None:
        leading, index = max(means)
        who = "it leads too," if index == series.index else f"{_strong(study.series[index])} leads"
        sentence += f"; at the same simulated time ({quantity(study.equal_time_s)} s) {who} with {percent(leading)}"
    return sentence + "."


def final_accuracies(series: Series) -> np.ndarray:
    """Final test accuracy of each seed, as the summary has it, else read from the rows."""
    values = _summary_values(series.summary.get("final_accuracy"))
    return last_before(series.metrics, "test_accuracy", "round", np.inf) if values is None else values


def equal_time_accuracies(study: Study) -> dict[int, np.ndarray]:
    """Accuracy of each seed at the time that all series reached; the summary's own values where that is its time."""
    limit = study.equal_time_s
    if limit is None:
        return {}
    found = {}
    for series in study.series:
        own = study.runs[series.run].equal_time_s == limit
        values = _summary_values(series.summary.get("accuracy_at_equal_time")) if own else None
        found[series.index] = (
            last_before(series.metrics, "test_accuracy", "time_s", limit) if values is None else values
        )
    return found


def _summary_values(spread: Any) -> np.ndarray | None:
    if not isinstance(spread, Mapping) or "values" not in spread:
        return None
    return np.array([value for value in map(number, spread["values"]) if value is not None])


def _diverged(study: Study) -> list[str]:
    sentences = []
    for series in study.series:
        cases = series.summary.get("diverged") or []
        if cases:
            where = listing([f"seed {int(case['seed'])} in round {int(case['round'])}" for case in cases[:3]])
            more = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
            sentences.append(f"{_strong(series)} diverged ({where}{more}).")
    return sentences


def _median_note(study: Study) -> str:
    seeds = {len(run.seeds) for run in study.runs}
    if len(seeds) == 1 and (count := seeds.pop()) > 1:
        return f" (median of {count} seeds)"
    return ""


def _strong(series: Series) -> str:
    return f"<strong>{markup.name(series.name)}</strong>"


def _span(counts: set[int], noun: str) -> str:
    low, high = min(counts), max(counts)
    return counted(low, noun) if low == high else f"{low:,} to {high:,} {noun}s"


def _setting(settings: Mapping[str, Any], section: str, key: str) -> Any:
    found = settings.get(section)
    return found.get(key) if isinstance(found, Mapping) else None
