"""What has to be said before anybody can send: bits and seconds of the control channel.

Over the air every ready device tells the server |payload_k| and whatever its algorithm reports; the server tells it how
loud to be. Where the report compares with a global step that stale devices do not have, that step is broadcast first; what
an algorithm announces in every event (which weights to send) is broadcast, too.
"""

from __future__ import annotations

import numpy as np

from ..air.settings import Air
from ..algorithms.base import Algorithm, DeviceResult
from ..base.files import Columns
from ..timing.timeline import Timeline


def reported_scalars(algorithm: Algorithm) -> int:
    """How many scalars a device tells the server in an event: what its algorithm reports, and a norm."""
    import jax
    import jax.numpy as jnp

    def report() -> object:
        w, one = jnp.zeros(1), jnp.zeros(())
        state, memory = algorithm.init_for(w, 1), algorithm.memory(w)
        key = jax.random.key(0) if algorithm.draws else None
        return algorithm.report(DeviceResult(w, w, one, jnp.zeros((), int), one, w, w, memory, state, key))

    program_shape = [leaf.size for leaf in jax.tree.leaves(jax.eval_shape(report))]
    return sum(program_shape) + _told(algorithm)


def _told(algorithm: Algorithm) -> int:
    """Scalars that the server tells a device: how loud to be."""
    return 1 if algorithm.over_the_air and algorithm.told_amplitudes else 0


def control_columns(algorithm: Algorithm, air: Air, timeline: Timeline, events: int, num_parameters: int) -> Columns:
    """Bits and seconds of each of the first `events` events, behind a row for the initial model; empty where control is free.

    `num_parameters`: d, of which a broadcast step has as many.
    """
    if air.control_mbit_per_s is None:
        return {}
    ready = timeline.ready[:events]
    stale = np.bincount(timeline.event, timeline.staleness > 0, minlength=len(timeline))[:events] > 0
    scalars = ready * (reported_scalars(algorithm) + _told(algorithm)) + stale * algorithm.broadcast(num_parameters)
    announced = (ready > 0) * algorithm.announced_bits(num_parameters)
    bits = np.concatenate([[0.0], scalars * float(air.scalar_bits) + announced])
    return {"control_bits": bits, "control_s": bits / (1e6 * air.control_mbit_per_s)}
