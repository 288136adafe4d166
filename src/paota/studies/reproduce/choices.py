"""What would have to be true? The choices that the paper leaves open or may have got wrong, searched for what it prints.

Two searches. For Table I the rounds to each target are fitted: every single choice first, then greedily one choice after
another. What the search has not seen judges it: other seeds, and the final accuracies of Fig. 4. For Fig. 3 at -74
dBm/Hz ("COTAF hurt, PAOTA not") all readings of the noise are tried on the noise sweep, under all assumptions about who pays for
the channel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...results.measures import median
from . import printed
from .catalogue import COTAF, LOCAL_SGD, LOUD_DBM, NO_NOISE_DBM, PAOTA, QUIET_DBM, Scale
from .cells import Cell
from .evidence import NoiseCurve
from .gather import Cells, accuracy_of
from .store import Stored

Compute = Callable[[Sequence[Cell]], Cells]  # computes what is missing, gives all by name
METHODS = ("paota", "local-sgd", "cotaf")
HELD_OUT_SEED = 1000  # the search never sees seeds from here on
STEPS = 2  # choices that are taken one after another
MOST_NEXT = 3  # that are tried beside the choices already taken: those that alone come nearest
LEAST_GAIN = 0.02  # of the distance; a step that gains less ends the search
HURT = 0.01  # a loss of accuracy below one point could not be seen
DRAFT_DBM = 10 * math.log10(printed.DRAFT_NOISE_W / 20e6) + 30  # that variance over 20 MHz


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One value of one open choice: what it changes for all, for the synchronous rivals, and for COTAF."""

    axis: str
    value: str
    table: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # sections of the experiment
    rivals: Mapping[str, Any] = field(default_factory=dict)
    cotaf: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """For the name of a folder."""
        return "-".join(re.findall(r"[a-z0-9.]+", f"{self.axis} {self.value}".lower()))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The paper's setting with some choices made, and how far it is from what the paper prints."""

    choices: tuple[Choice, ...]
    rounds: Mapping[
        str, tuple[float, ...]
    ]  # method -> rounds to each target, median over the seeds; infinite for never
    accuracy: Mapping[str, float]  # method -> at the end, median
    distance: float  # root mean square of ln(rounds / printed rounds), over methods and targets

    @property
    def words(self) -> str:
        """The choices as people read them."""
        return ", ".join(f"{c.axis} {c.value}" for c in self.choices) or "as this project reads the paper"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to read -174 and -74 dBm/Hz under one set of assumptions, with the points of accuracy that each loses."""

    noise: str
    assumptions: str
    loud_dbm: float
    quiet_cotaf: float  # lost at the reading of -174 dBm/Hz, 0 to 1
    quiet_paota: float
    loud_cotaf: float
    loud_paota: float

    @property
    def distance(self) -> float:
        """Points of accuracy by which the printed picture is missed: at -74 COTAF is hurt, nobody else ever is."""
        misses = [
            HURT - self.loud_cotaf,
            *(lost - HURT for lost in (self.loud_paota, self.quiet_paota, self.quiet_cotaf)),
        ]
        return sum(max(0.0, miss) for miss in misses)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the searches found: single choices and the greedy path as the search saw them, and both ends held out."""

    base: Candidate
    singles: Sequence[Candidate]
    path: Sequence[Candidate]
    held_out: Sequence[Candidate]  # the base and the end of the path, with seeds that the search has not seen
    readings: Sequence[Reading]


def choices(scale: Scale) -> list[Choice]:
    """Everything that is tried, axis by axis, beside the values in use. Path loss is among the readings of the noise."""
    made = [
        *(Choice(axis="eta", value=f"{v:g}", table={"training": {"learning_rate": v}}) for v in (0.03, 0.05, 0.2, 0.3)),
        *(Choice(axis="batch", value=f"{v}", table={"training": {"batch_size": v}}) for v in (8, 128)),
        Choice(axis="dT", value="6 s", table={"timing": {"period_s": 6.0}}),
        *(Choice(axis="participants", value=f"{v}", rivals={"participants": v}) for v in (10, 100)),
        Choice(axis="classes", value="2", table={"data": {"classes_per_device": 2}}),
        Choice(axis="latency", value="one for life", table={"timing": {"latency": "per-device"}}),
        Choice(axis="inputs", value="standardised", table={"data": {"normalise": "channel"}}),
        Choice(
            axis="noise", value="of the draft (0.1 W), COTAF inverts the fading", table={"air": {"n0_dbm_per_hz": DRAFT_DBM}},
            cotaf={"fading": True},
        ),
    ]  # fmt: skip
    return made[:2] if scale.quick else made


