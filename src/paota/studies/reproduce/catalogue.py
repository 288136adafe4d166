"""The catalogue of all cells: the paper's figures, Theorem 1, the noise sweep and the ablations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ...base.errors import unknown_name
from ...base.types import Settings
from .cells import BOUND, CROSSED, OPTIMUM, Cell

PAPER_PERIOD_S, TABLE_PERIOD_S = 8.0, 6.0  # the text says 8 s, Table I implies 342 s / 57 rounds = 6 s
QUIET_DBM, LOUD_DBM = -174.0, -74.0
FIRST_SEED = 2000  # no rule, margin or default was chosen with seeds from here on
NO_NOISE_DBM = -300.0  # stands for no noise

PAOTA = {"name": "paota"}
UPDATE = {"name": "paota", "label": "paota-update", "payload": "update"}
LOCAL_SGD = {"name": "local-sgd"}
COTAF = {"name": "cotaf"}
METHODS = (PAOTA, UPDATE, LOCAL_SGD, COTAF)

# Noise levels of the sweep, in dBm/Hz. They are dense where a series can break. Without path loss, levels of -74 dBm/Hz
# and below change nothing.
WITHIN_DBM = (NO_NOISE_DBM, -74.0, -60.0, -55.0, -50.0, -45.0, -40.0)
QUIET_PAYLOAD_DBM = (NO_NOISE_DBM, -74.0, -40.0, -30.0, -25.0, -20.0)
ANY_POWER_DBM = (NO_NOISE_DBM, -74.0, -30.0, -20.0, -10.0)
FAR_DBM = (NO_NOISE_DBM, -174.0, -165.0, -155.0, -145.0, -135.0, -125.0, -115.0, -100.0, -74.0)
UNTOUCHED_DBM = (NO_NOISE_DBM, -40.0, -20.0, 0.0)  # as printed, a device pays any power: path loss has no effect
PATH_LOSS = {"path_loss": "log-distance"}
PRINTED = {"cap": "paper"}  # claims are judged as printed, unless a series sets another cap


@dataclass(frozen=True)
class NoiseSeries:
    """One line of the noise sweep."""

    name: str
    title: str
    algorithm: Settings
    levels_dbm: tuple[float, ...]
    air: Settings = field(default_factory=dict)
    power: Settings = field(default_factory=dict)

    @property
    def path_loss(self) -> bool:
        """True if the devices differ in distance."""
        return bool(self.air)


def noise_series() -> tuple[NoiseSeries, ...]:
    """Return all lines of the noise sweep: first without path loss, then with it."""
    physical, fading = {"cap": "physical"}, {**COTAF, "fading": True}
    near = [
        NoiseSeries("paota-paper", "PAOTA, cap as printed", PAOTA, ANY_POWER_DBM),
        NoiseSeries("paota-physical", "PAOTA, physical cap", PAOTA, WITHIN_DBM, power=physical),
        NoiseSeries("paota-update-paper", "PAOTA (update), cap as printed", UPDATE, ANY_POWER_DBM),
        NoiseSeries("paota-update-physical", "PAOTA (update), physical cap", UPDATE, QUIET_PAYLOAD_DBM, power=physical),
        NoiseSeries("cotaf", "COTAF as published (no fading)", COTAF, QUIET_PAYLOAD_DBM),
        NoiseSeries("cotaf-fading", "COTAF, inverting the fading", fading, WITHIN_DBM),
    ]
    # Published COTAF uses no channel gain, so path loss does not affect it: only its fading form appears there.
    far = [
        replace(s, name=f"{s.name}-far", air=PATH_LOSS, levels_dbm=UNTOUCHED_DBM if "paper" in s.name else FAR_DBM)
        for s in near if s.name != "cotaf"
    ]  # fmt: skip
    return *near, *far


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The amount of computation: numbers of seeds and rounds, and the values of every sweep."""

    seeds: int = 15
    sweep_seeds: int = 5  # of the parts that no verdict depends on: ablations, learning rates, path loss
    rounds: int = 100
    sweep_rounds: int = 50
    noise_rounds: int = 30  # enough to see a method break
    base: Settings = field(default_factory=lambda: {"power": PRINTED})
    periods_s: tuple[float, ...] = (4.0, 6.0, 8.0, 10.0, 12.0, 16.0)
    omegas: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 100.0)
    classes: tuple[int, ...] = (1, 2, 3, 5, 7, 10)
    devices: tuple[int, ...] = (20, 50, 100, 200)
    learning_rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    noise_levels: int | None = None  # the approximate number of levels of each series (default: all)
    searches: int = 3  # for F(w*), with the first seeds; the objectives of all seeds are evaluated at their results
    epochs: int = 60
    polish: int = 20
    bound_rounds: int = 20
    quick: bool = False

    @property
    def search(self) -> dict[str, int]:
        """The options of a search for F(w*)."""
        return {"epochs": self.epochs, "polish": self.polish}


