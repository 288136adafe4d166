"""THE round, from top to bottom: reports, amplitudes, uplink, next model.

    prepare             on the devices  faults, guards, the payload, and the report for the control channel
    uplink_of           the channel     gains and noise of this round
    choose_amplitudes   on the server   p_k, and the precoders phi_k that reach them
    superpose           the channel     sum_k h_k phi_k payload_k
    finish_round        on the server   the received vector, and the next model

The compiled loop, a deployment and `aggregate_by_hand` all call `play_round`.
Axes: n devices that take part, padded; K devices in all; d parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from ..air.channel import make_uplink
from ..air.profiles import symbol_rate_hz
from ..air.uplink import Uplink, invert, per_subcarrier, subcarrier_of, superposed, within_budget
from ..algorithms.base import Algorithm, DeviceResult, Event, Heard, Report
from ..base.columns import refuse_recorded
from ..base.errors import UserError
from ..base.rng import Purpose, draw_key
from ..faults.signals import Checked, corrupt_and_guard, disturb
from ..power.settings import Power
from ..server import ServerSettings
from ..server.optimisers import NoOptimiser
from ..training.learner import LocalUpdates
from .blocks import Blocks, DeviceSignals, Gains, Sums
from .structures import EventInputs, RoundConfig, State


class RoundStart(NamedTuple):
    """Everything that a round starts from."""

    inputs: EventInputs
    model: Float[Array, " d"]  # w^r
    previous_model: Float[Array, " d"]  # w^(r-1); w^r itself in round 0
    num_samples: Float[Array, " n"]  # D_k
    num_devices: Float[Array, ""]  # K
    state: State


class Decision(NamedTuple):
    """The server's decision before the devices transmit."""

    uplink: Uplink
    amplitude: Float[Array, " n"]  # p_k; for a digital algorithm the weight
    divisor: Float[Array, ""] | float
    precoder: Shaped[Array, " n"] | None  # phi_k, complex; None for a digital algorithm
    gains: Gains  # the channel, or the digital server, sums gain_k payload_k for each of these


class RoundOutcome(NamedTuple):
    """The outcome of one round; NaN where a quantity does not apply."""

    model: Float[Array, " d"]  # w^(r+1)
    state: PyTree  # of the algorithm on the server
    weight: Float[Array, " n"]  # alpha_k; sums to 1 over the ready devices, or less where w^r keeps the rest
    amplitude: Float[Array, " n"]  # p_k as received, which differs from the decision if the channel estimate is wrong
    similarity: Float[Array, " n"]  # theta_k
    transmit_power_w: Float[Array, " n"]  # |phi_k payload_k|^2
    noise_std: Float[Array, ""]  # per weight, after normalisation
    channel_gain: Float[Array, " n"]  # |h_k|^2 of the actual channel, or the effective one of several subcarriers
    memory: PyTree = ()  # of the devices after the round, [n, ...] each; only from `aggregate_by_hand`
    metrics: Mapping[str, Float[Array, ""]] = {}  # of the algorithm's own; NaN if no device sends
    left_out: Float[Array, " n"] | None = None  # parameters on subcarriers that a sender left out; None: all are sent


