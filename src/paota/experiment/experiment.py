"""An experiment: settings, and the algorithms that run under them. The defaults are the paper's values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import settings as _settings
from ..base.errors import UnknownSetting, UserError, is_plain, unknown_name
from ..base.plugins import load_plugin, refuse_untrusted, trust, whole_path
from ..base.registry import ALGORITHMS, DATASETS, MODELS
from ..base.types import Settings, Table
from ..data.dataset import Dataset
from ..data.load import GIVEN, name_given
from ..data.settings import Data
from ..models.settings import ModelChoice
from ..timing.timeline import Horizon
from ..training.settings import Evaluation
from .files import parse_assignment, read_preset, read_toml
from .sections import OVERRIDABLE, SECTIONS, TOP_KEYS, OverridableSections, TopSettings, check_name

if TYPE_CHECKING:
    from ..algorithms.base import Algorithm
    from ..models.base import Model


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(OverridableSections):
    """One entry of `[[algorithms]]` with all its settings; its sections contain the entry's changes.

    Args:
        label: unique name in the experiment.
        algorithm: the algorithm with its own settings.
        overrides: the entry's changes, by section.
    """

    label: str
    algorithm: Algorithm
    overrides: Mapping[str, Settings] = field(default_factory=dict)

    @property
    def algorithm_name(self) -> str:
        """The registered name of the algorithm."""
        return ALGORITHMS.name_of(type(self.algorithm))

    def to_dict(self) -> Table:
        """Return the entry as in an experiment file."""
        name = self.algorithm_name
        label = {} if self.label == name else {"label": self.label}
        return {"name": name, **label, **_settings.to_dict(self.algorithm), **self.overrides}


DEFAULT_ALGORITHMS = ({"name": "paota"}, {"name": "local-sgd"}, {"name": "cotaf"})


@dataclass(frozen=True, kw_only=True, repr=False)
class Experiment(OverridableSections):
    """All settings of an experiment.

    `Experiment.from_dict`, `.from_file` and `.preset` make one; `.override` returns a changed copy.

    Args:
        name: of the run.
        horizon: number of rounds, or simulated seconds.
        seed: of the first run.
        targets: accuracies (0 to 1) for which time and rounds are reported.
        data: section `[data]`.
        model_choice: section `[model]`.
        evaluation: section `[evaluation]`.
        algorithms: entries of `[[algorithms]]`.
        plugins: absolute paths of Python files.
        base: folder of relative paths in the file.
        given: the data set, if it was given as an object.
    """

    name: str
    horizon: Horizon
    seed: int
    targets: tuple[float, ...]
    data: Data
    model_choice: ModelChoice
    evaluation: Evaluation
    algorithms: tuple[AlgorithmConfig, ...]
    plugins: tuple[str, ...] = ()
    base: Path = field(default=Path(), compare=False)
    given: Dataset | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        names = ", ".join(config.label for config in self.algorithms)
        return f"<paota.Experiment '{self.name}': {names} with {self.data.devices:,} devices on {self.data.dataset}>"

    @property
    def model(self) -> Model:
        """The model with its settings."""
        model: Model = self.model_choice.name
        return model

    @property
    def code(self) -> tuple[str, ...]:
        """The user's Python code that the experiment names: plug-ins, and a model as `file.py:build` or `module:build`."""
        return _code(self.plugins, self.model)

    @classmethod
    def from_dict(cls, table: Settings, *, base: Path = Path(), trust_plugins: bool = True) -> Experiment:
        """Return the experiment that nested tables describe, with the keys of the experiment file.

        Args:
            table: differences from the paper; missing keys take the paper's values.
            base: folder of relative paths.
            trust_plugins: import the Python code that the table names. If False, nothing is imported, and code that the user
                of this process did not name before is refused.
        """
        try:
            return cls._parsed(table, base, trust_plugins)
        except UnknownSetting as error:
            from .reference import explained  # start-up time

            raise explained(error) from None

    @classmethod
    def _parsed(cls, table: Settings, base: Path, trust_plugins: bool) -> Experiment:
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
        table, given = _name_dataset(_locate_files(table, base))
        sections: Table = {
            name: _settings.parse(section, table.get(name, {}), name) for name, section in SECTIONS.items()
        }
        horizon = Horizon(rounds=100) if top.rounds is None else Horizon(rounds=top.rounds)
        if top.duration_s is not None:
            horizon = Horizon(rounds=None, duration_s=top.duration_s)
        entries = table.get("algorithms", DEFAULT_ALGORITHMS)
        return cls(
            name=top.name, horizon=horizon, seed=top.seed, targets=top.targets, plugins=plugins,
            model_choice=sections.pop("model"), **sections, algorithms=_algorithms(entries, table), base=base,
            given=given,
        )  # fmt: skip

    @classmethod
    def from_file(cls, path: str | Path, *, trust_plugins: bool = True) -> Experiment:
        """Return the experiment in a TOML file.

        Args:
            path: of the file; relative paths in it start at its folder.
            trust_plugins: as for `from_dict`.
        """
        return cls.from_dict(read_toml(path), base=Path(path).parent, trust_plugins=trust_plugins)

    @classmethod
    def preset(cls, name: str) -> Experiment:
        """Return one of the experiments that come with the package.

        Args:
            name: "paper", "quick", ...; `paota presets` lists them.
        """
        return cls.from_dict(read_preset(name))

    def override(self, changes: Settings) -> Experiment:
        """Return a copy with some settings changed.

        Args:
            changes: dotted keys and their values, as for `--set`:
                `{"timing.period_s": 6, "algorithms.paota.payload": "update"}`.
        """
        table = with_objects(self.to_dict(), self.objects)
        return Experiment.from_dict(override(table, changes), base=self.base)

    @property
    def objects(self) -> dict[tuple[str, str, str], object]:
        """The objects that were given in Python, by section, key and the name in a file, which holds no more."""
        name = getattr(self.model, "written_name", None)
        found: dict[tuple[str, str, str], object] = {} if name is None else {("model", "name", name): self.model}
        return found if self.given is None else found | {("data", "dataset", self.data.dataset): self.given}

    def to_dict(self) -> Table:
        """Return every setting, as nested tables in the form of an experiment file."""
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


