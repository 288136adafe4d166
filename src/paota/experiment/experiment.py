"""An experiment: one setting and the algorithms that meet in it. Everything has the paper's value as default."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..air.settings import Air
from ..base import settings as _settings
from ..base.errors import UnknownSetting, UserError, is_plain, unknown_name
from ..base.plugins import load_plugin, refuse_untrusted, trust, whole_path
from ..base.registry import ALGORITHMS, DATASETS, MODELS
from ..data.settings import Data
from ..faults import Faults, Guards
from ..models.settings import ModelChoice
from ..power.settings import Power
from ..server import ServerSettings
from ..timing.settings import Timing
from ..timing.timeline import Horizon
from ..training.settings import Evaluation, Training
from .files import parse_assignment, read_preset, read_toml
from .recorded import RecordedExperiment
from .sections import OVERRIDABLE, SECTIONS, TOP_KEYS, TopSettings, check_name

if TYPE_CHECKING:
    from ..algorithms.base import Algorithm
    from ..models.base import Model


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig:
    """One line of the comparison: an algorithm, its label, and the sections in which it departs from the experiment."""

    label: str
    algorithm: Algorithm
    training: Training
    server: ServerSettings
    timing: Timing
    air: Air
    power: Power
    faults: Faults
    guards: Guards
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def algorithm_name(self) -> str:
        return ALGORITHMS.name_of(type(self.algorithm))

    def to_dict(self) -> dict[str, Any]:
        name = self.algorithm_name
        label = {} if self.label == name else {"label": self.label}
        return {"name": name, **label, **_settings.to_dict(self.algorithm), **self.overrides}


DEFAULT_ALGORITHMS = ({"name": "paota"}, {"name": "local-sgd"}, {"name": "cotaf"})


@dataclass(frozen=True, kw_only=True, repr=False)
class Experiment:
    """The whole setting. Make one with `Experiment.from_dict`, `.from_file` or `.preset`; change one with `.override`."""

    name: str
    horizon: Horizon
    seed: int
    targets: tuple[float, ...]
    data: Data
    model_choice: ModelChoice
    training: Training
    server: ServerSettings
    timing: Timing
    air: Air
    power: Power
    evaluation: Evaluation
    faults: Faults
    guards: Guards
    algorithms: tuple[AlgorithmConfig, ...]
    plugins: tuple[str, ...] = ()  # whole paths
    base: Path = field(default=Path(), compare=False)  # relative paths in the file start here

    def __repr__(self) -> str:
        names = ", ".join(config.label for config in self.algorithms)
        return f"<paota.Experiment '{self.name}': {names} with {self.data.devices:,} devices on {self.data.dataset}>"

    @property
    def model(self) -> Model:
        made: Model = self.model_choice.name
        return made

    @property
    def code(self) -> tuple[str, ...]:
        """The Python code of the user's own that it names: plug-ins, and a model as `file.py:build` or `module:build`."""
        return _code(self.plugins, self.model)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], *, base: Path = Path(), trust_plugins: bool = True) -> Experiment:
        """From nested tables in the vocabulary of the experiment file.

        Args:
            table: what differs from the paper; missing keys take the paper's values.
            base: the folder in which relative paths start.
            trust_plugins: import the Python code that the table names; if False, nothing is imported, and code that the
                user of this process has not named before is refused.
        """
        try:
            return cls._parsed(table, base, trust_plugins)
        except UnknownSetting as error:
            from .reference import explained

            raise explained(error) from None

    @classmethod
    def _parsed(cls, table: Mapping[str, Any], base: Path, trust_plugins: bool) -> Experiment:
        known = [*TOP_KEYS, *SECTIONS, "algorithms"]
        for key in table:
            if key not in known:
                raise UnknownSetting(key, known)
        top = _settings.parse(TopSettings, {k: table[k] for k in TOP_KEYS if k in table}, "experiment")
        check_name(top.name)
        if top.rounds is not None and top.duration_s is not None:
            raise UserError("give rounds or duration_s, not both")
        plugins = tuple(dict.fromkeys(whole_path(base / name, "plugins") for name in top.plugins))
        table = _locate_model(table, base)
        (trust if trust_plugins else refuse_untrusted)(_code(plugins, table["model"].get("name")))
        for file in plugins if trust_plugins else ():
            load_plugin(file, "plugins")
        table = _locate_files(_name_dataset(table), base)
        sections: dict[str, Any] = {
            name: _settings.parse(section, table.get(name, {}), name) for name, section in SECTIONS.items()
        }
        horizon = Horizon(rounds=100) if top.rounds is None else Horizon(rounds=top.rounds)
        if top.duration_s is not None:
            horizon = Horizon(rounds=None, duration_s=top.duration_s)
        entries = table.get("algorithms", DEFAULT_ALGORITHMS)
        return cls(
            name=top.name, horizon=horizon, seed=top.seed, targets=top.targets, plugins=plugins,
            model_choice=sections.pop("model"), **sections, algorithms=_algorithms(entries, table), base=base,
        )  # fmt: skip

    @classmethod
    def from_file(cls, path: str | Path, *, trust_plugins: bool = True) -> Experiment:
        """From a TOML file.

        Args:
            path: of the file; relative paths in it start at its own folder.
            trust_plugins: as for `from_dict`.
        """
        return cls.from_dict(read_toml(path), base=Path(path).parent, trust_plugins=trust_plugins)

    @classmethod
    def preset(cls, name: str) -> Experiment:
        """One of the experiments that come with the package.

        Args:
            name: "paper", "quick", ...; `paota presets` lists them.
        """
        return cls.from_dict(read_preset(name))

    def override(self, changes: Mapping[str, Any]) -> Experiment:
        """A copy with some settings changed.

        Args:
            changes: dotted keys and their values, `{"timing.period_s": 6, "algorithms.paota.payload": "update"}`; the same
                vocabulary as `--set`.
        """
        table = self.to_dict()
        if hasattr(self.model, "written_name"):  # a file cannot say more of it than its name
            table["model"] = {"name": self.model}
        return Experiment.from_dict(override(table, changes), base=self.base)

    def to_dict(self) -> dict[str, Any]:
        """Every setting spelled out, as the file that would give this experiment."""
        end = {"rounds": self.horizon.rounds, "duration_s": self.horizon.duration_s}
        return {
            "name": self.name,
            **{key: value for key, value in end.items() if value is not None},
            "seed": self.seed,
            "targets": list(self.targets),
            **({"plugins": list(self.plugins)} if self.plugins else {}),
            **{
                name: _settings.to_dict(self.model_choice if name == "model" else getattr(self, name))
                for name in SECTIONS
            },
            "algorithms": [config.to_dict() for config in self.algorithms],
        }


