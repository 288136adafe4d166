"""The server's half of an event, in two parts with the air between them: `decide` how loud everybody is, then, from
what was heard, `conclude` the round. And `evaluate`: how good a model is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from ..air.channel import make_uplink
from ..air.uplink import Uplink, invert
from ..algorithms.base import Algorithm, Event, Heard
from ..faults.signals import disturb
from ..power.settings import Power
from ..server.optimisers import NoOptimiser
from ..server.settings import Server
from ..training.learner import Judged
from . import sharding
from .devices import Prepared
from .structures import Fleet, Row, Rule, Task

Gains = tuple[Float[Array, " n"], ...]
Sums = tuple[Float[Array, " d"], ...]


class Decision(NamedTuple):
    """What the server has decided before anybody sends."""

    uplink: Uplink
    amplitude: Float[Array, " n"]  # p_k; of a digital rule the weight
    divisor: Float[Array, ""] | float
    precoder: Shaped[Array, " n"] | None  # phi_k, complex; None for a digital rule
    gains: Gains  # the air, or the digital server, sums gain_k payload_k for each of these


class Served(NamedTuple):
    """The outcome of one event. [n] arrays; NaN where a quantity does not apply."""

    model: Float[Array, " d"]  # w^(r+1)
    state: Any
    weight: Float[Array, " n"]  # alpha_k; sums to the step over the ready devices: 1, or less where w^r keeps the rest
    amplitude: Float[Array, " n"]  # p_k as received: where the channel is not as believed, not what was decided
    similarity: Float[Array, " n"]  # theta_k
    transmit_power_w: Float[Array, " n"]  # |phi_k payload_k|^2
    noise_std: Float[Array, ""]  # a weight, after normalisation
    channel_gain: Float[Array, " n"]  # |h_k|^2 that the signals meet
    memory: Any = ()  # of the devices from now on, [n, ...] each


class Judgement(NamedTuple):
    """How good one model is."""

    test_accuracy: Float[Array, ""]
    test_loss: Float[Array, ""]
    train_loss: Float[Array, ""]  # F(w), Eq. sys_FL_task; NaN where the mini-batches' loss stands for it
    score_by_label: Float[Array, " C"]  # sum of the score over the test samples of each label

    @classmethod
    def unknown(cls, num_classes: int) -> Judgement:
        """Of a model that nobody looks at."""
        return cls(*(jnp.full((), jnp.nan),) * 3, jnp.full(num_classes, jnp.nan))


def event_of(
    row: Row, prepared: Prepared, model: Float[Array, " d"], previous_model: Float[Array, " d"],
    num_samples: Float[Array, " n"], num_devices: Float[Array, ""], state: Any,
) -> Event:  # fmt: skip
    """The event as the server sees it: scalars of the devices, and models of its own."""
    return Event(
        round=row.round,
        model=model,
        previous_model=previous_model,
        device=row.device,
        ready=prepared.ready,
        staleness=row.round - row.version,
        num_samples=num_samples,
        energy=prepared.energy,
        report=prepared.report,
        num_devices=num_devices,
        state=state,
        aborted=row.aborted,
        group=row.group,
    )


def uplink_of(rule: Rule, seed: jax.Array, row: Row, ready: Bool[Array, " n"], num_parameters: int) -> Uplink:
    """The air of one round, with whatever goes wrong in it; `num_parameters` is d."""
    uplink = make_uplink(
        rule.air, rule.power, seed, round=row.round, time_s=row.time_s, device=row.device, ready=ready,
        num_parameters=num_parameters,
    )  # fmt: skip
    return disturb(rule.faults, seed, row.round, row.device, uplink)


def decide(algorithm: Algorithm, power: Power, event: Event, uplink: Uplink) -> Decision:
    """Step two of the algorithm: how loud each device sends in this round's air."""
    uplink = algorithm.assumed(uplink)
    amplitude, divisor = algorithm.amplitudes(event, uplink, power)
    if not algorithm.over_the_air:
        return Decision(uplink, amplitude, divisor, None, (amplitude,))
    precoder = invert(amplitude, uplink.channel)  # Eq. pre-processing_parameter
    return Decision(uplink, amplitude, divisor, precoder, uplink.gains(precoder))


