"""The answer of a report: the sentences at its top, with their caveats, and the results table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from markupsafe import Markup

from ...base.formatting import Score, counted, isolated, listing, over_budget, percent, quantity, strong
from ...base.types import Settings
from ...pages.curves import column, number
from ...pages.page import Table, TableCell, TableRow
from ...results import measures
from ...results.inference import FEWEST_SEEDS
from .study import Entry, Study

NOTHING = TableCell(text="–", muted=True)


def what_ran(study: Study) -> Markup:
    """Return one sentence about the size of the study."""
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
    """Return the findings: the first to reach a target, the best final score, then divergence and power budgets.

    An algorithm that diverged with some seed is never named as the best. Values that look equal in the report are ties.
    """
    sentences = [_soonest(study), _best(study), _on_devices(study), *_diverged(study), *_over_budget(study)]
    return [sentence for sentence in sentences if sentence]


def caveats(study: Study) -> list[str]:
    """Return a sentence if the study has too few seeds to compare its algorithms."""
    fewest = min(len(entry.seeds) for entry in study.entries)
    if len(study.entries) == 1 or fewest >= FEWEST_SEEDS:
        return []
    return [f"With {counted(fewest, 'seed')} the order may be chance; use at least {FEWEST_SEEDS} seeds to compare."]


def sound(study: Study) -> list[Entry]:
    """Return the entries that diverged with no seed."""
    return [entry for entry in study.entries if not entry.summary.get("diverged")]


def reach(entry: Entry, key: str, target: float) -> Settings:
    """Return median, quartiles and number of seeds of `rounds_to` or `seconds_to` a target; {} for an unknown target."""
    times: Settings = entry.summary.get(key, {}).get(f"{target:g}", {})
    return times


def reached_targets(study: Study) -> list[float]:
    """Return the targets that some entry reaches with some seed."""
    return [
        target
        for target in study.targets
        if any(reach(entry, "seconds_to", target).get("reached") for entry in study.entries)
    ]


def _soonest(study: Study) -> Markup:
    """Return the first to reach the highest target that some entry reaches, and its lead over the others."""
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
        others = f"{' and others' if len(missing) > 4 else ''} did not reach it"
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
        return Markup("No algorithm reached {}, the lowest target.").format(study.score.target(study.targets[0]))
    return Markup()


def _beside(others: list[tuple[Entry, float]], best_s: float) -> list[Markup]:
    """Return the lead of the first over the others: `9 % sooner than a and b`, `20 % sooner than c`."""
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
        verb = "leads" if len(first) == 1 else "lead"
        sentence += Markup("; at the same simulated time ({} s) {} {} with {}").format(
            quantity(study.equal_time_s), _named(first), verb, study.score.show(leading)
        )
    return sentence + "."


def _leaders(study: Study, values: Mapping[int, np.ndarray]) -> tuple[float, list[Entry]]:
    """Return the highest mean over the seeds, and every entry that shows the same number."""
    means = {index: float(each.mean()) for index, each in values.items()}
    best = max(means.values(), default=float("nan"))
    return best, [
        study.entries[index] for index, mean in means.items() if study.score.show(mean) == study.score.show(best)
    ]


def _named(entries: list[Entry]) -> Markup:
    names = [strong(entry.name) for entry in entries]
    return listing(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} others"])


def _on_devices(study: Study) -> Markup:
    """Return the score of the worst tenth of the devices on data like their own."""
    worst = {entry.index: number(over_devices(entry, "worst_tenth").get("mean")) for entry in sound(study)}
    known = {index: np.array([value]) for index, value in worst.items() if value is not None}
    if not known:
        return Markup()
    best, leaders = _leaders(study, known)
    sentence = Markup("On the devices' own data the worst tenth of them reaches {}").format(study.score.show(best))
    if len(leaders) < len(known):
        last = min(known, key=lambda index: float(known[index][0]))
        lowest = study.score.show(float(known[last][0]))
        sentence += Markup(" with {}, and {} with {}").format(_named(leaders), lowest, strong(study.entries[last].name))
    return sentence + "."


def over_devices(entry: Entry, key: str) -> Settings:
    """Return the summary of `worst_tenth`, `best_tenth` or `deviation` over the devices; {} where it has none."""
    found: Settings = entry.summary.get("devices", {}).get(key, {})
    return found


def final_accuracies(entry: Entry) -> np.ndarray:
    """Return the final test accuracy of each seed that has one."""
    return accuracies_at(entry, np.inf, "round")


def accuracies_at(entry: Entry, limit: float, along: str = "time_s") -> np.ndarray:
    """Return the newest test accuracy of each seed when the column `along` has reached `limit`."""
    values = np.array([measures.accuracy_at(run, limit, along) for run in entry.trajectories])
    known: np.ndarray = values[np.isfinite(values)]
    return known


def equal_time_accuracies(study: Study) -> dict[int, np.ndarray]:
    """Return the accuracies of each entry's seeds at the simulated time that all entries reached."""
    limit = study.equal_time_s
    return {} if limit is None else {entry.index: accuracies_at(entry, limit * (1 + 1e-12)) for entry in study.entries}


def _diverged(study: Study) -> list[Markup]:
    sentences = []
    for entry in study.entries:
        cases = entry.summary.get("diverged") or []
        if cases:
            where = listing([f"seed {int(case['seed'])} in round {int(case['round'])}" for case in cases[:3]])
            more = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
            seeds = " with every seed" if len(cases) == len(entry.seeds) > 1 else ""
            sentences.append(Markup("{} diverged{} ({}{}).").format(strong(entry.name), seeds, where, more))
    return sentences


