"""Named, replaceable ideas: every choice a user can make by name lives in a `Registry`.

The names in an experiment file (`latency = "uniform"`, `name = "paota"`) are looked up here. Your package adds names with
`paota.register(kind, name, thing)` or with an entry point in the group `paota.<kind>`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from types import FunctionType
from typing import Any

from .errors import UserError, did_you_mean, listed, nearest, plain, unknown_name
from .plugins import plugin_modules


class Registry:
    """A mapping from names to things. A thing given as "module:attribute" is imported at its first use.

    Args:
        kind: what the things are.
        needs: required methods of a thing; "a|b" requires one of the two.
        settings: whether a thing is a frozen dataclass whose fields are settings.
        aliases: names in other frameworks or papers -> names of built-in things.
        options: settings that such a name needs as well, as a file would write them.
        built_in: "module:attribute" of the built-in things; underscores in a name stand for hyphens.
    """

    def __init__(
        self,
        kind: str,
        *,
        needs: tuple[str, ...] = (),
        settings: bool = True,
        aliases: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        **built_in: str,
    ) -> None:
        self.kind, self.needs, self.settings, self.aliases = kind, needs, settings, aliases or {}
        self.options = options or {}
        self._things: dict[str, object] = {name.replace("_", "-"): thing for name, thing in built_in.items()}
        self._built_in = frozenset(self._things)
        self._names: dict[object, str] = {}  # of everything ever registered: objects of a replaced class live on
        self._plugins_loaded = False

    def __getitem__(self, name: str) -> Any:
        if name not in self._things:
            self._load_plugins()
        if name not in self._things:
            raise self.unknown(name)
        thing = self._things[name]
        if isinstance(thing, str):
            module, _, attribute = thing.partition(":")
            thing = getattr(importlib.import_module(module), attribute)
            if name not in self._built_in:
                self._check(name, thing)
            self._things[name] = thing
        return thing

    def unknown(self, name: str) -> UserError:
        """Return the error for a name that does not exist."""
        error = unknown_name(self.kind, name, self, self.aliases)
        return (
            UserError(f"{str(error)[:-1]} with {self.options[plain(name)]}?") if plain(name) in self.options else error
        )

    def __contains__(self, name: str) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(sorted(self._things))

    def add(self, name: str, thing: object) -> None:
        """Check and add a thing. Only the module that registered a name may replace it (a notebook cell that runs again)."""
        before = self._things.get(name)
        if before is thing:
            return
        if before is not None and (name in self._built_in or _origin(before) != _origin(thing)):
            raise UserError(f"the {self.kind} '{name}' exists already: choose another name")
        self._check(name, thing)
        self._things[name] = thing
        if self.settings:  # `name_of` is for these only; a replaced data set may be freed
            self._names[thing] = name

    @property
    def added(self) -> dict[str, object]:
        """The things that are not built in, by name."""
        return {name: thing for name, thing in self._things.items() if name not in self._built_in}

    def name_of(self, thing_type: type) -> str:
        """Return the name of a registered class, which is written to experiment files."""
        if thing_type in self._names:
            return self._names[thing_type]
        for name in self:
            if self[name] is thing_type:
                return name
        raise UserError(f"{thing_type.__name__} is not a registered {self.kind}: paota.register it first")

    def _check(self, name: str, thing: object) -> None:
        """Raise a `UserError` if a thing lacks something."""
        who = f"the {self.kind} '{name}'"
        if self.settings:
            if not isinstance(thing, type):
                raise UserError(f"{who} must be a class, not {type(thing).__name__}")
            if not dataclasses.is_dataclass(thing) or not getattr(thing, "__dataclass_params__").frozen:  # noqa: B009
                raise UserError(
                    f"{who} must be a frozen dataclass: write @dataclass(frozen=True, kw_only=True) above it"
                )
        elif not callable(thing):
            raise UserError(f"{who} must be a function or a class, not {type(thing).__name__}")
        for need in self.needs:
            if not any(callable(getattr(thing, method, None)) for method in need.split("|")):
                raise UserError(f"{who} has no method {need.replace('|', ' or ')} (docs/extend.md shows what it needs)")
        refuse_misspelt_hooks(thing, who)
        if missing := sorted(getattr(thing, "__abstractmethods__", ())):
            raise UserError(f"{who} has no {' and no '.join(missing)} (docs/extend.md shows what it needs)")

    def _load_plugins(self) -> None:
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        for point in entry_points(group=f"paota.{self.kind}"):
            self._things.setdefault(point.name, f"{point.module}:{point.attr}")


def refuse_misspelt_hooks(thing: object, who: str) -> None:
    """Refuse a class with a public method that looks like a hook of its base class: it would never be called."""
    bases = getattr(thing, "__mro__", ())
    hooks, own = (
        {
            name
            for base in bases if (base.__module__.partition(".")[0] == "paota") is ours
            for name, value in vars(base).items() if isinstance(value, FunctionType) and name[0] != "_"
        }
        for ours in (True, False)
    )  # fmt: skip
    for name in sorted(own - hooks if hooks else ()):
        stem, word = name.removeprefix("on_"), f"{name.partition('_')[0]}_"
        near = nearest(stem, sorted(hooks), cutoff=0.75) or next((h for h in hooks if h.startswith(word)), None)
        if near or stem != name:
            raise UserError(
                f"{who} has a method {name}, which is never called: {did_you_mean([near]) if near else listed(sorted(hooks))} "
                "(the name of a method of your own may begin with an underscore)"
            )


def _origin(thing: object) -> str | None:
    """Return the module of a thing or of its "module:attribute"."""
    return thing.partition(":")[0] if isinstance(thing, str) else getattr(thing, "__module__", None)


ALGORITHMS = Registry(
    "algorithm",
    needs=("amplitudes", "next_model"),
    aliases={
        "fedavg": "local-sgd",
        "federated-averaging": "local-sgd",
        "fedsgd": "local-sgd",
        "sgd": "local-sgd",
        "fedprox": "local-sgd",
        "async": "fedasync",
        "buffered": "fedbuff",
        "air-comp": "full-power",
        "channel-inversion": "baa",
        "obda": "majority-vote",
        "signsgd": "majority-vote",
        "fsk-mv": "fsk-vote",
        "top-k": "age-top-k",
        "round-robin": "age-based",
    },
    options={"fedprox": "training={proximal=0.01}"},
    paota="paota.algorithms.paota:Paota",
    local_sgd="paota.algorithms.local_sgd:LocalSgd",
    paota_plus="paota.algorithms.paota_plus:PaotaPlus",
    cotaf="paota.algorithms.cotaf:Cotaf",
    fedasync="paota.algorithms.fedasync:FedAsync",
    fedbuff="paota.algorithms.fedbuff:FedBuff",
    tt_fed="paota.algorithms.tt_fed:TtFed",
    air_fedga="paota.algorithms.air_fedga:AirFedGa",
    baa="paota.algorithms.baa:Baa",
    full_power="paota.algorithms.threshold:FullPower",
    threshold="paota.algorithms.threshold:Threshold",
    majority_vote="paota.algorithms.majority_vote:MajorityVote",
    fsk_vote="paota.algorithms.majority_vote:FskVote",
    biased_ota="paota.algorithms.biased_ota:BiasedOta",
    age_top_k="paota.algorithms.age_top_k:AgeTopK",
    energy_aware="paota.algorithms.energy_aware:EnergyAware",
    age_based="paota.algorithms.age_based:AgeBased",
    saota="paota.algorithms.saota:Saota",
    sa_airfed="paota.algorithms.sa_airfed:SaAirFed",
    fedat="paota.algorithms.fedat:FedAt",
    scaffold="paota.algorithms.scaffold:Scaffold",
)
MODELS = Registry(
    "model",
    needs=("init", "apply"),
    aliases={
        "logistic-regression": "softmax",
        "logistic": "softmax",
        "linear": "softmax",
        "lenet": "lenet5",
        "resnet8": "resnet",
        "resnet20": "resnet",
        "dnn": "mlp",
        "fc": "mlp",
        "perceptron": "mlp",
        "pytorch": "torch",
    },
    mlp="paota.models.mlp:Mlp",
    softmax="paota.models.mlp:Softmax",
    cnn="paota.models.cnn:Cnn",
    fedavg_cnn="paota.models.cnn:FedAvgCnn",
    lenet5="paota.models.cnn:LeNet5",
    resnet="paota.models.resnet:ResNet",
    # Names in a run folder for models that were given in Python.
    functions="paota.models.base:FunctionModel",
    builder="paota.models.custom:BuiltModel",
    equinox="paota.models.adapters:EquinoxModel",
    flax="paota.models.adapters:LinenModel",
    flax_nnx="paota.models.adapters:NnxModel",
    torch="paota.models.torch_module:TorchModel",
)
LATENCIES = Registry(
    "latency",
    needs=("draw",),
    aliases={
        "log-normal": "lognormal",
        "constant": "per-device",
        "fixed": "per-device",
        "file": "trace",
        "measured": "fleet",
        "flops": "work",
    },
    uniform="paota.timing.latency:Uniform",
    lognormal="paota.timing.latency:LogNormal",
    per_device="paota.timing.latency:PerDevice",
    two_speeds="paota.timing.latency:TwoSpeeds",
    trace="paota.timing.latency:Trace",
    work="paota.timing.compute:ComputeLatency",
    fleet="paota.timing.compute:Measured",
)
CHANNELS = Registry(
    "channel",
    needs=("draw|draw_at",),
    aliases={"ricean": "rician", "awgn": "none", "ideal": "none", "clarke": "jakes", "sionna": "file"},
    rayleigh="paota.air.fading:Rayleigh",
    rician="paota.air.fading:Rician",
    jakes="paota.air.fading:Jakes",
    none="paota.air.fading:NoFading",
    file="paota.air.imported:FileChannel",
)
PATH_LOSSES = Registry(
    "path_loss",
    needs=("gain",),
    aliases={"free-space": "log-distance", "3gpp": "umi", "urban-micro": "umi"},
    none="paota.air.path_loss:NoPathLoss",
    log_distance="paota.air.path_loss:LogDistance",
    umi="paota.air.path_loss:UrbanMicro",
)
DIGITAL_UPLINKS = Registry(
    "digital",
    ideal="paota.air.digital:Ideal",
    ofdma="paota.air.digital:Ofdma",
    tdma="paota.air.digital:Tdma",
    rated="paota.air.digital:Rated",
)
DOWNLINKS = Registry(
    "downlink",
    aliases={"none": "ideal", "noisy": "analog", "rated": "digital"},
    ideal="paota.air.downlink:IdealDownlink",
    digital="paota.air.downlink:DigitalDownlink",
    analog="paota.air.downlink:AnalogDownlink",
)
DATASETS = Registry(
    "dataset",
    settings=False,
    aliases={"cifar": "cifar10", "digits": "mnist"},
    mnist="paota.data.mnist:load",
    synthetic="paota.data.synthetic:load",
    cifar10="paota.data.cifar:load",
)
PARTITIONS = Registry(
    "partition",
    needs=("__call__",),
    aliases={"lda": "dirichlet", "pathological": "shards", "non-iid": "dirichlet", "homogeneous": "iid"},
    paper="paota.data.partition:Paper",
    rare_class="paota.data.partition:RareClass",
    dirichlet="paota.data.partition:Dirichlet",
    shards="paota.data.partition:LabelShards",
    iid="paota.data.partition:Iid",
    natural="paota.data.partition:Natural",
)
OPTIMISERS = Registry(
    "optimiser",
    needs=("transformation",),
    aliases={"nesterov": "momentum", "adamw": "adam"},
    sgd="paota.training.optimisers:Sgd",
    momentum="paota.training.optimisers:Momentum",
    adam="paota.training.optimisers:Adam",
)
SCHEDULES = Registry(
    "schedule",
    needs=("factor",),
    aliases={"none": "constant", "cosine-annealing": "cosine", "multi-step": "step"},
    constant="paota.training.optimisers:Constant",
    cosine="paota.training.optimisers:Cosine",
    exponential="paota.training.optimisers:Exponential",
    step="paota.training.optimisers:StepDecay",
)
SERVER_OPTIMISERS = Registry(
    "server_optimiser",
    needs=("init", "step"),
    aliases={"fedavg": "none", "fedavgm": "momentum", "fedadam": "adam", "fedyogi": "yogi"},
    none="paota.server.optimisers:NoOptimiser",
    sgd="paota.server.optimisers:ServerSgd",
    momentum="paota.server.optimisers:FedAvgM",
    adam="paota.server.optimisers:FedAdam",
    yogi="paota.server.optimisers:FedYogi",
)
CALLBACKS = Registry(
    "callback",
    settings=False,
    aliases={"weights-and-biases": "wandb", "tb": "tensorboard"},
    csv="paota.callbacks.stream:CsvStream",
    tensorboard="paota.callbacks.tracking:TensorBoard",
    mlflow="paota.callbacks.tracking:MLflow",
    wandb="paota.callbacks.tracking:WandB",
)

KINDS = {registry.kind: registry for registry in list(globals().values()) if isinstance(registry, Registry)}


def registered() -> dict[tuple[str, str, str], object]:
    """Return what this process registered outside plug-ins, by ("register", kind, name)."""
    elsewhere = plugin_modules()
    return {
        ("register", kind, name): thing
        for kind, registry in KINDS.items()
        for name, thing in registry.added.items()
        if not isinstance(thing, str) and _origin(thing) not in elsewhere
    }


def register(kind: str, name: str, thing: object) -> None:
    """Make your own `thing` available by `name` in experiment files.

    A notebook cell or file that registers a name again replaces it. A thing that lacks a method is a `UserError`.

    Args:
        kind: "algorithm", "model", "latency", "channel", "path_loss", "digital", "downlink", "dataset", "partition",
            "optimiser", "schedule", "server_optimiser" or "callback".
        name: its name in experiment files; names of built-in things are reserved.
        thing: a frozen dataclass whose fields are its settings; for a data set, a function without arguments that
            returns a `paota.Dataset`.
    """
    if kind not in KINDS:
        raise unknown_name("kind of thing to register", kind, KINDS)
    KINDS[kind].add(name, thing)