def superpose(gains: Gains, payload: Float[Array, "n d"]) -> Sums:
    """sum_k gain_k payload_k for each of the gains."""
    return tuple(gain @ payload for gain in gains)


def conclude(
    algorithm: Algorithm, event: Event, decision: Decision, sums: Sums, payloads: Float[Array, "n d"] | None = None
) -> Served:
    """Step three: the next model from `sums`, what the air has made of the payloads for each of the decision's gains.

    `payloads` [n, d] is only for a digital rule that needs them all.
    """
    uplink, amplitude, divisor, precoder, _ = decision
    nothing = jnp.full(event.ready.shape, jnp.nan)
    if precoder is None:
        (heard,) = sums
        shown, transmit_power_w, noise_std, gain = nothing, nothing, jnp.asarray(jnp.nan), nothing
    else:
        heard = uplink.receive(sums)  # Eq. Global_receive
        transmit_power_w = uplink.transmit_power_w(precoder, event.energy)
        noise_std = jnp.sqrt(uplink.noise_power_w / 2) / divisor
        met, shown = uplink.channel, amplitude
        if uplink.actual_channel is not None:
            met = uplink.actual_channel
            shown = jnp.where(amplitude != 0, jnp.abs(met * precoder), 0.0)
        gain = jnp.abs(met) ** 2
    arrived = Heard(heard / divisor, amplitude, payloads, transmit_power_w, uplink.max_power_w)  # Eq. Normalization
    step = algorithm.next_model(event, arrived)
    anyone = (amplitude != 0).any()  # nobody: w^(r+1) = w^r exactly, with no noise
    return Served(
        model=jnp.where(anyone, step.model, event.model),
        state=jax.tree.map(lambda new, old: jnp.where(anyone, new, old), step.state, event.state),
        weight=jnp.where(amplitude != 0, step.share * (amplitude / divisor), 0.0),  # 0, too, where the divisor is
        amplitude=shown,
        similarity=event.report.get("similarity", nothing),
        transmit_power_w=transmit_power_w,
        noise_std=jnp.where(anyone, step.share * noise_std, jnp.nan),
        channel_gain=gain,
    )


def optimise(server: Server, model: Float[Array, " d"], served: Served, memory: Any) -> tuple[Served, Any]:
    """The event with the server's optimiser on top, and its new memory: it takes `served.model` - `model` for a gradient.

    `model` is w^r, `memory` what the optimiser kept. Where nobody sends, w^(r+1) = w^r and the memory stays.
    """
    if isinstance(server.optimiser, NoOptimiser):
        return served, memory
    step, new = server.optimiser.step(served.model - model, memory)
    anyone = (served.weight != 0).any()
    model = jnp.where(anyone, model + step, model)
    return served._replace(model=model), jax.tree.map(lambda a, b: jnp.where(anyone, a, b), new, memory)


def evaluate(task: Task, model: Float[Array, " d"], fleet: Fleet) -> Judgement:
    """`model` on the test data and, with `train_loss = "objective"`, on all that the devices hold."""

    def judge(x: Any, y: jax.Array, weight: jax.Array) -> Judged:
        return sharding.judge(task.mesh, task.learner, model, x, y, weight)

    test = judge(fleet.x_test, fleet.y_test, jnp.full(len(fleet.y_test), 1.0 / len(fleet.y_test)))
    objective = jnp.full((), jnp.nan)
    if task.train_loss == "objective":
        objective = judge(fleet.x_train, fleet.y_train, fleet.sample_weight).loss
    return Judgement(test.score, test.loss, objective, test.score_by_label)
