"""One event and one air with numbers small enough to follow by hand."""

import jax
import jax.numpy as jnp
import pytest

from paota.air.uplink import Uplink
from paota.algorithms.base import Event


@pytest.fixture
def event():
    def make(updates, *, model=(1.0, 1.0), previous=(1.0, 0.0), staleness=None, ready=None, samples=None):
        updates = jnp.array(updates, float)
        n = len(updates)
        model = jnp.array(model, float)
        return Event(
            round=jnp.array(20),
            model=model,
            previous_model=jnp.array(previous),
            local_model=model + updates,
            update=updates,
            staleness=jnp.array([0] * n if staleness is None else staleness),
            num_samples=jnp.array([1.0] * n if samples is None else samples),
            ready=jnp.array([True] * n if ready is None else ready),
            num_devices=jnp.array(4.0),
            state=(),
        )

    return make


@pytest.fixture
def air():
    def make(channel, *, ready=None, noise_power_w=0.0, max_power_w=15.0, **more):
        channel = jnp.array(channel, complex)
        ready = jnp.array([True] * len(channel) if ready is None else ready)
        return Uplink(channel, ready, jnp.array(noise_power_w), jnp.array(max_power_w), jax.random.key(0), **more)

    return make
