"""What an analysis says, in sentences: does the theorem apply, to these weights, does it promise anything, does it hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import theorem
from .analysis import Analysis
from .regret import Regret
from .theorem import ALL_FORMS, Form


def findings(a: Analysis) -> Iterator[str]:
    """One finding after the other."""
    c, s = a.constants, a.system
    rest = theorem.remainder(c, s)
    if rest > 0:
        yield f"Theorem 1 applies: D = 1 - 2 (eta M L)^2 = {rest:.3g} > 0."
        yield _weights(a)
        yield _promise(a)
        if s.payload == "update":
            yield (
                "With payload = update no stale start pulls the model back: delta and (d) are absent from the corrected "
                "bound, and the printed one, which is about payload = model, says nothing."
            )
        elif (rate := theorem.contraction("printed", c, s)) < 0:
            yield f"The printed contraction factor is negative (A = {rate:.3g}), which no gap can follow."
        for form in ALL_FORMS:
            if np.isfinite(a.bounds[form][-1]) or form == a.form:
                yield _verdict(a, form)
    else:
        limit = 1 / (2**0.5 * s.local_steps * c.smoothness)
        yield (
            f"Theorem 1 does not apply: Lemma 1 needs 2 (eta M L)^2 < 1, and here it is {1 - rest:.3g} "
            f"(eta = {s.learning_rate:g}, M = {s.local_steps}, L = {c.smoothness:.3g}); "
            f"it starts to apply below eta = {limit:.2g}."
        )
        yield _weights(a)
    if a.regret is not None:
        yield _convex(a.regret, a.gap[0])


def _weights(a: Analysis) -> str:
    label = a.record.entry.label
    if a.dependent_weights:
        return (
            f"The weights of '{label}' depend on the updates that they weigh, and so on their mini-batch noise: the printed "
            "and the corrected form assume that they do not, and only the dependent form covers them."
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
    end = f"at the end it is {a.bounds[form][-1]:.3g}, the measured gap {a.gap[-1]:.3g}"
    if form == "printed":
        carries = (
            "its A is not monotone in L, so neither verdict carries over from the estimated constants to the true ones"
        )
    elif broken:
        carries = "with the estimated constants it comes out too small, so the bound with the true ones may hold"
    else:
        carries = (
            "the estimated constants make it too small, so it holds with the true ones too, while they leave D > 0"
        )
    verdict = f"is broken in {broken} of {len(a.gap)} rounds" if broken else "holds in every round"
    return f"The {form} bound {verdict}; {end} ({carries})."


def _convex(regret: Regret, first_gap: float) -> str:
    bound, lengths, measured = regret.bound[-1], regret.length_bound[-1], regret.mean_gap[-1]
    return (
        f"F is convex: the mean gap over the rounds is at most {bound:.3g} (measured {measured:.3g}, a factor of "
        f"{bound / measured:.3g}; the first gap is {first_gap:.3g}): {regret.comparator + regret.start[-1]:.3g} known before "
        f"the run, {regret.step[-1]:.3g} for the steps and {regret.error[-1]:.3g} for the errors, both measured along it. "
        f"With only the lengths of the errors known it is {lengths:.3g}, a factor of {lengths / measured:.3g}."
    )