@dataclass(frozen=True, kw_only=True)
class RecordedExperiment:
    """The experiment of a run folder that needs code which is not loaded here: its table as written.

    Args:
        table: the content of `experiment.toml`.
        why: one sentence that names what is missing.
    """

    table: Settings
    why: str

    def __repr__(self) -> str:
        return f"<paota.RecordedExperiment '{self.name}', as data only: {self.why.partition(':')[0]}>"

    @property
    def name(self) -> str:
        """The name of the run."""
        return str(self.table.get("name", "run"))

    @property
    def targets(self) -> tuple[float, ...]:
        """The target accuracies."""
        return tuple(float(target) for target in self.table.get("targets", ()))

    def to_dict(self) -> Table:
        """Return the table as written."""
        return dict(self.table)


def with_objects(table: Settings, objects: Mapping[tuple[str, str, str], object]) -> Table:
    """Return the table of an experiment with `Experiment.objects` in place of their names."""
    found = dict(table)
    for (section, key, name), thing in objects.items():
        if found[section][key] == name:
            found[section] = {**found[section], key: thing}
    return found


def _name_dataset(table: Settings) -> tuple[Settings, Dataset | None]:
    """Return the table with the name of the data set that is given in `data.dataset`, and the data set of Python."""
    mine = table.get("data")
    name = mine.get("dataset") if isinstance(mine, Mapping) else None
    if isinstance(name, Dataset):
        name = name_given(name)
        table = {**table, "data": {**table["data"], "dataset": name}}
    elif name is not None and not isinstance(name, str):
        raise UserError(
            f"data.dataset must be a name, a path or a paota.Dataset, not {type(name).__name__}: "
            "paota.Dataset.from_torch(train, test) and paota.Dataset.from_arrays(...) make one"
        )
    return table, GIVEN.get(name) if isinstance(name, str) else None


