"""Theorem 1 beside a real run: its constants, every term of every round, all forms of the bound, and the measured gap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np

from ...air.uplink import noise_power_w
from ...base.errors import UserError
from ...base.files import Columns
from ...base.types import Table
from ...experiment.experiment import AlgorithmConfig, Experiment
from ...models.custom import jax_model
from ...server.optimisers import NoOptimiser
from . import theorem
from .estimate import Path, constants_of, walk
from .independence import takes_weighted_mean, weights_depend_on_updates
from .landscape import Floats, Landscape, Optimum, minimise
from .recording import Record, chosen_of, record
from .theorem import ALL_FORMS, Constants, Form, System, Terms


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Theorem 1 for one run. Arrays run over rounds 0..R-1 (terms) or over models 0..R (gap, bounds).

    The printed and the corrected form assume weights that are independent of the mini-batch noise of the updates that
    they weigh. `form` names the one that is proven for this run.
    """

    record: Record
    path: Path
    optimum: Optimum
    constants: Constants
    system: System
    dependent_weights: bool  # the weights depend on the updates that they weigh: only the dependent form is then proven
    terms: dict[Form, Terms]
    bounds: dict[Form, Floats]

    @property
    def gap(self) -> Floats:
        """The measured F(w^r) - F(w*), r = 0..R."""
        return self.path.values - self.optimum.value

    @property
    def form(self) -> Form:
        """The form that is proven for these weights."""
        return "dependent" if self.dependent_weights else "corrected"

    @property
    def descent(self) -> float:
        """The a of the form that is proven for these weights."""
        return theorem.descent(self.constants, self.system, self.form)

    def sentences(self) -> list[str]:
        """Return the findings: whether the theorem applies, promises descent and holds."""
        return list(_findings(self))

    def table(self) -> Columns:
        """Return one row per round: the measured gap, and the bound of every form with its terms (a) to (e)."""
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
        return columns

    def to_dict(self) -> Table:
        """Return everything as plain values and arrays, for JSON."""
        return {
            "label": self.record.entry.label,
            "seed": self.record.seed,
            "constants": asdict(self.constants),
            "system": asdict(self.system),
            "optimum": {name: getattr(self.optimum, name) for name in ("value", "gradient_norm", "last_gain")},
            "remainder": theorem.remainder(self.constants, self.system),
            "descent": self.descent,
            "contraction": {form: theorem.contraction(form, self.constants, self.system) for form in ALL_FORMS},
            "largest_learning_rate": theorem.largest_learning_rate(self.constants, self.system, self.form),
            "dependent_weights": self.dependent_weights,
            "form": self.form,
            "findings": self.sentences(),
            "rounds": dict(self.table()),
        }


def analyse(
    experiment: Experiment, *, label: str | None = None, probes: int = 3, epochs: int = 60, polish: int = 20
) -> Analysis:
    """Run one algorithm of `experiment` again with all its models kept, and compare it with Theorem 1.

    A rule that takes no weighted mean, or whose weights do not sum to 1, is refused with a `UserError`.

    Args:
        experiment: The experiment to run.
        label: Label of the algorithm, by default that of the first one.
        probes: Number of models at which curvature and per-device gradients are computed.
        epochs: Epochs of Adam in the search for F*.
        polish: Steps of L-BFGS at its end.
    """
    refuse_beyond_theorem(chosen_of(experiment, label))
    kept = record(experiment, label=label)
    check_weights(kept)
    landscape = Landscape(kept.plan.dataset, kept.plan.shards[kept.seed], jax_model(kept.plan.model, "paota bound"))
    optimum = minimise(landscape, seed=kept.seed, epochs=epochs, polish=polish)
    path = walk(landscape, kept.models.astype(np.float64))
    return confront(kept, landscape, path, lowest(optimum, path), probes=probes)


def lowest(found: Optimum, path: Path) -> Optimum:
    """Return the lowest known value of F: that of the search, unless the run itself went lower."""
    least = int(np.argmin(path.values))
    if found.value <= path.values[least]:
        return found
    length = float(np.linalg.norm(path.gradients[least]))
    return replace(found, value=float(path.values[least]), gradient_norm=length, model=path.models[least])


def refuse_beyond_theorem(entry: AlgorithmConfig) -> None:
    """Raise a `UserError` unless the algorithm takes a weighted mean and trains by plain local SGD."""
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


