"""An experiment: one setting and the algorithms that meet in it. Everything has the paper's value as default."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import settings as _settings
from .air.settings import Air
from .data.settings import Data
from .errors import UnknownSetting, UserError, is_plain, nearest, unknown_name
from .faults.settings import Faults, Guards
from .models.settings import ModelChoice
from .plugins import load_plugin
from .power.settings import Power
from .registry import ALGORITHMS, DATASETS, MODELS
from .rng import LARGEST_SEED
from .server.settings import Server
from .settings import setting
from .timing.settings import Timing
from .timing.timeline import Horizon
from .training.settings import Evaluation, Training

if TYPE_CHECKING:
    from .algorithms.base import Algorithm
    from .models.base import Model

MAX_FILE_BYTES = 2**20


SECTIONS = {
    "data": Data, "model": ModelChoice, "training": Training, "timing": Timing,
    "server": Server, "air": Air, "power": Power, "evaluation": Evaluation, "faults": Faults, "guards": Guards,
}  # fmt: skip
OVERRIDABLE = ("training", "server", "timing", "air", "power", "faults", "guards")


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One line of the comparison: an algorithm, its label, and the sections in which it departs from the experiment."""

    label: str
    algorithm: Algorithm
    training: Training
    server: Server
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
    server: Server
    timing: Timing
    air: Air
    power: Power
    evaluation: Evaluation
    faults: Faults
    guards: Guards
    contestants: tuple[Contestant, ...]
    plugins: tuple[str, ...] = ()  # whole paths
    base: Path = field(default=Path(), compare=False)  # relative paths in the file start here

    def __repr__(self) -> str:
        names = ", ".join(contestant.label for contestant in self.contestants)
        return f"<paota.Experiment '{self.name}': {names} with {self.data.devices:,} devices on {self.data.dataset}>"

    @property
    def model(self) -> Model:
        made: Model = self.model_choice.name
        return made

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], *, base: Path = Path(), run_plugins: bool = True) -> Experiment:
        """From nested tables in the vocabulary of the experiment file.

        Args:
            table: what differs from the paper; missing keys take the paper's values.
            base: the folder in which relative paths start.
            run_plugins: import the Python files that `plugins` names; without, what they register must be known already.
        """
        try:
            return cls._parsed(table, base, run_plugins)
        except UnknownSetting as error:
            from .reference import explained

            raise explained(error) from None

    @classmethod
    def _parsed(cls, table: Mapping[str, Any], base: Path, run_plugins: bool) -> Experiment:
        known = [*_TOP_KEYS, *SECTIONS, "algorithms"]
        for key in table:
            if key not in known:
                raise UnknownSetting(key, known)
        top = _settings.parse(TopSettings, {k: table[k] for k in _TOP_KEYS if k in table}, "experiment")
        if not is_plain(top.name):
            raise UserError(f"experiment.name must be a text without control characters, not {top.name!r:.80}")
        if top.rounds is not None and top.duration_s is not None:
            raise UserError("give rounds or duration_s, not both")
        plugins = tuple(dict.fromkeys(str((base / name).resolve()) for name in top.plugins))
        for file in plugins if run_plugins else ():
            load_plugin(file, "plugins")
        table = _locate_model(_locate_files(_name_dataset(table), base), base)
        sections: dict[str, Any] = {
            name: _settings.parse(section, table.get(name, {}), name) for name, section in SECTIONS.items()
        }
        horizon = Horizon(rounds=100) if top.rounds is None else Horizon(rounds=top.rounds)
        if top.duration_s is not None:
            horizon = Horizon(rounds=None, duration_s=top.duration_s)
        entries = table.get("algorithms", DEFAULT_ALGORITHMS)
        return cls(
            name=top.name, horizon=horizon, seed=top.seed, targets=top.targets, plugins=plugins,
            model_choice=sections.pop("model"), **sections, contestants=_contestants(entries, table), base=base,
        )  # fmt: skip

    @classmethod
    def from_file(cls, path: str | Path) -> Experiment:
        """From a TOML file.

        Args:
            path: of the file; relative paths in it start at its own folder.
        """
        return cls.from_dict(read_toml(path), base=Path(path).parent)

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
            "algorithms": [contestant.to_dict() for contestant in self.contestants],
        }