def _locate_files(table: Settings, base: Path) -> Settings:
    """Make paths relative to the experiment file absolute, so that settings mean the same in any folder."""
    located = dict(table)
    for setting in ("data.dataset", "timing.trace_file", "timing.fleet_file", "air.channel_file"):
        section, key = setting.split(".")
        mine = table.get(section)
        name = mine.get(key) if isinstance(mine, Mapping) else None
        if isinstance(name, str) and name not in DATASETS and "\0" not in name and len(name) < 4096:
            with contextlib.suppress(OSError):
                if (base / name).exists():
                    located[section] = {**located[section], key: str((base / name).resolve())}
    if isinstance(entries := table.get("algorithms"), list | tuple):  # each may override sections
        located["algorithms"] = [_locate_files(one, base) if isinstance(one, Mapping) else one for one in entries]
    return located


def _locate_model(table: Settings, base: Path) -> Settings:
    """Read `model = net` as `model = {"name": net}`, and make the path in a name `file.py:attribute` absolute."""
    mine = table.get("model", {})
    if not isinstance(mine, Mapping):
        mine = {"name": mine}
    if isinstance(name := mine.get("name"), str) and ":" in name and name not in MODELS:
        from ..models.custom import ImportedModel  # start-up time

        mine = {**mine, "name": ImportedModel.beside(base, name)}
    return {**table, "model": mine}


def _code(plugins: tuple[str, ...], model: object) -> tuple[str, ...]:
    name = getattr(model, "written_name", "")
    return (*plugins, name) if ":" in name else plugins


def _algorithms(entries: object, table: Settings) -> tuple[AlgorithmConfig, ...]:
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
        sections: Table = {}
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
        raise UserError(f"two algorithms are labelled '{twice}': give one of them another label")
    return tuple(made)


def override(table: Settings, changes: Settings) -> Table:
    """Return `table` with dotted keys set, such as {"air.n0_dbm_per_hz": -74} or "algorithms.LABEL.key"."""
    changed: Table = {key: _copy(value) for key, value in table.items()}
    for dotted, value in changes.items():
        first, *rest = dotted.split(".")
        if not rest and first in ("rounds", "duration_s"):  # one replaces the other
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


def _put(table: Table, keys: Sequence[str], value: object, dotted: str) -> None:
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            from .reference import explained  # start-up time

            raise explained(UnknownSetting(dotted, [*TOP_KEYS, *SECTIONS]))
    table[keys[-1]] = value


def _copy(value: Any) -> Any:
    """Return nested tables and lists with every container copied."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def as_experiment(
    source: Experiment | RecordedExperiment | Settings | str | Path | None,
    changes: Iterable[str] = (),
    plugins: Iterable[str | Path] = (),
    *,
    trust_plugins: bool = True,
) -> Experiment:
    """Return the experiment that a user gives in any form.

    Args:
        source: None (the paper), an experiment, a table or a file.
        changes: `section.key=value` assignments.
        plugins: more Python files than the experiment names; relative paths start at the current folder.
        trust_plugins: as for `Experiment.from_dict`.
    """
    if isinstance(source, RecordedExperiment):
        raise UserError(f"this run was opened as data, without the code that it needs: {source.why}")
    assignments = dict(parse_assignment(text) for text in changes)
    if isinstance(source, Experiment):
        return source.override(assignments) if assignments else source
    base = Path()
    if isinstance(source, str | Path):
        base = Path(source).parent
        source = read_toml(source)
    if source is not None and not (isinstance(source, Mapping) and all(isinstance(key, str) for key in source)):
        raise UserError(f"an experiment is a file, a table or a paota.Experiment, not {source!r:.60}")
    table = override(source or {}, assignments)
    if more := [whole_path(Path(file), "--plugin") for file in plugins]:
        named = table.get("plugins", [])
        table = {**table, "plugins": [*named, *more] if isinstance(named, list) else named}
    return Experiment.from_dict(table, base=base, trust_plugins=trust_plugins)
