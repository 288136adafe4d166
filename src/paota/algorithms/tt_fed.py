"""TT-Fed: the server aggregates every dT, and tier m of devices of similar speed takes part in every m-th period.

Zhou, Deng, Xia, Wu, Bennis: "Time-Triggered Federated Learning Over Wireless Networks", 2022. PAOTA's
timing comes from this scheme. Left out: its joint choice of users and bandwidth. All devices of a due tier take part.
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

    The training of a device took m_k = 1 + s_k periods. A tier that takes part m times more rarely has m times more weight
    beside others. This removes a part of the bias towards fast tiers, but not all: alone in an event they have all the
    weight.
    """

    over_the_air: ClassVar[bool] = False
    scheme = Tiered()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        periods = 1.0 + event.staleness
        return weights(normalise(jnp.where(event.ready, event.num_samples * periods, 0.0)), event)