@dataclass(frozen=True, kw_only=True)
class TopSettings:
    """What stands above the sections of an experiment file."""

    name: str = setting("paper", doc="What the run is called.")
    rounds: int | None = setting(
        None,
        low=1,
        high=10_000_000,
        doc="Aggregations R; 100 unless `duration_s` is given.",
        also=("num_rounds", "communication_rounds", "iterations", "R", "T", "global_rounds"),
    )
    duration_s: float | None = setting(
        None, above=0, doc="Simulated time, in place of `rounds`.", also=("duration", "time", "simulated_time")
    )
    seed: int = setting(
        0,
        low=0,
        high=LARGEST_SEED,
        doc="Of the first repetition; the next ones count up.",
        also=("random_seed", "random_state"),
    )
    targets: tuple[float, ...] = setting(
        (0.5, 0.6, 0.7, 0.8),
        low=0,
        high=1,
        doc="Test accuracies whose seconds and rounds the results tell.",
        also=("target", "target_accuracy"),
    )
    plugins: tuple[str, ...] = setting(
        (),
        doc="Python files that register things of your own; paths relative to the experiment file.",
        also=("plugin",),
    )


_TOP_KEYS = tuple(f.name for f in dataclasses.fields(TopSettings))


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
        from .models.own import ImportedModel

        mine = {**mine, "name": ImportedModel.beside(base, name)}
    return {**table, "model": mine}


def _contestants(entries: Any, table: Mapping[str, Any]) -> tuple[Contestant, ...]:
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
        made.append(Contestant(label=label, algorithm=algorithm, overrides=overrides, **sections))
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
                raise unknown_name("algorithm label", label, labels, ALGORITHMS.also)
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

            raise explained(UnknownSetting(dotted, [*_TOP_KEYS, *SECTIONS]))
    table[keys[-1]] = value


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def parse_assignment(text: str) -> tuple[str, Any]:
    """`--set section.key=value` -> (key, typed value); the value is TOML, and a bare word is a text."""
    key, equals, raw = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise UserError(f"--set needs section.key=value, not '{text}'")
    try:
        return key, parse_toml(f"value = {raw.strip()}")["value"]
    except (ValueError, RecursionError):
        return key, raw.strip()


def read_toml(path: str | Path) -> dict[str, Any]:
    file = Path(path)
    if not os.path.isfile(file):  # noqa: PTH113  false, too, for what is no path at all
        raise UserError(f"no such experiment file: '{path}'{_meant_by_file(str(path))}")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise UserError(f"'{path}' is larger than {MAX_FILE_BYTES >> 20} MiB: not an experiment file")
    try:
        return parse_toml(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number with thousands of digits
        raise UserError(f"'{path}' is not a valid TOML file: {error}") from None
    except OSError as error:
        raise UserError(f"'{path}' cannot be read: {error.strerror}") from None


def _meant_by_file(name: str) -> str:
    """What somebody may mean who gives the name of a preset or of an algorithm where a file is due."""
    if name in preset_names():
        return f"; did you mean the preset, '--preset {name}'?"
    known = "." not in name and nearest(name, list(ALGORITHMS), ALGORITHMS.also, cutoff=0.85)
    return f"; did you mean the algorithm, {choosing([name])}?" if known else ""


def choosing(algorithms: Iterable[str]) -> str:
    """The option of the command line that runs these algorithms; words that others use stand for the names that are meant."""
    names = [nearest(name, list(ALGORITHMS), ALGORITHMS.also) or name for name in algorithms]
    return "--set 'algorithms=[" + ", ".join(f'{{name="{name}"}}' for name in names) + "]'"


# A key of many parts: the parser's time grows with the square of their number.
_DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")


def parse_toml(text: str) -> dict[str, Any]:
    """The table that a TOML text holds; a ValueError says what is wrong with it."""
    if _DEEP_KEY.search(text):
        raise ValueError("a key has more than 64 parts")
    return tomllib.loads(text)


PRESETS = Path(__file__).parent / "presets"


def preset_names() -> list[str]:
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def read_preset(name: str) -> dict[str, Any]:
    if name not in preset_names():
        raise unknown_name("preset", name, preset_names())
    return read_toml(PRESETS / f"{name}.toml")


def as_experiment(
    source: Experiment | Mapping[str, Any] | str | Path | None,
    changes: Iterable[str] = (),
    plugins: Iterable[str | Path] = (),
) -> Experiment:
    """Whatever a user may hand over.

    Args:
        source: nothing (the paper), an experiment, a table, a file.
        changes: `section.key=value` assignments.
        plugins: Python files beside those that the experiment names; relative paths start at the current folder.
    """
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
    if more := [str(Path(file).resolve()) for file in plugins]:
        named = table.get("plugins", [])
        table = {**table, "plugins": [*named, *more] if isinstance(named, list) else named}
    return Experiment.from_dict(table, base=base)
