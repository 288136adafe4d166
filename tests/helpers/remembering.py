"""A plug-in with algorithms whose devices have memories or longer reports; tests simulate and deploy them."""

from dataclasses import dataclass

import jax.numpy as jnp

import paota


@dataclass(frozen=True, kw_only=True)
class Mifa(paota.Algorithm):
    """An average of every device's newest update, absent devices included: G <- G + (1/K) sum_k (dw_k - last dw_k)."""

    payload = "update"
    over_the_air = False
    scheme = paota.Periodic()

    def memory(self, model):
        return jnp.zeros_like(model)

    def remember(self, work):
        return work.update

    def signal(self, work):
        return work.update - work.memory

    def amplitudes(self, event, uplink, power):
        return paota.weights(jnp.ones_like(event.num_samples) / event.num_devices, event)

    def init(self, model):
        return jnp.zeros_like(model)

    def next_model(self, event, heard):
        mean = event.state + heard.received
        return paota.Step(event.model + mean, state=mean)


@dataclass(frozen=True, kw_only=True)
class WorstFirst(paota.Algorithm):
    """Weights proportional to the losses: alpha_k ~ F_k."""

    payload = "update"
    over_the_air = False
    scheme = paota.Periodic()

    def report(self, work):
        return {"loss": work.loss}

    def amplitudes(self, event, uplink, power):
        return paota.weights(paota.normalise(jnp.where(event.ready, event.report["loss"], 0.0)), event)


@dataclass(frozen=True)
class AfterThree(paota.Scheme):
    """A scheme that aggregates as soon as three trainings finish; their devices restart with the new model."""

    def run(self, server):
        server.start(server.everyone)
        while True:
            ready = yield paota.Wait(count=3)
            server.aggregate(ready)
            server.start(ready.device)


@dataclass(frozen=True, kw_only=True)
class MifaAfterThree(Mifa):
    """PAOTA with the scheme of this file."""

    scheme = AfterThree()


paota.register("algorithm", "mifa-after-three", MifaAfterThree)
paota.register("algorithm", "mifa", Mifa)
paota.register("algorithm", "worst-first", WorstFirst)
