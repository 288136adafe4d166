"""The sentences at the top of the page, computed from the runs by rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from ...base.formatting import counted, isolated, listing, over_budget, percent, quantity, strong
from ...pages.curves import column, last_before, number
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
    """The findings, as sentences: who is soonest, who is best in the end, what went wrong.

    Nothing good is said of an algorithm that diverged with some seed, and those that the report shows as equal are equal.
    """
    sentences = [_soonest(study), _best(study), _served(study), *_diverged(study), *_over_budget(study)]
    return [sentence for sentence in sentences if sentence]


def sound(study: Study) -> list[Entry]:
    """The entries that diverged with no seed."""
    return [entry for entry in study.entries if not entry.summary.get("diverged")]


def reach(entry: Entry, key: str, target: float) -> Mapping[str, Any]:
    """What the summary says of `rounds_to` or `seconds_to` a target: median, quartiles, seeds; {} if it says nothing."""
    times = (entry.summary.get(key) or {}).get(f"{target:g}")
    return times if isinstance(times, Mapping) else {}


def _soonest(study: Study) -> Markup:
    """The highest target that anybody reached, who reached it first, and how far behind the others were."""
    entries = sound(study)
    for target in reversed(study.targets if entries else ()):
        times = {entry.index: number(reach(entry, "seconds_to", target).get("median")) for entry in entries}
        reached = sorted((time, index) for index, time in times.items() if time is not None)
        if not reached:
            continue
        best_time = reached[0][0]
        first = [study.entries[index] for time, index in reached if quantity(time) == quantity(best_time)]
        behind = _beside([(study.entries[index], time) for time, index in reached[len(first) :][:3]], best_time)
        missing = [isolated(entry.name) for entry in entries if times[entry.index] is None]
        others = f"{' and others' if len(missing) > 4 else ''} did not get there"
        return Markup("{} {}, after {} simulated seconds{}{}{}.").format(
            listing([strong(entry.name) for entry in first]),
            f"reaches {study.score.target(target)} first"
            if len(first) == 1
            else f"reach {study.score.target(target)} at the same time",
            quantity(best_time),
            _median_note(study),
            Markup(": {}").format(listing(behind)) if behind else "",
            Markup("; {}{}").format(listing(missing[:4]), others) if missing and len(entries) > 1 else "",
        )
    if study.targets and entries:
        return Markup("Nobody reached {}, the lowest target.").format(study.score.target(study.targets[0]))
    return Markup()


def _beside(others: list[tuple[Entry, float]], best_s: float) -> list[Markup]:
    """`9 % sooner than a and b`, `20 % sooner than c`: how the first compares with those behind it."""
    groups: dict[str, list[Markup]] = {}
    for other, time_s in others:
        lead = f"{percent(1 - best_s / time_s, 0 if best_s < 0.995 * time_s else 1)} sooner than"
        groups.setdefault(lead, []).append(isolated(other.name))
    return [Markup("{} {}").format(lead, listing(names)) for lead, names in groups.items()]


def _best(study: Study) -> Markup:
    able = {entry.index for entry in sound(study)}
    finals = {entry.index: values for entry in study.entries if len(values := final_accuracies(entry))}
    best, leaders = _leaders(study, {index: values for index, values in finals.items() if index in able})
    if not leaders:
        return Markup()
    name = study.score.name
    sentence = Markup("The best final {} is {}, by {}").format(name, study.score.show(best), _named(leaders))
    equal = {index: values for index, values in equal_time_accuracies(study).items() if index in able and len(values)}
    if len(equal) > 1 and study.equal_time_s is not None:
        leading, first = _leaders(study, equal)
        same = [entry.index for entry in first] == [entry.index for entry in leaders]
        verb = "leads" if len(first) == 1 else "lead"
        who = (
            f"{'it leads' if len(first) == 1 else 'they lead'} too,"
            if same
            else Markup("{} {}").format(_named(first), verb)
        )
        sentence += Markup("; at the same simulated time ({} s) {} with {}").format(
            quantity(study.equal_time_s), who, study.score.show(leading)
        )
    return sentence + "."


def _leaders(study: Study, values: Mapping[int, np.ndarray]) -> tuple[float, list[Entry]]:
    """The highest mean over the seeds, and every entry that is shown with the same number."""
    means = {index: float(each.mean()) for index, each in values.items()}
    best = max(means.values(), default=float("nan"))
    return best, [
        study.entries[index] for index, mean in means.items() if study.score.show(mean) == study.score.show(best)
    ]


def _named(entries: list[Entry]) -> Markup:
    names = [strong(entry.name) for entry in entries]
    return listing(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} others"])


def _served(study: Study) -> Markup:
    """Whom the final models serve worst: the lowest tenth of the devices on their own kind of data."""
    worst = {entry.index: number(served(entry, "worst_tenth").get("mean")) for entry in sound(study)}
    known = {index: np.array([value]) for index, value in worst.items() if value is not None}
    if not known:
        return Markup()
    best, leaders = _leaders(study, known)
    sentence = Markup("On its own kind of data the worst tenth of the devices sees {}").format(study.score.show(best))
    if len(leaders) < len(known):
        last = min(known, key=lambda index: float(known[index][0]))
        lowest = study.score.show(float(known[last][0]))
        sentence += Markup(" with {}, and {} with {}").format(_named(leaders), lowest, strong(study.entries[last].name))
    return sentence + "."


def served(entry: Entry, key: str) -> Mapping[str, Any]:
    """What the summary says of `worst_tenth`, `best_tenth` or `deviation` over the devices; {} if it says nothing."""
    found = (entry.summary.get("devices") or {}).get(key)
    return found if isinstance(found, Mapping) else {}


def final_accuracies(entry: Entry) -> np.ndarray:
    """Final test accuracy of each seed, as the summary has it, else read from the rows."""
    values = _summary_values(entry.summary.get("final_accuracy"))
    return last_before(entry.metrics, "test_accuracy", "round", np.inf) if values is None else values


def equal_time_accuracies(study: Study) -> dict[int, np.ndarray]:
    """Accuracy of each seed at the time that all entries reached; the summary's own values where that is its time."""
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
            everyone = len(cases) == len(entry.seeds) > 1
            where = listing([f"seed {int(case['seed'])} in round {int(case['round'])}" for case in cases[:3]])
            more = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
            whose = " with every seed" if everyone else ""
            sentences.append(Markup("{} diverged{} ({}{}).").format(strong(entry.name), whose, where, more))
    return sentences


def _over_budget(study: Study) -> list[Markup]:
    """A sentence for each entry whose devices radiate more than they may."""
    found = [(entry, entry.summary.get("over_budget")) for entry in study.entries]
    return [Markup("{} {}.").format(strong(entry.name), over_budget(over)) for entry, over in found if over]


def _median_note(study: Study) -> str:
    seeds = {len(run.seeds) for run in study.runs}
    if len(seeds) == 1 and (count := seeds.pop()) > 1:
        return f" (median of {count} seeds)"
    return ""


def _span(counts: set[int], noun: str) -> str:
    low, high = min(counts), max(counts)
    return counted(low, noun) if low == high else f"{low:,} to {high:,} {noun}s"
