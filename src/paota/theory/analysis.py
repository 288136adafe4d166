"""Theorem 1 beside a real run: constants, every term of every round, both forms of the bound, and the measured gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..air.uplink import noise_power_w
from ..errors import UserError
from ..experiment import Contestant, Experiment
from ..runs.files import Columns
from ..server.optimisers import NoOptimiser
from . import theorem
from .estimate import Path, constants_of, walk
from .landscape import Landscape
from .optimum import Optimum, minimise
from .recording import Record, chosen_of, record
from .theorem import FORMS, Constants, Form, System, Terms


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What Theorem 1 says about one run. Arrays run over rounds 0..R-1 (terms) or models 0..R (gap, bounds)."""

    record: Record
    path: Path
    optimum: Optimum
    constants: Constants
    system: System
    terms: dict[Form, Terms]
    bounds: dict[Form, NDArray[np.float64]]

    @property
    def gap(self) -> NDArray[np.float64]:
        """F(w^r) - F(w*), measured, r = 0..R."""
        return self.path.values - self.optimum.value

    @property
    def descent(self) -> float:
        return theorem.descent(self.constants, self.system)

    def sentences(self) -> list[str]:
        """What follows, in words: does the theorem apply, does it promise anything, does it hold."""
        return list(_sentences(self))

    def table(self) -> Columns:
        """One row a round: measured gap, the printed and the corrected bound, and (a) to (e) of both forms."""
        columns: Columns = {
            "round": np.arange(len(self.gap)),
            "gap": self.gap,
            "gradient_square": np.sum(self.path.gradients**2, axis=1),
        }
        for form in FORMS:
            columns[f"{form}_bound"] = self.bounds[form]
            for name, values in self.terms[form]._asdict().items():
                per_round = np.broadcast_to(np.asarray(values, dtype=float), len(self.gap) - 1)
                columns[f"{form}_{name}"] = np.append(np.nan, per_round)  # row r: the G that led to model r
        return columns

    def to_dict(self) -> dict[str, Any]:
        from dataclasses import asdict

        optimum = {
            "value": self.optimum.value,
            "gradient_norm": self.optimum.gradient_norm,
            "last_gain": self.optimum.last_gain,
        }
        return {
            "label": self.record.contestant.label,
            "seed": self.record.seed,
            "constants": asdict(self.constants),
            "system": asdict(self.system),
            "optimum": optimum,
            "remainder": theorem.remainder(self.constants, self.system),
            "descent": self.descent,
            "contraction": {form: theorem.contraction(form, self.constants, self.system) for form in FORMS},
            "largest_learning_rate": theorem.largest_learning_rate(self.constants, self.system),
            "findings": self.sentences(),
            "rounds": dict(self.table()),
        }


def analyse(
    experiment: Experiment, *, label: str | None = None, probes: int = 3, epochs: int = 60, polish: int = 20
) -> Analysis:
    """Run one algorithm of `experiment` again with all its models kept, and confront it with Theorem 1."""
    refuse_beyond_theorem(chosen_of(experiment, label))
    kept = record(experiment, label=label)
    landscape = Landscape(kept.plan.dataset, kept.plan.shards[kept.seed], experiment.model)
    optimum = minimise(landscape, seed=kept.seed, epochs=epochs, polish=polish)
    return confront(kept, landscape, walk(landscape, kept.models.astype(np.float64)), optimum, probes=probes)


def refuse_beyond_theorem(contestant: Contestant) -> None:
    """Theorem 1 is about plain local SGD with one learning rate and M steps for all; anything else is a `UserError`."""
    beyond = contestant.training.beyond_plain_sgd
    if beyond is None and not isinstance(contestant.server.optimiser, NoOptimiser):
        beyond = "server.optimiser"
    if beyond is not None:
        raise UserError(
            f"Theorem 1 is about plain SGD with a constant learning rate and the same number of steps on every device: "
            f"it says nothing about '{contestant.label}' with {beyond}"
        )


def confront(kept: Record, landscape: Landscape, path: Path, optimum: Optimum, *, probes: int = 3) -> Analysis:
    chosen = kept.contestant
    constants = constants_of(
        landscape, path, optimum, max_staleness=kept.max_staleness, batch_size=chosen.training.batch_size, probes=probes
    )
    system = System(
        learning_rate=chosen.training.learning_rate,
        local_steps=chosen.training.local_steps,
        devices=kept.plan.experiment.data.devices,
        parameters=landscape.num_parameters,
        noise_power_w=float(noise_power_w(chosen.air.bandwidth_hz, chosen.air.n0_dbm_per_hz)),
    )
    metrics = kept.trajectory.metrics
    # A round in which nobody is ready changes nothing: no weights, no noise.
    weight_squares = np.nan_to_num(metrics["weight_square_sum"][1:], nan=0.0)
    power = np.nan_to_num(metrics["power_sum"][1:], nan=np.inf)
    made = {form: theorem.terms(form, constants, system, weight_squares, power) for form in FORMS}
    first_gap = float(path.values[0] - optimum.value)
    rounds = len(path.values) - 1
    bounds = {
        form: theorem.bound(form, constants, system, first_gap, np.broadcast_to(made[form].total, rounds))
        for form in FORMS
    }
    return Analysis(
        record=kept, path=path, optimum=optimum, constants=constants, system=system, terms=made, bounds=bounds
    )


def _sentences(a: Analysis) -> Any:
    c, s = a.constants, a.system
    rest = theorem.remainder(c, s)
    if rest <= 0:
        limit = 1 / (2**0.5 * s.local_steps * c.smoothness)
        yield (
            f"Theorem 1 does not apply: Lemma 1 needs 2 (eta M L)^2 < 1, and here it is {1 - rest:.3g} "
            f"(eta = {s.learning_rate:g}, M = {s.local_steps}, L = {c.smoothness:.3g}); "
            f"it starts to apply below eta = {limit:.2g}."
        )
        return
    yield f"Theorem 1 applies: D = 1 - 2 (eta M L)^2 = {rest:.3g} > 0."
    half = s.learning_rate * s.local_steps / 2
    if a.descent <= 0:
        reason = (
            f"staleness alone forbids it: delta = {c.delta:.3g} exceeds eta M / 2 = {half:.3g}"
            if c.delta >= half
            else f"eta is too large; below {theorem.largest_learning_rate(c, s):.2g} it would be positive"
        )
        yield f"It promises no descent: a = {a.descent:.3g} is not positive ({reason})."
    else:
        yield f"It promises descent: a = {a.descent:.3g} > 0."
    rate = theorem.contraction("printed", c, s)
    if rate < 0:
        yield f"The printed contraction factor is negative (A = {rate:.3g}), which no gap can follow."
    for form in FORMS:
        broken = int(np.sum(a.gap > a.bounds[form] * (1 + 1e-9)))
        verdict = "holds in every round" if not broken else f"is broken in {broken} of {len(a.gap)} rounds"
        last = a.bounds[form][-1]
        yield f"The {form} bound {verdict}; at the end it is {last:.3g}, the measured gap {a.gap[-1]:.3g}."