def play_round(
    config: RoundConfig, key: PRNGKeyArray, start: RoundStart, devices: Callable[[EventInputs], DeviceSignals], *,
    uplink: Uplink | None = None,
    block: int | None = None,
) -> tuple[RoundOutcome, State, Float[Array, " n"]]:  # fmt: skip
    """Aggregate once: version r becomes version r + 1.

    Args:
        config: the settings of the round.
        key: key of the seed.
        start: everything that the round starts from.
        devices: trains the devices of (a part of) the event and calls `prepare`.
        uplink: the uplink of this round; None: from `config`.
        block: devices whose models are in memory at once; None: all of the round.

    Returns:
        The outcome, the state after it (with the old ring), and the devices' losses.
    """
    inputs, state = start.inputs, start.state
    blocks = None if block is None else Blocks(devices, inputs, block)
    if blocks is None:
        signals = devices(inputs)
    elif needs_no_reports(config):
        signals = blocks.untrained()
    else:
        signals = blocks.first_pass()
    if uplink is None:
        uplink = uplink_of(config, key, inputs, signals.ready, start.model.size, signals.spectrum)
        signals = signals._replace(ready=uplink.ready)
    budget_j = config.power.energy_budget_j
    if budget_j is not None:
        uplink = within_budget(uplink, budget_j, state.spent_j[inputs.device], symbol_rate_hz(config.air))
        signals = signals._replace(ready=uplink.ready)
    event = _event_of(start, signals)
    decision = choose_amplitudes(config.algorithm, config.power, event, uplink)
    if blocks is None:
        sums, loss = superpose(decision.gains, signals.payload), signals.loss
    else:
        sums, loss = blocks.second_pass(decision.gains)
        loss = loss if needs_no_reports(config) else signals.loss
    outcome = finish_round(config.algorithm, event, decision, sums)
    outcome, optimiser = apply_server_optimiser(config.server, start.model, outcome, state.optimiser)
    memory = updated_memory(state.devices, inputs.device, outcome.weight, signals.memory)
    spent_j = state.spent_j
    if budget_j is not None:  # a device takes part in an event once; padding has sent nothing
        spent_j = spent_j.at[inputs.device].add(outcome.transmit_power_w / symbol_rate_hz(config.air))
    return outcome, State(state.ring, outcome.state, optimiser, memory, spent_j), loss


# On the devices.


def prepare(
    config: RoundConfig, key: PRNGKeyArray, start: RoundStart, trained: LocalUpdates,
    start_model: Float[Array, "n d"] | None = None,
) -> DeviceSignals:  # fmt: skip
    """Apply faults and guards, then step one of the algorithm, on every device: its report, and its payload.

    `start_model` are the models from which the devices started, which `guards.max_update_norm` needs.
    """
    inputs = start.inputs
    checked = Checked(trained.local_model, trained.update, inputs.ready, start_model)
    checked = corrupt_and_guard(config.faults, config.guards, key, inputs.device, checked)
    multiplier, norm = config.guards.noise_multiplier, config.guards.max_update_norm
    if multiplier is not None and norm is not None:
        checked = _with_noise(multiplier * norm, key, inputs, checked)
    trained = trained._replace(local_model=checked.local_model, update=checked.update)
    signals = encode(config.algorithm, key, start, trained, checked.ready)
    if config.air.subcarriers == 1 or not config.algorithm.over_the_air:
        return signals
    spectrum = per_subcarrier(signals.payload**2, config.air.subcarriers, config.air.packing == "complex")
    return signals._replace(spectrum=spectrum)


def _with_noise(std: float, key: PRNGKeyArray, inputs: EventInputs, checked: Checked) -> Checked:
    """Add noise of standard deviation `std` to each weight of every device, after clipping."""
    keys = device_keys(key, inputs.round, inputs.device, Purpose.PRIVACY_NOISE)
    drawn = jax.vmap(lambda key: jax.random.normal(key, checked.update.shape[1:]))(keys)
    noise = std * drawn
    return checked._replace(update=checked.update + noise, local_model=checked.local_model + noise)


def encode(
    algorithm: Algorithm, key: PRNGKeyArray, start: RoundStart, trained: LocalUpdates, ready: Bool[Array, " n"]
) -> DeviceSignals:
    """Apply step one of the algorithm on every device."""
    inputs = start.inputs
    result = DeviceResult(
        local_model=trained.local_model,
        update=trained.update,
        loss=trained.loss,
        staleness=inputs.round - inputs.version,
        num_samples=start.num_samples,
        model=start.model,
        previous_model=start.previous_model,
        memory=device_memory(start),
        state=start.state.server,
        key=device_keys(key, inputs.round, inputs.device) if algorithm.draws else None,
    )

    def on_device(one: DeviceResult) -> tuple[jax.Array, Report, PyTree]:
        return algorithm.signal(one), algorithm.report(one), algorithm.remember(one)

    shared = {"model": None, "previous_model": None, "state": None, "key": None if result.key is None else 0}
    axes = DeviceResult(**{name: shared.get(name, 0) for name in DeviceResult._fields})  # type: ignore[arg-type]
    payload, report, memory = jax.vmap(on_device, in_axes=(axes,))(result)
    return DeviceSignals(payload, jnp.sum(payload**2, axis=1), report, ready, result.loss, memory)


