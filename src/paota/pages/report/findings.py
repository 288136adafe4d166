"""The sentences at the top of the page, computed from the runs by rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from ..curves import column, last_before, number
from ..words import counted, isolated, listing, percent, quantity, strong, target_percent
from .study import Entry, Study


def what_ran(study: Study) -> Markup:
    """One sentence of facts."""
    seeds = {len(run.seeds) for run in study.runs}
    devices = {run.devices for run in study.runs}
    rounds = {int(column(entry.metrics, "round").max()) for entry in study.entries}
    datasets = {run.dataset for run in study.runs}
    parts = [counted(len(study.runs), "run")] if study.several else []
    parts.append(counted(len({entry.label for entry in study.entries}), "algorithm"))
    parts.append(_span(seeds, "seed"))
    if devices and None not in devices:
        parts.append(_span({count for count in devices if count is not None}, "device"))
    parts.append(_span(rounds, "round"))
    known = len(datasets) == 1 and datasets != {None}
    dataset = Markup(" on {}").format(isolated(next(iter(datasets)))) if known else ""
    return Markup("{}{}.").format(listing(parts), dataset)


def headline(study: Study) -> list[Markup]:
    """The findings, as sentences: who is soonest, who is best in the end, what went wrong."""
    sentences = [_soonest(study), _best(study), *_diverged(study)]
    return [sentence for sentence in sentences if sentence]


def reach(entry: Entry, key: str, target: float) -> Mapping[str, Any]:
    """What the summary says of `rounds_to` or `seconds_to` a target: median, quartiles, seeds; {} if it says nothing."""
    times = (entry.summary.get(key) or {}).get(f"{target:g}")
    return times if isinstance(times, Mapping) else {}


def _soonest(study: Study) -> Markup:
    """The highest target that anybody reached, who reached it first, and how far behind the others were."""
    for target in reversed(study.targets):
        times = {entry.index: number(reach(entry, "seconds_to", target).get("median")) for entry in study.entries}
        reached = sorted((time, index) for index, time in times.items() if time is not None)
        if not reached:
            continue
        best_time, best = reached[0]
        behind = _beside([(study.entries[index], time) for time, index in reached[1:4]], best_time)
        missing = [isolated(entry.name) for entry in study.entries if times[entry.index] is None]
        others = f"{' and others' if len(missing) > 4 else ''} did not get there"
        return Markup("{} reaches {} first, after {} simulated seconds{}{}{}.").format(
            strong(study.entries[best].name),
            target_percent(target),
            quantity(best_time),
            _median_note(study),
            Markup(": {}").format(listing(behind)) if behind else "",
            Markup("; {}{}").format(listing(missing[:4]), others) if missing and len(study.entries) > 1 else "",
        )
    if study.targets:
        return Markup("Nobody reached {}, the lowest target.").format(target_percent(study.targets[0]))
    return Markup()


def _beside(others: list[tuple[Entry, float]], best_s: float) -> list[Markup]:
    """`9 % sooner than a and b`, `20 % sooner than c`: how the first compares with those behind it."""
    groups: dict[str, list[Markup]] = {}
    for other, time_s in others:
        lead = "as soon as" if time_s <= best_s else f"{percent(1 - best_s / time_s, 0)} sooner than"
        groups.setdefault(lead, []).append(isolated(other.name))
    return [Markup("{} {}").format(lead, listing(names)) for lead, names in groups.items()]


def _best(study: Study) -> Markup:
    finals = [(float(values.mean()), entry) for entry in study.entries if len(values := final_accuracies(entry))]
    if not finals:
        return Markup()
    best, entry = max(finals, key=lambda found: found[0])
    sentence = Markup("The best final accuracy is {}, by {}").format(percent(best), strong(entry.name))
    means = [(float(values.mean()), index) for index, values in equal_time_accuracies(study).items() if len(values)]
    if len(means) > 1 and study.equal_time_s is not None:
        leading, index = max(means)
        same = index == entry.index
        who = "it leads too," if same else Markup("{} leads").format(strong(study.entries[index].name))
        sentence += Markup("; at the same simulated time ({} s) {} with {}").format(
            quantity(study.equal_time_s), who, percent(leading)
        )
    return sentence + "."


def final_accuracies(entry: Entry) -> np.ndarray:
    """Final test accuracy of each seed, as the summary has it, else read from the rows."""
    values = _summary_values(entry.summary.get("final_accuracy"))
    return last_before(entry.metrics, "test_accuracy", "round", np.inf) if values is None else values


def equal_time_accuracies(study: Study) -> dict[int, np.ndarray]:
    """Accuracy of each seed at the time that all entry reached; the summary's own values where that is its time."""
    limit = study.equal_time_s
    if limit is None:
        return {}
    found = {}
    for entry in study.entries:
        own = study.runs[entry.run].equal_time_s == limit
        values = _summary_values(entry.summary.get("accuracy_at_equal_time")) if own else None
        found[entry.index] = last_before(entry.metrics, "test_accuracy", "time_s", limit) if values is None else values
    return found


def _summary_values(spread: Any) -> np.ndarray | None:
    if not isinstance(spread, Mapping) or "values" not in spread:
        return None
    return np.array([value for value in map(number, spread["values"]) if value is not None])


def _diverged(study: Study) -> list[Markup]:
    sentences = []
    for entry in study.entries:
        cases = entry.summary.get("diverged") or []
        if cases:
            where = listing([f"seed {int(case['seed'])} in round {int(case['round'])}" for case in cases[:3]])
            more = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
            sentences.append(Markup("{} diverged ({}{}).").format(strong(entry.name), where, more))
    return sentences


def _median_note(study: Study) -> str:
    seeds = {len(run.seeds) for run in study.runs}
    if len(seeds) == 1 and (count := seeds.pop()) > 1:
        return f" (median of {count} seeds)"
    return ""


def _span(counts: set[int], noun: str) -> str:
    low, high = min(counts), max(counts)
    return counted(low, noun) if low == high else f"{low:,} to {high:,} {noun}s"
