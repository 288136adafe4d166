"""Everything that is run: the paper's figures, and the sweeps that it should have shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...base.errors import unknown_name
from .cells import BOUND, CROSSED, OPTIMUM, Cell

PAPER_PERIOD_S, TABLE_PERIOD_S = 8.0, 6.0  # the text says 8 s, Table I implies 342 s / 57 rounds = 6 s
QUIET_DBM, LOUD_DBM = -174.0, -74.0
OPEN_CHOICES = "open-choices"  # the name of that part
FIRST_SEED = 2000  # of everything but the search: no rule, margin or default was chosen with seeds from here on
NO_NOISE_DBM = -300.0  # far below anything: what a method reaches without noise

PAOTA = {"name": "paota"}
UPDATE = {"name": "paota", "label": "paota-update", "payload": "update"}
LOCAL_SGD = {"name": "local-sgd"}
COTAF = {"name": "cotaf"}
METHODS = (PAOTA, UPDATE, LOCAL_SGD, COTAF)

# The noise sweep: (series, algorithm, its air and power, the noise levels at which something can happen).
# Each line has levels where it can break, close together there; -74 dBm/Hz and below hurt nobody without path loss.
WITHIN_DBM = (NO_NOISE_DBM, -74.0, -60.0, -55.0, -50.0, -45.0, -40.0)
QUIET_PAYLOAD_DBM = (NO_NOISE_DBM, -74.0, -40.0, -30.0, -25.0, -20.0)
ANY_POWER_DBM = (NO_NOISE_DBM, -74.0, -30.0, -20.0, -10.0)
FAR_DBM = (NO_NOISE_DBM, -174.0, -165.0, -155.0, -145.0, -135.0, -125.0, -115.0, -100.0, -74.0)
UNTOUCHED_DBM = (NO_NOISE_DBM, -40.0, -20.0, 0.0)  # as printed, a device pays any power: path loss cannot reach it
PATH_LOSS = {"path_loss": "log-distance"}
PRINTED = {"cap": "paper"}  # claims are judged as printed, unless a series says otherwise


@dataclass(frozen=True, kw_only=True)
class NoiseSeries:
    """One line of the noise sweep."""

    name: str
    title: str
    algorithm: Mapping[str, Any]
    air: Mapping[str, Any] = field(default_factory=dict)
    power: Mapping[str, Any] = field(default_factory=dict)
    levels_dbm: tuple[float, ...]

    @property
    def path_loss(self) -> bool:
        """Whether devices differ in distance."""
        return bool(self.air)


def noise_series() -> tuple[NoiseSeries, ...]:
    """All lines of the noise sweep: first without path loss, then with it."""
    physical, fading = {"cap": "physical"}, {**COTAF, "fading": True}
    named: tuple[tuple[str, str, Mapping[str, Any], Mapping[str, Any], tuple[float, ...]], ...] = (
        ("paota-paper", "PAOTA, cap as printed", PAOTA, {}, ANY_POWER_DBM),
        ("paota-physical", "PAOTA, physical cap", PAOTA, physical, WITHIN_DBM),
        ("paota-update-paper", "PAOTA (update), cap as printed", UPDATE, {}, ANY_POWER_DBM),
        ("paota-update-physical", "PAOTA (update), physical cap", UPDATE, physical, QUIET_PAYLOAD_DBM),
        ("cotaf", "COTAF as published (no fading)", COTAF, {}, QUIET_PAYLOAD_DBM),
        ("cotaf-fading", "COTAF, inverting the fading", fading, {}, WITHIN_DBM),
    )
    near = tuple(NoiseSeries(name=n, title=t, algorithm=a, power=p, levels_dbm=dbm) for n, t, a, p, dbm in named)
    # As published COTAF knows no channel gain, so path loss cannot reach it: only its fading form is drawn there.
    far = tuple(
        NoiseSeries(
            name=f"{n}-far", title=t, algorithm=a, power=p, air=PATH_LOSS,
            levels_dbm=FAR_DBM if p or n == "cotaf-fading" else UNTOUCHED_DBM,
        )
        for n, t, a, p, _ in named if n != "cotaf"
    )  # fmt: skip
    return near + far


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is run: the whole thing, or a smoke run."""

    seeds: int = 15
    sweep_seeds: int = 5  # of what no verdict depends on: ablations, learning rates, path loss
    rounds: int = 100
    sweep_rounds: int = 50
    noise_rounds: int = 30  # enough to see a method break
    base: Mapping[str, Any] = field(default_factory=lambda: {"power": PRINTED})
    periods_s: tuple[float, ...] = (4.0, 6.0, 8.0, 10.0, 12.0, 16.0)
    omegas: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 100.0)
    classes: tuple[int, ...] = (1, 2, 3, 5, 7, 10)
    devices: tuple[int, ...] = (20, 50, 100, 200)
    learning_rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    noise_levels: int | None = None  # the first so many of each series, spread; all of them
    searches: int = (
        3  # for F(w*), with the first so many seeds; the objectives of all seeds are judged at what they find
    )
    epochs: int = 60
    polish: int = 20
    bound_rounds: int = 20
    choice_seeds: int = 2  # of the search over open choices
    choice_rounds: int = 60
    quick: bool = False