def _over_budget(study: Study) -> list[Markup]:
    """Return a sentence for each entry whose devices exceed their power budget."""
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


@dataclass(frozen=True)
class _Column:
    """Cells with their scores: larger is better, None cannot be the best."""

    group: str
    head: str
    cells: list[tuple[TableCell, float | None]]

    def marked(self) -> list[TableCell]:
        """Return the cells with the best one in bold, and with it every cell that shows the same number."""
        scored = [(score, cell.text) for cell, score in self.cells if score is not None]
        best = max(scored)[1] if len(self.cells) > 1 and scored else None
        return [replace(cell, bold=score is not None and cell.text == best) for cell, score in self.cells]


def results_table(study: Study) -> Table:
    """Return accuracies, then rounds and seconds to each target that was reached; the best of each column is bold."""
    columns = [*_score_columns(study), *_device_columns(study), *_target_columns(study)]
    rows = zip(*(column.marked() for column in columns), strict=True)
    return Table(
        label="Results table",
        heads=["Algorithm", *(column.head for column in columns)],
        groups=[(group, len(list(inside))) for group, inside in groupby(column.group for column in columns)],
        rows=[
            TableRow(head=_head(entry), cells=cells, series=entry.index)
            for entry, cells in zip(study.entries, rows, strict=True)
        ],
    )


def _head(entry: Entry) -> TableCell:
    cases, over = entry.summary.get("diverged"), entry.summary.get("over_budget")
    badge = f"diverged in {counted(len(cases), 'seed')}" if cases else "over the power budget" if over else ""
    return TableCell(text=entry.name, badge=badge)


def _score_columns(study: Study) -> list[_Column]:
    group = f"Test {study.score.name}"
    last_rounds = [_last_evaluated_round(entry) for entry in study.entries]
    common = min((last for last in last_rounds if last is not None), default=None)
    uneven = len(set(last_rounds)) > 1
    final = "final" if uneven or common is None else f"final, after {counted(common, 'round')}"
    columns = [_Column(group, final, [_mean(entry, final_accuracies(entry), study.score) for entry in study.entries])]
    if uneven and common is not None:
        found = [accuracies_at(entry, common, "round") for entry in study.entries]
        cells = [_mean(entry, values, study.score) for entry, values in zip(study.entries, found, strict=True)]
        columns.append(_Column(group, f"after {counted(common, 'round')}", cells))
    if study.equal_time_s is not None:
        equal = equal_time_accuracies(study)
        cells = [_mean(entry, equal[entry.index], study.score) for entry in study.entries]
        columns.append(_Column(group, f"after {quantity(study.equal_time_s)} s", cells))
    return columns


def _device_columns(study: Study) -> list[_Column]:
    """Return the score of the worst tenth of the devices on their own data, and the deviation over the devices."""
    group = "On devices' own data"
    if not any(over_devices(entry, "worst_tenth") for entry in study.entries):
        return []
    worst = [_mean(entry, _seed_values(over_devices(entry, "worst_tenth")), study.score) for entry in study.entries]
    apart = [_apart(_seed_values(over_devices(entry, "deviation")), study.score) for entry in study.entries]
    return [_Column(group, "worst tenth", worst), _Column(group, "standard deviation", apart)]


def _seed_values(spread: Settings) -> np.ndarray:
    return np.array([value for value in map(number, spread.get("values", ())) if value is not None])


def _apart(values: np.ndarray, score: Score) -> tuple[TableCell, float | None]:
    if not len(values):
        return NOTHING, None
    mean = float(values.mean())
    return TableCell(text=f"{100 * mean:.1f} points" if score.is_share else f"{mean:.2g}"), None


def _last_evaluated_round(entry: Entry) -> int | None:
    """Return the last round for which every seed of the entry has a test accuracy or a later one."""
    lasts = [run.metrics["round"][np.isfinite(column(run.metrics, "test_accuracy"))] for run in entry.trajectories]
    return min((int(rounds.max()) for rounds in lasts if len(rounds)), default=None)


def _mean(entry: Entry, values: np.ndarray, score: Score) -> tuple[TableCell, float | None]:
    """Return mean and standard deviation over the seeds; an entry that diverged with a seed cannot be the best."""
    if not len(values):
        return NOTHING, None
    mean, deviation = float(values.mean()), float(values.std())
    spread = [f"± {100 * deviation:.1f}" if score.is_share else f"± {deviation:.2g}"] if len(values) > 1 else []
    return TableCell(text=score.show(mean), notes=spread), None if entry.summary.get("diverged") else mean


def _target_columns(study: Study) -> list[_Column]:
    return [
        _Column(
            group, study.score.target(target), [_time_cell(entry, reach(entry, key, target)) for entry in study.entries]
        )
        for key, group in (("rounds_to", "Rounds to"), ("seconds_to", "Simulated seconds to"))
        for target in reached_targets(study)
    ]


def _time_cell(entry: Entry, time: Settings) -> tuple[TableCell, float | None]:
    """Return median and quartiles, and the number of seeds if some failed; a dash for a target of another run."""
    if not time:
        return NOTHING, None
    seeds, reached = len(entry.seeds), time.get("reached")
    some = [f"{reached} of {seeds} seeds"] if reached and reached < seeds else []
    median, low, high = (number(time.get(key)) for key in ("median", "q25", "q75"))
    if median is None:
        return TableCell(text="not reached", muted=True, notes=some), None
    spread = [f"{quantity(low)}–{quantity(high)}"] if seeds > 1 and low is not None and high is not None else []
    return TableCell(text=quantity(median), notes=spread + some), None if entry.summary.get("diverged") else -median