def full(seeds: int | None = None) -> Scale:
    """Return the scale of the paper's figures, with `seeds` repetitions (default 15)."""
    seeds = seeds or Scale.seeds
    return Scale(seeds=seeds, sweep_seeds=min(seeds, Scale.sweep_seeds))


def quick(seeds: int | None = None) -> Scale:
    """Return the scale of a smoke run on small synthetic data."""
    data = {"dataset": "synthetic", "devices": 20, "sizes": [30, 60, 90, 120, 150]}
    return Scale(
        seeds=seeds or 2, sweep_seeds=seeds or 2, rounds=20, sweep_rounds=12, noise_rounds=12,
        base={"power": PRINTED, "data": data}, periods_s=(6.0, 12.0),
        omegas=(1.0, 3.0), classes=(1, 5), devices=(10, 20), learning_rates=(0.03, 0.1),
        noise_levels=3, searches=1, epochs=3, polish=5, bound_rounds=3, quick=True,
    )  # fmt: skip


def check_parts(parts: Collection[str]) -> None:
    """Raise a `UserError` for a part that does not exist."""
    for part in parts:
        if part not in PARTS:
            raise unknown_name("part of the reproduction", part, PARTS)


def catalogue(scale: Scale, parts: Collection[str] = ()) -> list[Cell]:
    """Return the cells of the named parts (default: all). The paper's own figures come first and are always included."""
    check_parts(parts)
    chosen = [make for part, make in PARTS.items() if part == "paper" or not parts or part in parts]
    return [cell for make in chosen for cell in make(scale)]


def paper_cells(scale: Scale) -> Iterable[Cell]:
    """Yield the cells of Figs. 3 and 4 and Table I, and the searches for F(w*)."""
    every_round = {"every": 1, "train_loss": "objective"}
    for name, n0, period_s, methods in (
        ("quiet", QUIET_DBM, PAPER_PERIOD_S, METHODS),
        ("loud", LOUD_DBM, PAPER_PERIOD_S, (PAOTA, UPDATE, COTAF)),  # Local SGD has no channel
        ("six", QUIET_DBM, TABLE_PERIOD_S, METHODS),
    ):
        evaluation = every_round if name != "six" else {"every": 1, "train_loss": "batches"}
        table = {"rounds": scale.rounds, "air": {"n0_dbm_per_hz": n0}, "timing": {"period_s": period_s}}
        table |= {"evaluation": evaluation, "algorithms": list(methods)}
        yield _cell(name, scale, table, devices=True)

    for seed in seeds_of(scale)[: scale.searches]:
        table = {**scale.base, "seed": seed}
        yield Cell(name=f"optimum-{seed}", kind=OPTIMUM, table=table, options=scale.search)


def seeds_of(scale: Scale) -> range:
    """Return the seeds of the verdicts."""
    return range(FIRST_SEED, FIRST_SEED + scale.seeds)


def crossed_cell(scale: Scale) -> Cell:
    """Return the cell with every seed's objective at the best model of every search, so that no bad search counts."""
    options = {**scale.search, "searches": min(scale.searches, scale.seeds)}
    table = {**scale.base, "seed": FIRST_SEED}
    return Cell(name="optimum-crossed", kind=CROSSED, table=table, seeds=scale.seeds, options=options)


