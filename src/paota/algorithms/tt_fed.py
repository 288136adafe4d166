"""TT-Fed: the server aggregates every dT; devices of similar speed form tiers, and tier m takes part in every m-th period.

Zhou, Deng, Xia, Wu, Bennis: "Time-Triggered Federated Learning Over Wireless Networks", 2022. It is the scheme that
PAOTA's timing comes from. Its joint choice of users and bandwidth is left out: everybody in a tier that is due takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.settings import Power
from ..timing.schemes import Tiered
from .base import Algorithm, Amplitudes, Event, normalise, weights


@dataclass(frozen=True, kw_only=True)
class TtFed(Algorithm):
    """w^(r+1) = sum_k lambda_k w_k over the tiers that are due, lambda_k proportional to D_k m_k.

    m_k = 1 + s_k periods is what the device took. A tier that takes part m times more rarely counts m times more when it
    does, beside others. That undoes a part of the bias towards fast tiers, not all of it: in an event of their own these
    have all the weight.
    """

    over_the_air: ClassVar[bool] = False
    scheme = Tiered()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        periods = 1.0 + event.staleness
        return weights(normalise(jnp.where(event.ready, event.num_samples * periods, 0.0)), event)
