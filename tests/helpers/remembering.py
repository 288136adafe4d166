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
class Scaffold(paota.SynchronousAlgorithm):
    """Option II of Karimireddy et al., 2020, with a global step of 1: c_k <- c_k - c - dw_k / (M eta).

    The mean change of the c_k follows from the mean update, so that devices send nothing more.
    """

    local_steps: int = 5
    learning_rate: float = 0.1
    payload = "update"
    over_the_air = False

    def gradient_shift(self, memory, state):
        return state - memory

    def memory(self, model):
        return jnp.zeros_like(model)

    def remember(self, work):
        return work.memory - work.state - work.update / (self.local_steps * self.learning_rate)

    def amplitudes(self, event, uplink, power):
        return paota.weights(paota.normalise(event.ready.astype(float)), event)

    def init(self, model):
        return jnp.zeros_like(model)

    def next_model(self, event, heard):
        change = -event.state - heard.received / (self.local_steps * self.learning_rate)
        share = event.ready.sum() / event.num_devices
        return paota.Step(event.model + heard.received, state=event.state + share * change)


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
paota.register("algorithm", "scaffold", Scaffold)
paota.register("algorithm", "worst-first", WorstFirst)
