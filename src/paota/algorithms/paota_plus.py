"""PAOTA+: the first devices to finish move the model at once, and late ones turn its course.

The algorithm is from this project; docs/paota-plus.md has its derivation, stability limit and measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..timing.first_to_finish import FirstToFinish
from .base import Algorithm, Amplitudes, DeviceResult, Event, Heard, Step
from .threshold import aligned_level


class Sums(NamedTuple):
    """State of the server: sums of the updates so far and their number; older ones count less."""

    fresh: Float[Array, " d"]
    late: Float[Array, " d"]
    num_fresh: Float[Array, ""]
    num_late: Float[Array, ""]


@dataclass(frozen=True, kw_only=True)
class PaotaPlus(Algorithm):
    """w <- w + g (F + boost A): F is the mean fresh update of the event, and A the trend of fresh and late updates.

    A = (1 - phi) f / N_f + phi s / N_s, with f <- d f + sum of fresh updates, N_f <- d N_f + their number, and s, N_s alike
    for late ones. phi = v N_s / (N_f + v N_s), at most (1 + boost) / (2 boost): up to there a delay of late updates, however
    long, takes nothing from the stability limit G. g = G n / (n + noise / 2) for n fresh updates, halved at the first event
    and three quarters at the second. The air carries two sums, so two transmissions count. Devices arrive with
    p_k = min(t, p_k^max), where t is the level of least error. They keep their budgets for any `power.cap`.
    """

    noise: float = setting(
        12.0,
        low=0,
        doc="Number of devices whose mean update holds as much noise as signal; more wait for more devices.",
    )
    boost: float = setting(2.5, above=0, doc="Step along the trend, relative to that along the mean fresh update.")
    decay: float = setting(
        0.8, low=0, high=0.99, doc="d: weight of an update in the trend, relative to one an event later."
    )
    late_weight: float = setting(1.5, low=0, doc="v: weight of a late update in the trend, relative to a fresh one.")
    step: float = setting(1.0, above=0, doc="Largest step as a share of the stability limit.")
    payload = "update"

    @property
    def scheme(self) -> FirstToFinish:
        return FirstToFinish(self.noise)

    def signal(self, result: DeviceResult) -> Float[Array, " m"]:
        """Return the update in the first half of the signal if it is fresh, else in the second half (m = 2 d)."""
        fresh = result.staleness == 0
        return jnp.concatenate([jnp.where(fresh, result.update, 0.0), jnp.where(fresh, 0.0, result.update)])

    def symbols(self, num_parameters: int, packed: bool) -> int:
        return 2 * super().symbols(num_parameters, packed)

    def sensitivity(self, clip_norm: float) -> float | None:
        return 2 * clip_norm

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        cap = amplitude_cap(uplink, event.energy, "physical")
        t = aligned_level(cap, event, uplink)
        return Amplitudes(
            jnp.where(event.ready, jnp.minimum(t, cap), 0.0), divisor=t * jnp.maximum(event.ready.sum(), 1)
        )

    def init(self, model: Float[Array, " d"]) -> Sums:
        nothing = jnp.zeros_like(model)
        return Sums(nothing, nothing, jnp.zeros(()), jnp.zeros(()))

    def next_model(self, event: Event, heard: Heard) -> Step:
        is_late = event.staleness > 0
        n_fresh, n_late = jnp.sum(event.ready & ~is_late), jnp.sum(event.ready & is_late)
        fresh, late = jnp.split(heard.received * (n_fresh + n_late), 2)
        sums = self._sums(event, fresh, late, n_fresh, n_late)
        weight = self.late_weight * sums.num_late
        phi = jnp.minimum(weight / _or_one(sums.num_fresh + weight), (1 + self.boost) / (2 * self.boost))
        trend = (1 - phi) * sums.fresh / _or_one(sums.num_fresh) + phi * sums.late / _or_one(sums.num_late)
        step = self.step * stability_limit(self.boost, self.decay) * n_fresh / _or_one(n_fresh + self.noise / 2)
        step = step * jnp.minimum(1.0, (event.round + 2) / 4)  # at first, local training contracts by more than 1
        return Step(event.model + step * (fresh / _or_one(n_fresh) + self.boost * trend), state=sums)

    def _sums(
        self, event: Event, fresh: Float[Array, " d"], late: Float[Array, " d"],
        n_fresh: Int[Array, ""], n_late: Int[Array, ""],
    ) -> Sums:  # fmt: skip
        """Return the sums with this event. The first event finds a trend of zero that is as well known as later ones."""
        old, d = event.state, self.decay
        num_fresh = jnp.where(event.round == 0, n_fresh / (1 - d), old.num_fresh)
        return Sums(d * old.fresh + fresh, d * old.late + late, d * num_fresh + n_fresh, d * old.num_late + n_late)


def stability_limit(boost: float, decay: float) -> float:
    """Return the largest stable step if every local training contracts by h <= 1 (divide it by h).

    In a direction in which an update from w is -h w, the loop (z - 1)(z - d) + g h (z - d + boost (1 - d) z) = 0 is stable
    exactly up to here: its root leaves the unit circle at z = -1.

    Args:
        boost: as for `PaotaPlus`.
        decay: as for `PaotaPlus`.
    """
    return 2 / (1 + boost * (1 - decay) / (1 + decay))


def _or_one(number: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(number > 0, number, 1.0)