def search(scale: Scale, compute: Compute, noise: Mapping[str, NoiseCurve]) -> Found:
    """Both searches; `compute` is asked for all cells of a stage together, `noise` holds the lines of the noise sweep."""

    def tried(sets: Sequence[tuple[Choice, ...]], *, held_out: bool = False) -> list[Candidate]:
        cells = [cell_of(scale, each, held_out=held_out) for each in sets]
        made = compute(cells)
        return [candidate_of(made[cell.name], each) for cell, each in zip(cells, sets, strict=True)]

    base, *singles = tried([(), *((choice,) for choice in choices(scale))])
    best_of: dict[str, Candidate] = {}  # of each axis, the value that alone comes nearest
    for single in singles:
        axis = single.choices[0].axis
        best_of[axis] = min(best_of.get(axis, single), single, key=lambda c: c.distance)
    path = [base]
    while len(path) <= STEPS:
        here = path[-1]
        taken = {choice.axis for choice in here.choices}
        helps = sorted((c for axis, c in best_of.items() if axis not in taken), key=lambda c: c.distance)
        nexts = [(*here.choices, *c.choices) for c in helps[:MOST_NEXT] if c.distance < base.distance]
        best = min(tried(nexts), key=lambda c: c.distance, default=here)
        if best.distance >= here.distance * (1 - LEAST_GAIN):
            break
        path.append(best)
    held_out = tried([(), path[-1].choices], held_out=True)
    return Found(base=base, singles=singles, path=path, held_out=held_out, readings=list(readings(noise)))


def cell_of(scale: Scale, chosen: Sequence[Choice], *, held_out: bool = False) -> Cell:
    """The three methods of Table I with these choices made."""
    table: dict[str, Any] = {"rounds": scale.choice_rounds, "evaluation": {"every": 1, "train_loss": "batches"}}
    table |= {key: value for key, value in scale.base.items() if key != "targets"}
    entries = {"paota": dict(PAOTA), "local-sgd": dict(LOCAL_SGD), "cotaf": dict(COTAF)}
    for choice in chosen:
        for section, keys in choice.table.items():
            table[section] = {**table.get(section, {}), **keys}
        for method in ("local-sgd", "cotaf"):
            entries[method] |= choice.rivals
        entries["cotaf"] |= choice.cotaf
    table |= {"algorithms": list(entries.values()), "seed": HELD_OUT_SEED if held_out else 0}
    name = "+".join(["choices", *(["held-out"] if held_out else []), *(choice.id for choice in chosen)])
    return Cell(name=name, table=table, seeds=scale.choice_seeds)


def candidate_of(cell: Stored, chosen: tuple[Choice, ...]) -> Candidate:
    """Rounds to the paper's targets and final accuracies of a finished cell, and its distance from the print."""
    curves = {method: accuracy_of(cell, method) for method in METHODS}
    rounds = {m: tuple(median(c.rounds_to(target)) for target in printed.TARGETS) for m, c in curves.items()}
    never = 2.0 * (next(iter(curves.values())).accuracy.shape[1] - 1)  # counted as twice the run
    misses = [
        math.log(min(ours, never) / theirs)
        for method in METHODS
        for ours, (theirs, _) in zip(rounds[method], printed.TABLE[method], strict=True)
    ]
    return Candidate(
        choices=chosen,
        rounds=rounds,
        accuracy={method: median(c.final_accuracy()) for method, c in curves.items()},
        distance=math.sqrt(float(np.mean(np.square(misses)))),
    )


# How a power density may have been read: (words, dBm/Hz to what the noise then is in dBm/Hz over 20 MHz).
NOISES: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("as printed, in dBm/Hz", lambda n0: n0),
    ("in dBW/Hz (30 dB more)", lambda n0: n0 + 30),
    ("decibels of an amplitude (halved)", lambda n0: n0 / 2),
    ("variance 0.1 W of the draft for -74, none for -174", lambda n0: DRAFT_DBM if n0 == LOUD_DBM else NO_NOISE_DBM),
)
# (PAOTA's line of the noise sweep, COTAF's, the assumptions in words)
DUELS = (
    ("paota-paper", "cotaf", "PAOTA's cap as printed, COTAF without fading"),
    ("paota-paper", "cotaf-fading", "PAOTA's cap as printed, COTAF inverts the fading within 15 W"),
    ("paota-physical", "cotaf", "PAOTA within 15 W, COTAF without fading"),
    ("paota-physical", "cotaf-fading", "both within 15 W, COTAF inverts the fading"),
    ("paota-paper-far", "cotaf-fading-far", "path loss, PAOTA's cap as printed, COTAF within 15 W"),
    ("paota-physical-far", "cotaf-fading-far", "path loss, both within 15 W"),
)


def readings(noise: Mapping[str, NoiseCurve]) -> Iterable[Reading]:
    """Every reading of the noise under every set of assumptions whose lines of the noise sweep were run."""
    for words, read in NOISES:
        quiet, loud = read(QUIET_DBM), read(LOUD_DBM)
        for paota, cotaf, assumptions in DUELS:
            if paota in noise and cotaf in noise:
                yield Reading(
                    noise=words, assumptions=assumptions, loud_dbm=loud,
                    quiet_cotaf=lost_at(noise[cotaf], quiet), quiet_paota=lost_at(noise[paota], quiet),
                    loud_cotaf=lost_at(noise[cotaf], loud), loud_paota=lost_at(noise[paota], loud),
                )  # fmt: skip


def lost_at(curve: NoiseCurve, n0_dbm: float) -> float:
    """Accuracy that is lost at a noise density, mean over the seeds; straight between two levels, level beyond the ends."""
    mean = np.mean(curve.accuracy, axis=1)
    if n0_dbm <= curve.levels_dbm[0]:
        return 0.0
    return float(mean[0] - np.interp(n0_dbm, curve.levels_dbm[1:], mean[1:]))
