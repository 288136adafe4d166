"""Named, replaceable ideas: every choice a user can make by name lives in a `Registry`.

The names in an experiment file (`latency = "uniform"`, `name = "paota"`) are looked up here. A package of your own adds
to them with `paota.register(kind, name, thing)` or with an entry point in the group `paota.<kind>`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from .errors import UserError, unknown_name


class Registry:
    """Name -> thing. A value given as "module:attribute" is imported when it is first asked for."""

    def __init__(self, kind: str, **built_in: Any) -> None:
        self.kind = kind
        self._things: dict[str, Any] = {name.replace("_", "-"): thing for name, thing in built_in.items()}
        self._plugins_loaded = False

    def __getitem__(self, name: str) -> Any:
        if name not in self._things:
            self._load_plugins()
        if name not in self._things:
            raise unknown_name(self.kind, name, self._things)
        thing = self._things[name]
        if isinstance(thing, str):
            module, _, attribute = thing.partition(":")
            thing = self._things[name] = getattr(importlib.import_module(module), attribute)
        return thing

    def __contains__(self, name: str) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(sorted(self._things))

    def add(self, name: str, thing: Any) -> None:
        """Add `thing`; a built-in name cannot be taken over, so that a name always means one thing."""
        if name in self._things and self._things[name] is not thing:
            raise UserError(f"the {self.kind} '{name}' exists already")
        self._things[name] = thing

    def name_of(self, thing_type: type) -> str:
        """The name under which a class is registered; needed to write an experiment back to a file."""
        for name in self:
            if self[name] is thing_type:
                return name
        raise UserError(f"{thing_type.__name__} is not a registered {self.kind}: paota.register it first")

    def _load_plugins(self) -> None:
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        for point in entry_points(group=f"paota.{self.kind}"):
            self._things.setdefault(point.name, f"{point.module}:{point.attr}")


ALGORITHMS = Registry(
    "algorithm",
    paota="paota.algorithms.paota:Paota",
    local_sgd="paota.algorithms.local_sgd:LocalSgd",
    paota_plus="paota.algorithms.paota_plus:PaotaPlus",
    cotaf="paota.algorithms.cotaf:Cotaf",
    fedasync="paota.algorithms.fedasync:FedAsync",
    fedbuff="paota.algorithms.fedbuff:FedBuff",
    tt_fed="paota.algorithms.tt_fed:TtFed",
    air_fedga="paota.algorithms.air_fedga:AirFedGa",
    baa="paota.algorithms.baa:Baa",
    full_power="paota.algorithms.full_power:FullPower",
    threshold="paota.algorithms.threshold:Threshold",
)
MODELS = Registry(
    "model",
    mlp="paota.models.mlp:Mlp",
    softmax="paota.models.softmax:Softmax",
    cnn="paota.models.cnn:Cnn",
    fedavg_cnn="paota.models.fedavg_cnn:FedAvgCnn",
    lenet5="paota.models.lenet5:LeNet5",
    resnet="paota.models.resnet:ResNet",
    # What a run folder says of a model that was given in Python.
    functions="paota.models.base:FunctionModel",
    builder="paota.models.own:BuiltModel",
    equinox="paota.models.adapters.equinox_module:EquinoxModel",
    flax="paota.models.adapters.flax_modules:LinenModel",
    flax_nnx="paota.models.adapters.flax_modules:NnxModel",
    torch="paota.models.adapters.torch_module:TorchModel",
)
LATENCIES = Registry(
    "latency",
    uniform="paota.timing.latency:Uniform",
    lognormal="paota.timing.latency:LogNormal",
    per_device="paota.timing.latency:PerDevice",
    two_speeds="paota.timing.latency:TwoSpeeds",
    trace="paota.timing.latency:Trace",
)
CHANNELS = Registry(
    "channel",
    rayleigh="paota.air.fading:Rayleigh",
    rician="paota.air.fading:Rician",
    jakes="paota.air.fading:Jakes",
    none="paota.air.fading:NoFading",
)
PATH_LOSSES = Registry(
    "path_loss",
    none="paota.air.path_loss:NoPathLoss",
    log_distance="paota.air.path_loss:LogDistance",
    umi="paota.air.path_loss:UrbanMicro",
)
DIGITAL_UPLINKS = Registry(
    "digital",
    ideal="paota.air.digital:Ideal",
    ofdma="paota.air.digital:Ofdma",
    tdma="paota.air.digital:Tdma",
)
DATASETS = Registry(
    "dataset",
    mnist="paota.data.mnist:load",
    synthetic="paota.data.synthetic:load",
    cifar10="paota.data.cifar:load",
)
PARTITIONS = Registry(
    "partition",
    paper="paota.data.partition:Paper",
    rare_class="paota.data.partition:RareClass",
    dirichlet="paota.data.partition:Dirichlet",
    shards="paota.data.partition:LabelShards",
    iid="paota.data.partition:Iid",
    natural="paota.data.partition:Natural",
)
OPTIMISERS = Registry(
    "optimiser",
    sgd="paota.training.optimisers:Sgd",
    momentum="paota.training.optimisers:Momentum",
    adam="paota.training.optimisers:Adam",
)
SCHEDULES = Registry(
    "schedule",
    constant="paota.training.schedules:Constant",
    cosine="paota.training.schedules:Cosine",
    exponential="paota.training.schedules:Exponential",
    step="paota.training.schedules:StepDecay",
)
SERVER_OPTIMISERS = Registry(
    "server_optimiser",
    none="paota.server.optimisers:NoOptimiser",
    sgd="paota.server.optimisers:ServerSgd",
    momentum="paota.server.optimisers:FedAvgM",
    adam="paota.server.optimisers:FedAdam",
    yogi="paota.server.optimisers:FedYogi",
)
CALLBACKS = Registry(
    "callback",
    csv="paota.callbacks.stream:CsvStream",
    tensorboard="paota.callbacks.tracking:TensorBoard",
    mlflow="paota.callbacks.tracking:MLflow",
    wandb="paota.callbacks.tracking:WandB",
)

KINDS = {
    registry.kind: registry
    for registry in (
        ALGORITHMS,
        MODELS,
        LATENCIES,
        CHANNELS,
        PATH_LOSSES,
        DIGITAL_UPLINKS,
        DATASETS,
        PARTITIONS,
        OPTIMISERS,
        SCHEDULES,
        SERVER_OPTIMISERS,
        CALLBACKS,
    )
}


def register(kind: str, name: str, thing: Any) -> None:
    """Make your own `thing` available by `name` in experiment files.

    `kind`: "algorithm", "model", "latency", "channel", "path_loss", "digital", "dataset", "partition", "optimiser",
    "schedule", "server_optimiser" or "callback".
    """
    if kind not in KINDS:
        raise unknown_name("kind of thing to register", kind, KINDS)
    KINDS[kind].add(name, thing)
