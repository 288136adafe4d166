"""Theorem 1 beside a real run: constants, every term of every round, all forms of the bound, and the measured gap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...air.uplink import noise_power_w
from ...base.errors import UserError
from ...base.files import Columns
from ...experiment.experiment import AlgorithmConfig, Experiment
from ...models.custom import jax_model
from ...server.optimisers import NoOptimiser
from . import theorem
from .estimate import Path, constants_of, walk
from .independence import check_weights, takes_weighted_mean, weight_peak, weights_depend_on_updates
from .landscape import Landscape
from .optimum import Optimum, minimise
from .recording import Record, chosen_of, record
from .regret import Regret, comparator_of, is_convex, regret_of
from .theorem import ALL_FORMS, Constants, Form, System, Terms


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What Theorem 1 says about one run. Arrays run over rounds 0..R-1 (terms) or models 0..R (gap, bounds).

    The printed and the corrected form assume weights that are independent of the mini-batch noise of the updates that
    they weigh; `form` names the one that is proven for this run.
    """

    record: Record
    path: Path
    optimum: Optimum
    constants: Constants
    system: System
    dependent_weights: bool  # the weights depend on the updates that they weigh: only the dependent form is then proven
    terms: dict[Form, Terms]
    bounds: dict[Form, NDArray[np.float64]]
    regret: Regret | None  # of a convex F; None otherwise

    @property
    def gap(self) -> NDArray[np.float64]:
        """F(w^r) - F(w*), measured, r = 0..R."""
        return self.path.values - self.optimum.value

    @property
    def form(self) -> Form:
        """The form that is proven for these weights."""
        return "dependent" if self.dependent_weights else "corrected"

    @property
    def descent(self) -> float:
        """a of the form that is proven for these weights."""
        return theorem.descent(self.constants, self.system, self.form)

    def sentences(self) -> list[str]:
        """What follows, in words: does the theorem apply, does it promise anything, does it hold."""
        from .findings import findings

        return list(findings(self))

    def table(self) -> Columns:
        """One row a round: measured gap, the bound in every form with its (a) to (e), and the regret of a convex F."""
        columns: Columns = {
            "round": np.arange(len(self.gap)),
            "gap": self.gap,
            "gradient_square": np.sum(self.path.gradients**2, axis=1),
        }
        for form in ALL_FORMS:
            columns[f"{form}_bound"] = self.bounds[form]
            for name, values in self.terms[form]._asdict().items():
                per_round = np.broadcast_to(np.asarray(values, dtype=float), len(self.gap) - 1)
                columns[f"{form}_{name}"] = np.append(np.nan, per_round)  # row r: the G that led to model r
        if self.regret is not None:  # row r: of the first r rounds
            columns["mean_gap"] = np.append(np.nan, self.regret.mean_gap)
            columns["regret_bound"] = np.append(np.nan, self.regret.bound)
            columns["regret_length_bound"] = np.append(np.nan, self.regret.length_bound)
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values and arrays, for JSON."""
        from dataclasses import asdict

        optimum = {
            "value": self.optimum.value,
            "gradient_norm": self.optimum.gradient_norm,
            "last_gain": self.optimum.last_gain,
        }
        return {
            "label": self.record.entry.label,
            "seed": self.record.seed,
            "constants": asdict(self.constants),
            "system": asdict(self.system),
            "optimum": optimum,
            "remainder": theorem.remainder(self.constants, self.system),
            "descent": self.descent,
            "contraction": {form: theorem.contraction(form, self.constants, self.system) for form in ALL_FORMS},
            "largest_learning_rate": theorem.largest_learning_rate(self.constants, self.system, self.form),
            "dependent_weights": self.dependent_weights,
            "form": self.form,
            "regret": None if self.regret is None else self.regret.at_the_end(),
            "findings": self.sentences(),
            "rounds": dict(self.table()),
        }


def analyse(
    experiment: Experiment, *, label: str | None = None, probes: int = 3, epochs: int = 60, polish: int = 20
) -> Analysis:
    """Run one algorithm of `experiment` again with all its models kept, and confront it with Theorem 1.

    A rule that takes no weighted mean, or whose weights do not sum to 1, is refused.

    Args:
        experiment: what to run.
        label: of the algorithm (default: the first one).
        probes: models that get the costly looks.
        epochs: of the search for F*, by Adam.
        polish: steps of L-BFGS at its end.
    """
    refuse_beyond_theorem(chosen_of(experiment, label))
    kept = record(experiment, label=label)
    check_weights(kept)
    landscape = Landscape(kept.plan.dataset, kept.plan.shards[kept.seed], jax_model(kept.plan.model, "paota bound"))
    optimum = minimise(landscape, seed=kept.seed, epochs=epochs, polish=polish)
    path = walk(landscape, kept.models.astype(np.float64))
    return confront(kept, landscape, path, lowest(optimum, path), probes=probes)


def lowest(found: Optimum, path: Path) -> Optimum:
    """The best value of F that is known: what the search found, unless the run itself went lower."""
    least = int(np.argmin(path.values))
    if found.value <= path.values[least]:
        return found
    length = float(np.linalg.norm(path.gradients[least]))
    return replace(found, value=float(path.values[least]), gradient_norm=length, model=path.models[least])


def refuse_beyond_theorem(entry: AlgorithmConfig) -> None:
    """Theorem 1 is about weighted means, and plain local SGD with one rate and M steps for all; or it is a `UserError`."""
    beyond = entry.training.beyond_plain_sgd
    if beyond is None and not isinstance(entry.server.optimiser, NoOptimiser):
        beyond = "server.optimiser"
    if beyond is not None:
        raise UserError(
            f"Theorem 1 is about plain SGD with a constant learning rate and the same number of steps on every device: "
            f"it says nothing about '{entry.label}' with {beyond}"
        )
    if not takes_weighted_mean(entry):
        raise UserError(
            f"Theorem 1 is about weighted means of what devices send, and '{entry.label}' takes none: "
            "there is no bound to compare with"
        )


def confront(kept: Record, landscape: Landscape, path: Path, optimum: Optimum, *, probes: int = 3) -> Analysis:
    """All forms of the theorem for a run that was kept, with F and its gradient along it and the best value known."""
    chosen = kept.entry
    constants = constants_of(
        landscape, path, optimum, max_staleness=kept.max_staleness, batch_size=chosen.training.batch_size, probes=probes
    )
    system = System(
        learning_rate=chosen.training.learning_rate,
        local_steps=chosen.training.local_steps,
        devices=kept.plan.experiment.data.devices,
        parameters=landscape.num_parameters,
        noise_power_w=float(noise_power_w(chosen.air.bandwidth_hz, chosen.air.n0_dbm_per_hz)),
        payload=chosen.algorithm.payload,
        weight_peak=weight_peak(kept),
    )
    metrics = kept.trajectory.metrics
    # A round in which nobody sends changes nothing: no weights, no noise.
    weight_squares = np.nan_to_num(metrics["weight_square_sum"][1:], nan=0.0)
    power = np.nan_to_num(metrics["amplitude_sum"][1:], nan=np.inf)
    made = {
        form: theorem.terms(form, constants, system, weight_squares, power, metrics["ready"][1:]) for form in ALL_FORMS
    }
    first_gap = float(path.values[0] - optimum.value)
    rounds, sent = len(path.values) - 1, weight_squares > 0
    bounds = {
        form: theorem.bound(form, constants, system, first_gap, np.broadcast_to(made[form].total, rounds), sent)
        for form in ALL_FORMS
    }
    return Analysis(
        record=kept,
        path=path,
        optimum=optimum,
        constants=constants,
        system=system,
        dependent_weights=weights_depend_on_updates(chosen),
        terms=made,
        bounds=bounds,
        regret=_regret(landscape, path, optimum, system) if is_convex(landscape.model) else None,
    )


def _regret(landscape: Landscape, path: Path, optimum: Optimum, system: System) -> Regret:
    horizon = system.learning_rate * system.local_steps * (len(path.models) - 1)
    comparator, value = comparator_of(landscape, path.models[0], horizon)
    return regret_of(path, system, comparator, value, optimum.value)