def _name_dataset(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """`data.dataset = dataset`, an object, means its name, under which it is registered from now on."""
    mine = table.get("data")
    given = mine.get("dataset") if isinstance(mine, Mapping) else None
    if given is None or not hasattr(given, "x_train"):
        return table
    DATASETS.add(given.name, lambda: given)
    return {**table, "data": {**table["data"], "dataset": given.name}}


def _locate_files(table: Mapping[str, Any], base: Path) -> Mapping[str, Any]:
    """Files named relative to the experiment file get their whole path, so that the settings mean the same anywhere."""
    located = dict(table)
    for section, key in (("data", "dataset"), ("timing", "trace_file"), ("timing", "fleet_file")):
        mine = table.get(section)
        name = mine.get(key) if isinstance(mine, Mapping) else None
        if isinstance(name, str) and name not in DATASETS and "\0" not in name and len(name) < 4096:
            with contextlib.suppress(OSError):
                if (base / name).exists():
                    located[section] = {**located[section], key: str((base / name).resolve())}
    if isinstance(entries := table.get("algorithms"), list | tuple):  # each may have sections of its own
        located["algorithms"] = [_locate_files(one, base) if isinstance(one, Mapping) else one for one in entries]
    return located


def _locate_model(table: Mapping[str, Any], base: Path) -> Mapping[str, Any]:
    """`model = net` means `model = {"name": net}`, and a name "module:attribute" gets its whole path like other files."""
    mine = table.get("model", {})
    if not isinstance(mine, Mapping):
        mine = {"name": mine}
    if isinstance(name := mine.get("name"), str) and ":" in name and name not in MODELS:
        from ..models.custom import ImportedModel

        mine = {**mine, "name": ImportedModel.beside(base, name)}
    return {**table, "model": mine}


def _code(plugins: tuple[str, ...], model: Any) -> tuple[str, ...]:
    name = getattr(model, "written_name", "")
    return (*plugins, name) if ":" in name else plugins


def _algorithms(entries: Any, table: Mapping[str, Any]) -> tuple[AlgorithmConfig, ...]:
    if not isinstance(entries, list | tuple) or not entries:
        raise UserError(
            "algorithms must be a list of tables with at least one entry, e.g. [[algorithms]] name = 'paota'"
        )
    made = []
    for i, entry in enumerate(entries):
        where = f"algorithms[{i}]"
        if not isinstance(entry, Mapping):
            raise UserError(f"{where} must be a table with a name, not {entry!r}")
        entry = dict(entry)
        name = entry.pop("name", None)
        if not isinstance(name, str):
            raise UserError(f"{where} needs a name, one of: {', '.join(ALGORITHMS)}")
        label = entry.pop("label", name)
        if not isinstance(label, str) or not label.strip() or not is_plain(label):
            raise UserError(f"{where}.label must be a text without control characters, not {label!r:.80}")
        overrides = {key: entry.pop(key) for key in OVERRIDABLE if key in entry}
        sections: dict[str, Any] = {}
        for key in OVERRIDABLE:
            own = overrides.get(key, {})
            if not isinstance(own, Mapping):
                raise UserError(f"{where}.{key} must be a table of settings, not {own!r}")
            mine = _settings.merge(SECTIONS[key], table.get(key, {}), own) if own else table.get(key, {})
            sections[key] = _settings.parse(SECTIONS[key], mine, f"{where}.{key}" if own else key)
        algorithm = _settings.parse(ALGORITHMS[name], entry, where)
        made.append(AlgorithmConfig(label=label, algorithm=algorithm, overrides=overrides, **sections))
    labels = [c.label for c in made]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UserError(f"two algorithms are labelled '{twice}': give one of them a label of its own")
    return tuple(made)


def override(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`table` with dotted keys set: {"air.n0_dbm_per_hz": -74}; `algorithms.LABEL.key` reaches into one algorithm."""
    changed: dict[str, Any] = {key: _copy(value) for key, value in table.items()}
    for dotted, value in changes.items():
        first, *rest = dotted.split(".")
        if not rest and first in ("rounds", "duration_s"):  # the one replaces the other
            changed.pop("duration_s" if first == "rounds" else "rounds", None)
        if first == "algorithms" and rest:
            entries = [dict(entry) for entry in changed.get("algorithms", DEFAULT_ALGORITHMS)]
            label, *rest = rest
            mine = [entry for entry in entries if entry.get("label", entry.get("name")) == label]
            if not mine:
                labels = [str(entry.get("label", entry.get("name"))) for entry in entries]
                raise unknown_name("algorithm label", label, labels, ALGORITHMS.aliases)
            if not rest:
                raise UserError(f"'{dotted}' is a whole table: set one of its keys, e.g. {dotted}.payload")
            _put(mine[0], rest, value, dotted)
            changed["algorithms"] = entries
        else:
            _put(changed, [first, *rest], value, dotted)
    for section, cls in SECTIONS.items():
        own = {key.partition(".")[2]: value for key, value in changes.items() if key.startswith(f"{section}.")}
        if own and isinstance(table.get(section), Mapping):
            changed[section] = _settings.merge(cls, _copy(table[section]), own)
    return changed


def _put(table: dict[str, Any], keys: list[str], value: Any, dotted: str) -> None:
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            from .reference import explained

            raise explained(UnknownSetting(dotted, [*TOP_KEYS, *SECTIONS]))
    table[keys[-1]] = value


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def as_experiment(
    source: Experiment | RecordedExperiment | Mapping[str, Any] | str | Path | None,
    changes: Iterable[str] = (),
    plugins: Iterable[str | Path] = (),
    *,
    trust_plugins: bool = True,
) -> Experiment:
    """Whatever a user may hand over.

    Args:
        source: nothing (the paper), an experiment, a table, a file.
        changes: `section.key=value` assignments.
        plugins: Python files beside those that the experiment names; relative paths start at the current folder.
        trust_plugins: as for `Experiment.from_dict`.
    """
    if isinstance(source, RecordedExperiment):
        raise UserError(f"this run was opened as data, without the code that it needs: {source.why}")
    assignments = dict(parse_assignment(text) for text in changes)
    if isinstance(source, Experiment):
        return source.override(assignments) if assignments else source
    base = Path()
    if source is None:
        table: Mapping[str, Any] = {}
    elif isinstance(source, Mapping):
        table = source
    else:
        table, base = read_toml(source), Path(source).parent
    table = override(table, assignments)
    if more := [whole_path(Path(file), "--plugin") for file in plugins]:
        named = table.get("plugins", [])
        table = {**table, "plugins": [*named, *more] if isinstance(named, list) else named}
    return Experiment.from_dict(table, base=base, trust_plugins=trust_plugins)
