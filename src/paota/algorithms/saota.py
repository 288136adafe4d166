"""SAOTA: semi-asynchronous aggregation over the air within a mean power, by virtual queues of radiated energy.

Kou, Ji, Zhong, Zhang and others: "Semi-Asynchronous Over-the-Air Federated Learning Over Heterogeneous Edge Devices", 2024.
We did not have its full text. The form p_k = min(P_max, V a_k / S^3), the queues and the bisection are the paper's; the
objective behind it, and with it a_k, is our reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..timing.schemes import Periodic
from .base import Algorithm, Amplitudes, Event, Heard, Step, average
from .energy_aware import Queues, after, amplitude_at, debts, no_debts

HALVINGS = 60  # more than a float has bits


@dataclass(frozen=True, kw_only=True)
class Saota(Algorithm):
    """p minimises V / S^2 + sum_k Q_k (p_k / q_k)^2 under p_k <= p_k^max; S = sum p, and the server divides by S.

    Noise in the model falls as 1/S^2, term (e) of the paper's bound. q_k is the amplitude at which device k radiates its
    mean power, and Q_k its queue. At zero derivative, p_k = min(p_k^max, V a_k / S^3) with a_k = q_k^2 / Q_k.
    """

    mean_power_w: float = setting(5.0, above=0, doc="Power that a device may radiate on average over all rounds.")
    tradeoff: float = setting(
        1e6, above=0, doc="V: the larger, the larger the amplitudes, and the later the mean is kept.", aliases=("V",)
    )
    payload: str = setting("update", options=("model", "update"), doc="Signal of a device.")
    scheme = Periodic()

    def init_for(self, model: Float[Array, " d"], num_devices: int) -> Queues:
        return no_debts(num_devices)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        queue = debts(event.state, event)[event.device]
        q = amplitude_at(self.mean_power_w, event, uplink)
        a = jnp.where(queue > 0, q**2 / jnp.where(queue > 0, queue, 1.0), jnp.inf)
        p_max = amplitude_cap(uplink, event.energy, power.cap)
        return average(balanced(self.tradeoff * a, jnp.where(event.ready, p_max, 0.0)), event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        queues = after(event.state, event, heard.transmit_power_w, self.mean_power_w)
        return super().next_model(event, heard)._replace(state=queues)


def balanced(va: Float[Array, " n"], p_max: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return p_k = min(p_k^max, V a_k / S^3) with S = sum p.

    The right side falls in S and the left side rises, so they meet once; bisection finds S.

    Args:
        va: V a_k, [n].
        p_max: largest amplitudes, [n].
    """

    def at(total: Float[Array, ""]) -> Float[Array, " n"]:
        cube = total**3
        return jnp.minimum(p_max, jnp.where(cube > 0, va / jnp.where(cube > 0, cube, 1.0), jnp.inf))

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        below = at(middle).sum() > middle
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    _, total = jax.lax.fori_loop(0, HALVINGS, halve, (jnp.zeros_like(p_max[0]), p_max.sum()))
    return at(total)