def noise_cells(scale: Scale) -> Iterable[Cell]:
    """Yield one cell per line of the noise sweep, with a label for every level."""
    for series in noise_series():
        entries = [
            {
                **series.algorithm, "label": level_label(series, n0),
                "air": {**series.air, "n0_dbm_per_hz": n0}, "power": dict(series.power),
            }
            for n0 in levels_of(series, scale)
        ]  # fmt: skip
        table = {"rounds": scale.noise_rounds, "evaluation": _seldom(10), "algorithms": entries}
        yield _cell(f"noise-{series.name}", scale, table, seeds=scale.sweep_seeds if series.path_loss else scale.seeds)


def levels_of(series: NoiseSeries, scale: Scale) -> tuple[float, ...]:
    """Return the noise levels of a series at this scale, in dBm/Hz."""
    levels = series.levels_dbm
    return levels[:: max(1, len(levels) // (scale.noise_levels or len(levels)))]


def level_label(series: NoiseSeries, n0: float) -> str:
    """Return the label of a series' algorithm at one noise level, in dBm/Hz."""
    return f"{series.algorithm.get('label', series.algorithm['name'])} at {n0:g}"


def ablation_cells(scale: Scale) -> Iterable[Cell]:
    """Yield the ablations. A cell named `KIND=VALUE` holds all methods at that value, with their names as labels."""
    compared = [PAOTA, UPDATE, LOCAL_SGD]
    horizon_s = scale.sweep_rounds * PAPER_PERIOD_S
    for period_s in scale.periods_s:  # compared at equal simulated time, not at equal rounds
        table = {"duration_s": horizon_s, "timing": {"period_s": period_s}, "algorithms": [PAOTA, UPDATE]}
        yield _cell(f"period={period_s:g}", scale, {**table, "evaluation": _seldom(2)}, seeds=scale.sweep_seeds)
    entries = [{**PAOTA, "label": f"{omega:g}", "power": {"omega": omega}} for omega in scale.omegas]
    yield _sweep("omega", scale, entries)
    methods = ("exact", "staleness", "similarity", "uniform")
    yield _sweep("beta", scale, [{**PAOTA, "label": m, "power": {"method": m}} for m in methods])
    yield _sweep("beta-update", scale, [{**UPDATE, "label": m, "power": {"method": m}} for m in methods])
    for count in scale.classes:
        yield _sweep(f"classes={count}", scale, compared, data={"classes_per_device": count})
    for count in scale.devices:
        yield _sweep(f"devices={count}", scale, compared, data={"devices": count})
    for method in METHODS:
        label = str(method.get("label", method["name"]))
        entries = [{**method, "label": f"{eta:g}", "training": {"learning_rate": eta}} for eta in scale.learning_rates]
        yield _sweep(f"eta-{label}", scale, entries)


def theory_cells(scale: Scale) -> Iterable[Cell]:
    """Yield Theorem 1 beside a run, with two learning rates."""
    for eta in (0.1, 0.001):  # the setting of all figures, and one for which Lemma 1 holds
        table = {
            **scale.base, "seed": FIRST_SEED, "rounds": scale.bound_rounds,
            "training": {"learning_rate": eta}, "algorithms": [PAOTA],
            "evaluation": {"every": scale.bound_rounds, "train_loss": "batches"},
        }  # fmt: skip
        yield Cell(name=f"bound-{eta:g}", kind=BOUND, table=table, options=scale.search)


PARTS: dict[str, Callable[[Scale], Iterable[Cell]]] = {
    "paper": paper_cells,
    "theory": theory_cells,
    "noise": noise_cells,
    "ablations": ablation_cells,
}


def _sweep(name: str, scale: Scale, entries: Sequence[Settings], *, data: Settings | None = None) -> Cell:
    table = {"rounds": scale.sweep_rounds, "evaluation": _seldom(3), "algorithms": entries}
    return _cell(name, scale, {**table, "data": dict(data or {})}, seeds=scale.sweep_seeds)


def _cell(name: str, scale: Scale, table: Settings, *, seeds: int | None = None, devices: bool = False) -> Cell:
    data = {**scale.base.get("data", {}), **table.get("data", {})}
    merged = {**scale.base, **table, "name": name, "seed": FIRST_SEED, "data": data}
    return Cell(name=name, table=merged, seeds=seeds or scale.seeds, devices=devices)


def _seldom(every: int) -> dict[str, object]:
    return {"every": every, "train_loss": "batches"}
