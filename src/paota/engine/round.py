"""One round, from top to bottom: what devices report and send, how loud they arrive, and the next model.

The compiled loop, a deployment and `aggregate_by_hand` all call `play_round`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from ..air.channel import make_uplink
from ..air.uplink import Uplink, invert, within_budget
from ..algorithms.base import Algorithm, DeviceResult, Event, Heard, Report
from ..base.rng import Purpose, draw_key
from ..faults.signals import Checked, corrupt_and_guard, disturb
from ..power.settings import Power
from ..server import ServerSettings
from ..server.optimisers import NoOptimiser
from ..training.learner import Trained
from .blocks import Blocks, DeviceSignals, Gains, Sums
from .structures import EventInputs, RoundConfig, State


class RoundStart(NamedTuple):
    """What is there when a round begins. n: devices that take part, padded."""

    inputs: EventInputs
    model: Float[Array, " d"]  # w^r
    previous_model: Float[Array, " d"]  # w^(r-1); w^r itself in round 0
    num_samples: Float[Array, " n"]  # D_k
    num_devices: Float[Array, ""]  # K
    state: State


class Decision(NamedTuple):
    """What the server has decided before anybody sends."""

    uplink: Uplink
    amplitude: Float[Array, " n"]  # p_k; of a digital rule the weight
    divisor: Float[Array, ""] | float
    precoder: Shaped[Array, " n"] | None  # phi_k, complex; None for a digital rule
    gains: Gains  # the air, or the digital server, sums gain_k payload_k for each of these


class RoundOutcome(NamedTuple):
    """The outcome of one event. [n] arrays; NaN where a quantity does not apply."""

    model: Float[Array, " d"]  # w^(r+1)
    state: Any
    weight: Float[Array, " n"]  # alpha_k; sums to the step over the ready devices: 1, or less where w^r keeps the rest
    amplitude: Float[Array, " n"]  # p_k as received: where the channel is not as believed, not what was decided
    similarity: Float[Array, " n"]  # theta_k
    transmit_power_w: Float[Array, " n"]  # |phi_k payload_k|^2
    noise_std: Float[Array, ""]  # a weight, after normalisation
    channel_gain: Float[Array, " n"]  # |h_k|^2 that the signals meet
    memory: Any = ()  # of the devices from now on, [n, ...] each; for `aggregate_by_hand` only


def play_round(
    config: RoundConfig, key: jax.Array, before: RoundStart, devices: Callable[[EventInputs], DeviceSignals], *,
    uplink: Uplink | None = None,
    block: int | None = None,
) -> tuple[RoundOutcome, State, Float[Array, " n"]]:  # fmt: skip
    """One aggregation: version r becomes version r + 1.

    Args:
        rule: everything that decides how the round is computed.
        key: of the seed.
        before: what is there when the round begins.
        devices: trains the devices of (a part of) the row and calls `prepare`.
        uplink: the air of this round; None: as `config` says.
        block: devices whose models are held at once; None: all of the round.

    Returns:
        The outcome, the state after it (its ring is the old one), and the devices' losses [n].
    """
    inputs, state = before.inputs, before.state
    blocks = None if block is None else Blocks(devices, inputs, block)
    signals = devices(inputs) if blocks is None else blocks.untrained() if asks_nothing(config) else blocks.first_pass()
    if uplink is None:
        uplink = uplink_of(config, key, inputs, signals.ready, before.model.size)
    if config.power.energy_budget_j is not None:
        uplink = within_budget(
            uplink, config.power.energy_budget_j, state.spent_j[inputs.device], config.air.bandwidth_hz
        )
        signals = signals._replace(ready=uplink.ready)
    event = _event_of(before, signals)
    decision = choose_amplitudes(config.algorithm, config.power, event, uplink)
    if blocks is None:
        sums, loss = superpose(decision.gains, signals.payload), signals.loss
    else:
        sums, loss = blocks.second_pass(decision.gains)
        loss = loss if asks_nothing(config) else signals.loss
    outcome = finish_round(config.algorithm, event, decision, sums)
    outcome, optimiser = apply_server_optimiser(config.server, before.model, outcome, state.optimiser)
    memory = remembered(state.devices, inputs.device, outcome.weight, signals.memory)
    spent_j = state.spent_j
    if config.power.energy_budget_j is not None:  # a device takes part in an event once; padding has sent nothing
        spent_j = spent_j.at[inputs.device].add(outcome.transmit_power_w / config.air.bandwidth_hz)
    return outcome, State(state.ring, outcome.state, optimiser, memory, spent_j), loss


def prepare(
    config: RoundConfig, key: jax.Array, before: RoundStart, trained: Trained, start: Float[Array, "n d"] | None = None
) -> DeviceSignals:
    """Faults and guards, then step one of the algorithm on every device: its report, and what it will send.

    `start`: the models that the devices began with, which `guards.max_update_norm` needs.
    """
    inputs = before.inputs
    checked = Checked(trained.local_model, trained.update, inputs.ready, start)
    checked = corrupt_and_guard(config.faults, config.guards, key, inputs.device, checked)
    multiplier, norm = config.guards.noise_multiplier, config.guards.max_update_norm
    if multiplier is not None and norm is not None:
        checked = _with_noise(multiplier * norm, key, inputs, checked)
    return encode(
        config.algorithm,
        key,
        before,
        trained._replace(local_model=checked.local_model, update=checked.update),
        checked.ready,
    )


def memory_of(before: RoundStart) -> Any:
    """What the devices of the round have kept, [n, ...] each."""
    return jax.tree.map(lambda column: column[before.inputs.device], before.state.devices)


def encode(
    algorithm: Algorithm, key: jax.Array, before: RoundStart, trained: Trained, ready: Bool[Array, " n"]
) -> DeviceSignals:
    """Step one of the algorithm on every device."""
    inputs = before.inputs
    result = DeviceResult(
        local_model=trained.local_model,
        update=trained.update,
        loss=trained.loss,
        staleness=inputs.round - inputs.version,
        num_samples=before.num_samples,
        model=before.model,
        previous_model=before.previous_model,
        memory=memory_of(before),
        state=before.state.server,
        key=device_keys(key, inputs.round, inputs.device) if algorithm.draws else None,
    )

    def on_device(one: DeviceResult) -> tuple[jax.Array, Report, Any]:
        return algorithm.signal(one), algorithm.report(one), algorithm.remember(one)

    broadcast: Any = None
    axes = DeviceResult(0, 0, 0, 0, 0, broadcast, broadcast, 0, broadcast, None if result.key is None else 0)  # type: ignore[arg-type]
    payload, report, memory = jax.vmap(on_device, in_axes=(axes,))(result)
    return DeviceSignals(payload, jnp.sum(payload**2, axis=1), report, ready, result.loss, memory)


def _with_noise(std: float, key: jax.Array, inputs: EventInputs, checked: Checked) -> Checked:
    """Every device adds noise of standard deviation `std` to each weight, after clipping."""
    keys = device_keys(key, inputs.round, inputs.device, Purpose.PRIVACY_NOISE)
    drawn = jax.vmap(lambda key: jax.random.normal(key, checked.update.shape[1:]))(keys)
    noise = std * drawn
    return checked._replace(update=checked.update + noise, local_model=checked.local_model + noise)


def device_keys(
    seed: jax.Array, round: jax.Array, device: Int[Array, " n"], purpose: Purpose = Purpose.SIGNAL
) -> jax.Array:
    """Of each device in this round, for what it draws when it sends."""
    key = draw_key(seed, purpose, round)
    return jax.vmap(lambda k: jax.random.fold_in(key, k))(device)


def _event_of(before: RoundStart, signals: DeviceSignals) -> Event:
    """The round as the server sees it: scalars of the devices, and models of its own."""
    inputs = before.inputs
    return Event(
        round=inputs.round,
        model=before.model,
        previous_model=before.previous_model,
        device=inputs.device,
        ready=signals.ready,
        staleness=inputs.round - inputs.version,
        num_samples=before.num_samples,
        energy=signals.energy,
        report=signals.report,
        num_devices=before.num_devices,
        state=before.state.server,
        aborted=inputs.aborted,
        group=inputs.group,
    )


def uplink_of(
    config: RoundConfig, seed: jax.Array, inputs: EventInputs, ready: Bool[Array, " n"], num_parameters: int
) -> Uplink:
    """The air of one round, with whatever goes wrong in it; `num_parameters` is d."""
    uplink = make_uplink(
        config.air, seed, max_power_w=config.power.max_power_w, round=inputs.round, time_s=inputs.time_s,
        device=inputs.device, ready=ready,
        num_parameters=num_parameters,
    )  # fmt: skip
    return disturb(config.faults, seed, inputs.round, inputs.device, uplink)


def choose_amplitudes(algorithm: Algorithm, power: Power, event: Event, uplink: Uplink) -> Decision:
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


def finish_round(algorithm: Algorithm, event: Event, decision: Decision, sums: Sums) -> RoundOutcome:
    """Step three: the next model from `sums`, what the air has made of the payloads for each of the decision's gains."""
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
    arrived = Heard(heard / divisor, amplitude, transmit_power_w, uplink.max_power_w)  # Eq. Normalization
    step = algorithm.next_model(event, arrived)
    anyone = (amplitude != 0).any()  # nobody: w^(r+1) = w^r exactly, with no noise
    return RoundOutcome(
        model=jnp.where(anyone, step.model, event.model),
        state=jax.tree.map(lambda new, old: jnp.where(anyone, new, old), step.state, event.state),
        weight=jnp.where(amplitude != 0, step.share * (amplitude / divisor), 0.0),  # 0, too, where the divisor is
        amplitude=shown,
        similarity=event.report.get("similarity", nothing),
        transmit_power_w=transmit_power_w,
        noise_std=jnp.where(anyone, step.share * noise_std, jnp.nan),
        channel_gain=gain,
    )