def check_weights(kept: Record) -> None:
    """Raise a `UserError` if the weights of some round do not sum to 1: Theorem 1 does not cover such a run."""
    sums = kept.weight_sums
    off = np.abs(sums - 1.0)
    if len(sums) and off.max() > 1e-3:
        raise UserError(
            f"Theorem 1 is about weights that sum to 1, and those of '{kept.entry.label}' sum to {sums[off.argmax()]:.3g} "
            "in a round: there is no bound to compare with"
        )


def confront(kept: Record, landscape: Landscape, path: Path, optimum: Optimum, *, probes: int = 3) -> Analysis:
    """Return all forms of the theorem for a recorded run.

    Args:
        kept: The run with its models.
        landscape: The objective.
        path: F and its gradient at every model of the run.
        optimum: The best value known.
        probes: Number of models at which curvature and per-device gradients are computed.
    """
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
        weight_peak=kept.weight_peak,
    )
    metrics = kept.trajectory.metrics
    # A round without transmissions changes nothing: no weights, no noise.
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
    )


def _findings(a: Analysis) -> Iterator[str]:
    c, s = a.constants, a.system
    rest = theorem.remainder(c, s)
    if rest <= 0:
        limit = 1 / (2**0.5 * s.local_steps * c.smoothness)
        yield (
            f"Theorem 1 does not apply: Lemma 1 needs 2 (eta M L)^2 < 1, and here it is {1 - rest:.3g} "
            f"(eta = {s.learning_rate:g}, M = {s.local_steps}, L = {c.smoothness:.3g}); "
            f"it starts to apply below eta = {limit:.2g}."
        )
        yield _weights(a)
        return
    yield f"Theorem 1 applies: D = 1 - 2 (eta M L)^2 = {rest:.3g} > 0."
    yield _weights(a)
    yield _promise(a)
    if s.payload == "update":
        yield (
            "With payload = update no stale start pulls the model back: delta and (d) are absent from the corrected "
            "bound. The printed bound does not apply, because it is about payload = model."
        )
    elif (rate := theorem.contraction("printed", c, s)) < 0:
        yield f"The printed contraction factor is negative (A = {rate:.3g}), which is impossible for a gap."
    for form in ALL_FORMS:
        if np.isfinite(a.bounds[form][-1]) or form == a.form:
            yield _verdict(a, form)


def _weights(a: Analysis) -> str:
    label = a.record.entry.label
    if a.dependent_weights:
        return (
            f"The weights of '{label}' depend on the updates that they weigh, and so on their mini-batch noise. The printed "
            "and the corrected form assume that they do not; only the dependent form covers them."
        )
    return f"The weights of '{label}' do not depend on the updates that they weigh, as the theorem assumes."


def _promise(a: Analysis) -> str:
    c, s = a.constants, a.system
    if a.descent > 0:
        return f"It promises descent: a = {a.descent:.3g} > 0 ({a.form} form)."
    most = s.learning_rate * s.local_steps / (4 if a.form == "dependent" else 2)
    if s.payload == "model" and c.delta >= most:
        words = "eta M / 4" if a.form == "dependent" else "eta M / 2"
        reason = f"staleness alone forbids it: delta = {c.delta:.3g} exceeds {words} = {most:.3g}"
    else:
        reason = f"eta is too large; below {theorem.largest_learning_rate(c, s, a.form):.2g} it would be positive"
    return f"It promises no descent: a = {a.descent:.3g} is not positive ({a.form} form; {reason})."


def _verdict(a: Analysis, form: Form) -> str:
    broken = int(np.sum(a.gap > a.bounds[form] * (1 + 1e-9)))
    if form == "printed":
        carries = "its A is not monotone in L, so this verdict does not carry over to the true constants"
    elif broken:
        carries = "the estimated constants make it too small, so the bound with the true constants may hold"
    else:
        carries = "the estimated constants make it too small, so it also holds with the true ones, if these leave D > 0"
    verdict = f"is broken in {broken} of {len(a.gap)} rounds" if broken else "holds in every round"
    end = f"at the end it is {a.bounds[form][-1]:.3g}, the measured gap {a.gap[-1]:.3g}"
    return f"The {form} bound {verdict}; {end} ({carries})."