def full(seeds: int | None = None) -> Scale:
    """What the paper's figures need."""
    seeds = seeds or Scale.seeds
    return Scale(seeds=seeds, sweep_seeds=min(seeds, Scale.sweep_seeds))


def quick(seeds: int | None = None) -> Scale:
    """A smoke run on small made-up data."""
    data = {"dataset": "synthetic", "devices": 20, "sizes": [30, 60, 90, 120, 150]}
    return Scale(
        seeds=seeds or 2, sweep_seeds=seeds or 2, rounds=20, sweep_rounds=12, noise_rounds=12,
        base={"power": PRINTED, "data": data, "targets": [0.5, 0.6, 0.7, 0.8]},
        periods_s=(6.0, 12.0), omegas=(1.0, 3.0), classes=(1, 5), devices=(10, 20), learning_rates=(0.03, 0.1),
        noise_levels=3, searches=1, epochs=3, polish=5, bound_rounds=3, choice_seeds=1, choice_rounds=8, quick=True,
    )  # fmt: skip


def check_parts(parts: Collection[str]) -> None:
    """Refuse a part that does not exist."""
    for part in parts:
        if part not in PARTS:
            raise unknown_name("part of the reproduction", part, PARTS)


def catalogue(scale: Scale, parts: Collection[str] = ()) -> list[Cell]:
    """The cells of the named parts (none: of all), the paper's own figures first; those are always among them."""
    check_parts(parts)
    chosen = [make for part, make in PARTS.items() if part == "paper" or not parts or part in parts]
    return list({cell.name: cell for make in chosen for cell in make(scale)}.values())


def paper_cells(scale: Scale) -> Iterable[Cell]:
    """Figs. 3 and 4 and Table I, and the searches for F(w*)."""
    every_round = {"every": 1, "train_loss": "objective"}
    for name, n0, period_s, methods in (
        ("quiet", QUIET_DBM, PAPER_PERIOD_S, METHODS),
        ("loud", LOUD_DBM, PAPER_PERIOD_S, (PAOTA, UPDATE, COTAF)),  # Local SGD has no channel
        ("six", QUIET_DBM, TABLE_PERIOD_S, METHODS),
    ):
        evaluation = every_round if name != "six" else {"every": 1, "train_loss": "batches"}
        table = {"rounds": scale.rounds, "air": {"n0_dbm_per_hz": n0}, "timing": {"period_s": period_s}}
        table |= {"evaluation": evaluation, "algorithms": list(methods)}
        yield replace(_cell(name, scale, table), devices=True)

    for seed in seeds_of(scale)[: scale.searches]:
        yield Cell(
            name=f"optimum-{seed}", kind=OPTIMUM, table={**scale.base, "seed": seed},
            options={"epochs": scale.epochs, "polish": scale.polish},
        )  # fmt: skip


def seeds_of(scale: Scale) -> range:
    """The seeds that verdicts are made from."""
    return range(FIRST_SEED, FIRST_SEED + scale.seeds)


def crossed_cell(scale: Scale) -> Cell:
    """Every seed's objective at the best model of every search: one that ended badly is helped by the others."""
    options = {"epochs": scale.epochs, "polish": scale.polish, "searches": min(scale.searches, scale.seeds)}
    table = {**scale.base, "seed": FIRST_SEED}
    return Cell(name="optimum-crossed", kind=CROSSED, table=table, seeds=scale.seeds, options=options)