def device_memory(start: RoundStart) -> PyTree:
    """Return what the devices of the round have stored, [n, ...] each."""
    return jax.tree.map(lambda column: column[start.inputs.device], start.state.devices)


def device_keys(
    seed: PRNGKeyArray, round: Int[Array, ""], device: Int[Array, " n"], purpose: Purpose = Purpose.SIGNAL
) -> Shaped[PRNGKeyArray, " n"]:
    """Return a key for each device in this round, for its own draws when it sends."""
    key = draw_key(seed, purpose, round)
    return jax.vmap(lambda k: jax.random.fold_in(key, k))(device)


# The channel.


def uplink_of(
    config: RoundConfig, seed: PRNGKeyArray, inputs: EventInputs, ready: Bool[Array, " n"], num_parameters: int,
    spectrum: Float[Array, "n F"] | None = None,
) -> Uplink:  # fmt: skip
    """Return the uplink of one round, faults included; `num_parameters` is d."""
    uplink = make_uplink(
        config.air, seed, max_power_w=config.power.max_power_w, round=inputs.round, time_s=inputs.time_s,
        device=inputs.device, ready=ready,
        num_parameters=num_parameters, spectrum=spectrum,
    )  # fmt: skip
    return disturb(config.faults, seed, inputs.round, inputs.device, uplink)


def superpose(gains: Gains, payload: Float[Array, "n d"]) -> Sums:
    """Return sum_k gain_k payload_k for each of the gains."""
    return tuple(superposed(gain, payload) for gain in gains)


# On the server.


def _event_of(start: RoundStart, signals: DeviceSignals) -> Event:
    """Return the round as the server sees it: scalars of the devices, and its own models."""
    inputs = start.inputs
    return Event(
        round=inputs.round,
        model=start.model,
        previous_model=start.previous_model,
        device=inputs.device,
        ready=signals.ready,
        staleness=inputs.round - inputs.version,
        num_samples=start.num_samples,
        energy=signals.energy,
        report=signals.report,
        num_devices=start.num_devices,
        state=start.state.server,
        aborted=inputs.aborted,
        group=inputs.group,
    )


def choose_amplitudes(algorithm: Algorithm, power: Power, event: Event, uplink: Uplink) -> Decision:
    """Apply step two of the algorithm: the amplitude with which each device arrives through this round's uplink."""
    uplink = algorithm.assumed(uplink)
    made = algorithm.amplitudes(event, uplink, power)
    if not isinstance(made, tuple) or len(made) != 2:
        raise UserError(
            f"amplitudes of {type(algorithm).__name__} must return paota.average(p, event), paota.weights(p, event) or "
            f"paota.Amplitudes(p, divisor), not {type(made).__name__}"
        )
    amplitude, divisor = made
    if not algorithm.over_the_air:
        return Decision(uplink, amplitude, divisor, None, (amplitude,))
    precoder = invert(amplitude, uplink.channel)  # Eq. pre-processing_parameter
    return Decision(uplink, amplitude, divisor, precoder, uplink.gains(precoder))


