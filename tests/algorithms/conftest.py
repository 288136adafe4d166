"""One event and one air with numbers small enough to follow by hand."""

import jax
import jax.numpy as jnp
import pytest

from paota import Uplink, aggregate_by_hand
from paota.power.settings import Power


@pytest.fixture
def play():
    """play(rule, updates, air, power, ...): one round from w^r = (1, 1), w^(r-1) = (1, 0), of four devices in all.

    Amplitudes are limited as printed (p_k <= P_max) unless `power` says otherwise: numbers that one can follow by hand.
    """

    def one_round(rule, updates, air, power=None, **happening):
        plain = {"model": (1.0, 1.0), "previous_model": (1.0, 0.0), "num_devices": 4, "round": 20}
        return aggregate_by_hand(rule, updates, uplink=air, power=power or Power(cap="paper"), **{**plain, **happening})

    return one_round


@pytest.fixture
def air():
    def make(channel, *, ready=None, noise_power_w=0.0, max_power_w=15.0, **more):
        channel = jnp.array(channel, complex)
        ready = jnp.array([True] * len(channel) if ready is None else ready)
        return Uplink(channel, ready, jnp.array(noise_power_w), jnp.array(max_power_w), jax.random.key(0), **more)

    return make
