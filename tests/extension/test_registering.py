"""Names from outside: `paota.register`, entry points, and what is refused."""

import sys

import pytest

import paota
from paota import UserError
from paota.plugins import load_plugin
from paota.registry import KINDS, Registry


@pytest.mark.parametrize("kind", ["algorithm", "channel", "path_loss", "latency", "partition", "dataset", "model"])
def test_every_kind_can_be_registered(kind):
    thing = type("Thing", (), {})
    paota.register(kind, "mine", thing)
    assert KINDS[kind]["mine"] is thing
    assert "mine" in KINDS[kind]
    paota.register(kind, "mine", thing)  # the same again, as a notebook cell that is run twice
    with pytest.raises(UserError, match="'mine' exists already"):
        paota.register(kind, "mine", object())


def test_unknown_kind_is_named():
    with pytest.raises(UserError, match="did you mean 'algorithm'"):
        paota.register("algoritm", "mine", object())


def test_an_installed_package_is_found(tmp_path, monkeypatch):
    """A real distribution on the path: metadata, entry points and module."""
    (tmp_path / "my_package.py").write_text("class Mine:\n    pass\n")
    metadata = tmp_path / "my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[paota.channel]\nmine = my_package:Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    fresh = Registry("channel", none="paota.air.fading:NoFading")
    assert fresh["mine"].__name__ == "Mine"
    assert fresh.name_of(fresh["mine"]) == "mine"
    assert "mine" in list(fresh)
    assert sys.modules.pop("my_package").Mine is fresh["mine"]


def test_plugin_file_registers_once(tmp_path):
    file = tmp_path / "plug.py"
    file.write_text("import paota\nclass Mine: pass\npaota.register('channel', 'plugged', Mine)\n")
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
