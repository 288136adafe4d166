"""Names from outside: `paota.register`, entry points, and what is refused."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest

import paota
from paota import UserError
from paota.base.plugins import load_plugin
from paota.base.registry import KINDS, Registry
from paota.simulate import prepare

pytestmark = pytest.mark.usefixtures("clean_registries")

CHANNEL = """from dataclasses import dataclass
@dataclass(frozen=True)
class Mine:
    def draw(self, key): return 1
"""


@dataclass(frozen=True, kw_only=True)
class Everything:
    """Has a method of every name that some kind needs."""

    amplitudes = next_model = init = apply = draw = gain = transformation = factor = step = __call__ = lambda self: None


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_registered(kind):
    paota.register(kind, "mine", Everything)
    assert KINDS[kind]["mine"] is Everything
    assert "mine" in KINDS[kind]
    paota.register(kind, "mine", Everything)


def test_a_cell_that_is_run_again_replaces_what_it_registered():
    """The same source, as a notebook cell: a new class. Objects of the old one still know their name."""
    source = "@dataclass(frozen=True)\nclass Mine:\n    def draw(self, key): return {}\n"
    made = []
    for value in (1, 2):
        cell = {"dataclass": dataclass, "__name__": "__main__"}
        exec(source.format(value), cell)
        made.append(cell["Mine"])
        paota.register("channel", "mine", cell["Mine"])
    assert KINDS["channel"]["mine"] is made[1]
    assert [KINDS["channel"].name_of(one) for one in made] == ["mine", "mine"]
    with pytest.raises(UserError, match="'mine' exists already"):  # of another module
        paota.register("channel", "mine", Everything)
    with pytest.raises(UserError, match="'rayleigh' exists already"):
        paota.register("channel", "rayleigh", made[0])


class Plain:
    def init(self): ...


@dataclass(kw_only=True)
class NotFrozen:
    def init(self): ...


@dataclass(frozen=True, kw_only=True)
class NoInit:
    def apply(self): ...


@dataclass(frozen=True, kw_only=True)
class NoScheme(paota.Algorithm):
    def amplitudes(self, event, uplink, power): ...


@pytest.mark.parametrize(
    ("kind", "thing", "says"),
    [
        ("model", Plain, "must be a frozen dataclass"),
        ("model", NotFrozen, "must be a frozen dataclass"),
        ("model", NoInit, "the model 'mine' has no method init"),
        ("model", Plain(), "must be a class, not Plain"),
        ("channel", NoInit, "has no method draw or draw_at"),
        ("algorithm", NoScheme, "the algorithm 'mine' has no scheme"),
        ("dataset", [1, 2], "must be a function or a class, not list"),
    ],
)
def test_what_is_missing_is_said_when_it_is_registered(kind, thing, says):
    with pytest.raises(UserError, match=says):
        paota.register(kind, "mine", thing)
    assert "mine" not in KINDS[kind]


@dataclass(frozen=True, kw_only=True)
class HalfBand(paota.Shares):
    """Every upload uses half of the band, independent of other uploads."""

    subchannels: int = 2
    by_time = False


def test_a_digital_uplink_of_your_own_costs_time():
    paota.register("digital", "half-band", HalfBand)
    table = {"rounds": 3, "algorithms": [{"name": "local-sgd"}]}
    table["data"] = {"dataset": "synthetic", "devices": 4, "sizes": [30]}
    free, mine = (
        prepare(paota.Experiment.from_dict({**table, "air": {"digital": name}})).timelines["local-sgd", 0]
        for name in ("ideal", "half-band")
    )
    assert np.all(mine.time_s > free.time_s)


def test_unknown_kind_is_named():
    with pytest.raises(UserError, match="did you mean 'algorithm'"):
        paota.register("algoritm", "mine", object())


def test_an_installed_package_is_found(tmp_path, monkeypatch):
    """A real distribution on the path: metadata, entry points and module."""
    (tmp_path / "my_package.py").write_text(CHANNEL)
    metadata = tmp_path / "my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[paota.channel]\nmine = my_package:Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    fresh = Registry("channel", needs=("draw",), none="paota.air.fading:NoFading")
    assert fresh["mine"].__name__ == "Mine"
    assert fresh.name_of(fresh["mine"]) == "mine"
    assert "mine" in list(fresh)
    assert sys.modules.pop("my_package").Mine is fresh["mine"]


def test_plugin_file_registers_once(tmp_path):
    file = tmp_path / "plug.py"
    file.write_text(f"{CHANNEL}\nimport paota\npaota.register('channel', 'plugged', Mine)\n")
    load_plugin(file)
    load_plugin(file)
    assert KINDS["channel"]["plugged"].__name__ == "Mine"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("bad.py", "x = 1\nx / 0\n", r"ZeroDivisionError: division by zero \(line 2\)"),
        ("bad.py", "def f(:\n", r"SyntaxError: invalid syntax \(line 1\)"),
        ("bad.py", "import no_such_module_at_all\n", r"No module named .* \(line 1\)"),
        ("bad.txt", "x = 1\n", "its name must end in .py"),
    ],
)
def test_broken_plugins_are_one_sentence(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        load_plugin(tmp_path / name)
    with pytest.raises(UserError, match="no such file"):
        load_plugin(tmp_path / "absent.py")