def finish_round(algorithm: Algorithm, event: Event, decision: Decision, sums: Sums) -> RoundOutcome:
    """Apply step three: the next model from `sums`, one superposition of the payloads for each of the gains."""
    uplink, amplitude, divisor, precoder, _ = decision
    nothing = jnp.full(event.ready.shape, jnp.nan)
    if precoder is None:
        (received,) = sums
        shown, transmit_power_w, noise_std, gain = nothing, nothing, jnp.asarray(jnp.nan), nothing
    else:
        received = uplink.receive(sums)  # Eq. Global_receive
        transmit_power_w = uplink.transmit_power_w(precoder, event.energy)
        noise_std = jnp.sqrt(uplink.noise_power_w / 2) / divisor
        channel, shown = uplink.channel, amplitude
        if uplink.actual_channel is not None:
            channel = uplink.actual_channel
            shown = jnp.where(amplitude != 0, jnp.abs(channel * precoder), 0.0)
        gain = jnp.abs(channel) ** 2
    weight, left_out = amplitude / divisor, None
    if uplink.relative is None:
        mean = received / divisor  # Eq. Normalization
    else:
        mean, weight, louder = _per_subcarrier_mean(algorithm, event, decision, received)
        noise_std = noise_std * louder
        silent = (uplink.relative == 0) @ per_subcarrier(
            jnp.ones((1, received.size)), uplink.relative.shape[1], uplink.packed
        )[0]
        left_out = jnp.where(amplitude != 0, silent, 0.0)
    heard = Heard(mean, amplitude, transmit_power_w, uplink.max_power_w)
    step = algorithm.next_model(event, heard)
    for name in step.metrics:
        refuse_recorded(name, f"next_model of {type(algorithm).__name__}")
    sent = (amplitude != 0).any()  # if no device sends, w^(r+1) = w^r exactly, with no noise
    return RoundOutcome(
        model=jnp.where(sent, step.model, event.model),
        state=jax.tree.map(lambda new, old: jnp.where(sent, new, old), step.state, event.state),
        weight=jnp.where(amplitude != 0, step.share * weight, 0.0),  # 0 also if the divisor is 0
        amplitude=shown,
        similarity=event.report.get("similarity", nothing),
        transmit_power_w=transmit_power_w,
        noise_std=jnp.where(sent, step.share * noise_std, jnp.nan),
        channel_gain=gain,
        metrics={
            name: jnp.where(sent, jnp.asarray(value, float).reshape(()), jnp.nan)
            for name, value in step.metrics.items()
        },
        left_out=left_out,
    )


def _per_subcarrier_mean(
    algorithm: Algorithm, event: Event, decision: Decision, received: Float[Array, " m"]
) -> tuple[Float[Array, " m"], Float[Array, " n"], Float[Array, ""]]:
    """Divide each subcarrier by what was sent on it: divisor sum_k p_k r_kf / sum_k p_k.

    An entry that no device sent leaves the model as it is.

    Returns:
        The mean [m], the devices' weights averaged over the subcarriers in use, and the factor of the noise by which the
        smaller divisors raise it (root mean square).
    """
    uplink, amplitude, divisor, _, _ = decision
    assert uplink.relative is not None
    share = uplink.share(amplitude)
    used = share > 0
    inverse = jnp.where(used, 1 / jnp.where(used, share, 1.0), 0.0)
    number = jnp.maximum(used.sum(), 1)
    place = subcarrier_of(received.size, share.size, uplink.packed)
    unchanged = event.model if algorithm.payload == "model" and received.shape == event.model.shape else 0.0
    mean = jnp.where(used[place], received * inverse[place] / divisor, unchanged)
    weight = amplitude / divisor * (uplink.relative @ inverse) / number
    return mean, weight, jnp.sqrt(jnp.sum(inverse**2) / number)


def apply_server_optimiser(
    server: ServerSettings, model: Float[Array, " d"], outcome: RoundOutcome, optimiser: PyTree
) -> tuple[RoundOutcome, PyTree]:
    """Apply the server's optimiser to the outcome of a round; `outcome.model` - `model` takes the gradient's place.

    Args:
        server: the settings of `[server]`.
        model: w^r.
        outcome: the outcome without the optimiser.
        optimiser: state of the optimiser.

    Returns:
        The outcome and the new state of the optimiser. If no device sends, w^(r+1) = w^r and the state stays.
    """
    if isinstance(server.optimiser, NoOptimiser):
        return outcome, optimiser
    step, new = server.optimiser.step(outcome.model - model, optimiser)
    sent = (outcome.weight != 0).any()
    model = jnp.where(sent, model + step, model)
    return outcome._replace(model=model), jax.tree.map(lambda a, b: jnp.where(sent, a, b), new, optimiser)


def updated_memory(old: PyTree, device: Int[Array, " n"], weight: Float[Array, " n"], new: PyTree) -> PyTree:
    """Return the memory [K, ...] of all devices after a round; only devices that have sent take the new one."""

    def write(column: jax.Array, values: jax.Array) -> jax.Array:
        nowhere = len(column)
        return column.at[jnp.where(weight != 0, device, nowhere)].set(values, mode="drop")

    return jax.tree.map(write, old, new)


def needs_no_reports(config: RoundConfig) -> bool:
    """Return True if the weights follow from the timeline: a digital algorithm without reports or non-finite guard."""
    plain = type(config.algorithm).report is Algorithm.report
    return plain and not config.algorithm.over_the_air and not config.guards.reject_non_finite