def noise_cells(scale: Scale) -> Iterable[Cell]:
    """One cell a line of the noise sweep, with a label for every level."""
    for series in noise_series():
        entries = [
            {
                **series.algorithm, "label": level_label(series, n0),
                "air": {**series.air, "n0_dbm_per_hz": n0}, "power": dict(series.power),
            }
            for n0 in levels_of(series, scale)
        ]  # fmt: skip
        table = {"rounds": scale.noise_rounds, "evaluation": _seldom(10), "algorithms": entries}
        made = _cell(f"noise-{series.name}", scale, table)
        yield replace(made, seeds=scale.sweep_seeds) if series.path_loss else made


def levels_of(series: NoiseSeries, scale: Scale) -> tuple[float, ...]:
    """The noise levels of a series at this scale, in dBm/Hz."""
    levels = series.levels_dbm
    if scale.noise_levels is None:
        return levels
    return levels[:: max(1, len(levels) // scale.noise_levels)]


def level_label(series: NoiseSeries, n0: float) -> str:
    """The label of a series' algorithm at one noise level, in dBm/Hz."""
    return f"{series.algorithm.get('label', series.algorithm['name'])} at {n0:g}"


def ablation_cells(scale: Scale) -> Iterable[Cell]:
    """Cells named `KIND=VALUE` hold all methods at that value; labels are the plain method names."""
    dueling = [PAOTA, UPDATE, LOCAL_SGD]
    horizon_s = scale.sweep_rounds * PAPER_PERIOD_S
    for period_s in scale.periods_s:  # judged at equal simulated time, not at equal rounds
        table = {"duration_s": horizon_s, "timing": {"period_s": period_s}, "algorithms": [PAOTA, UPDATE]}
        made = _cell(f"period={period_s:g}", scale, {**table, "evaluation": _seldom(2)})
        yield replace(made, seeds=scale.sweep_seeds)
    entries = [{**PAOTA, "label": f"{omega:g}", "power": {"omega": omega}} for omega in scale.omegas]
    yield _sweep("omega", scale, entries)
    methods = ("exact", "staleness", "similarity", "uniform")
    yield _sweep("beta", scale, [{**PAOTA, "label": m, "power": {"method": m}} for m in methods])
    yield _sweep("beta-update", scale, [{**UPDATE, "label": m, "power": {"method": m}} for m in methods])
    for count in scale.classes:
        yield _sweep(f"classes={count}", scale, dueling, data={"classes_per_device": count})
    for count in scale.devices:
        yield _sweep(f"devices={count}", scale, dueling, data={"devices": count})
    for method in METHODS:
        label = str(method.get("label", method["name"]))
        entries = [{**method, "label": f"{eta:g}", "training": {"learning_rate": eta}} for eta in scale.learning_rates]
        yield _sweep(f"eta-{label}", scale, entries)


def theory_cells(scale: Scale) -> Iterable[Cell]:
    """Theorem 1 beside a run, with two learning rates."""
    for eta in (0.1, 0.001):  # the setting of all figures, and one for which Lemma 1 holds
        table = {
            **scale.base, "seed": FIRST_SEED, "rounds": scale.bound_rounds,
            "training": {"learning_rate": eta}, "algorithms": [PAOTA],
            "evaluation": {"every": scale.bound_rounds, "train_loss": "batches"},
        }  # fmt: skip
        yield Cell(
            name=f"bound-{eta:g}", kind=BOUND, table=table, options={"epochs": scale.epochs, "polish": scale.polish}
        )


PARTS: dict[str, Callable[[Scale], Iterable[Cell]]] = {
    "paper": paper_cells,
    "theory": theory_cells,
    "noise": noise_cells,
    "ablations": ablation_cells,
    OPEN_CHOICES: noise_cells,  # and a search: what it computes depends on what it has found so far
}


def _sweep(name: str, scale: Scale, entries: list[Any], *, data: Mapping[str, Any] | None = None) -> Cell:
    table: dict[str, Any] = {"rounds": scale.sweep_rounds, "evaluation": _seldom(3), "algorithms": entries}
    return replace(_cell(name, scale, {**table, "data": dict(data or {})}), seeds=scale.sweep_seeds)


def _cell(name: str, scale: Scale, table: Mapping[str, Any]) -> Cell:
    data = {**scale.base.get("data", {}), **table.get("data", {})}
    merged = {**scale.base, **table, "name": name, "seed": FIRST_SEED, "data": data}
    return Cell(name=name, table=merged, seeds=scale.seeds)


def _seldom(every: int) -> dict[str, Any]:
    return {"every": every, "train_loss": "batches"}