def apply_server_optimiser(
    server: ServerSettings, model: Float[Array, " d"], outcome: RoundOutcome, memory: Any
) -> tuple[RoundOutcome, Any]:
    """The event with the server's optimiser on top, and its new memory: it takes `outcome.model` - `model` for a gradient.

    `model` is w^r, `memory` what the optimiser kept. Where nobody sends, w^(r+1) = w^r and the memory stays.
    """
    if isinstance(server.optimiser, NoOptimiser):
        return outcome, memory
    step, new = server.optimiser.step(outcome.model - model, memory)
    anyone = (outcome.weight != 0).any()
    model = jnp.where(anyone, model + step, model)
    return outcome._replace(model=model), jax.tree.map(lambda a, b: jnp.where(anyone, a, b), new, memory)


def remembered(kept: Any, device: Int[Array, " n"], weight: Float[Array, " n"], memory: Any) -> Any:
    """The memory [K, ...] of all devices after a round; those that have not sent keep theirs."""

    def write(old: jax.Array, new: jax.Array) -> jax.Array:
        nowhere = len(old)
        return old.at[jnp.where(weight != 0, device, nowhere)].set(new, mode="drop")

    return jax.tree.map(write, kept, memory)


def asks_nothing(config: RoundConfig) -> bool:
    """Whether weights follow from the timeline alone: a digital rule without reports, and no guard that holds back."""
    plain = type(config.algorithm).report is Algorithm.report
    return plain and not config.algorithm.over_the_air and not config.guards.reject_non_finite
