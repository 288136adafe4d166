"""Names that find you: suggestions across sections, synonyms of the field, options that are settings, lists of seeds."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import paota
from paota import Experiment, UserError
from paota.base.registry import KINDS
from paota.base.rng import seed_numbers
from paota.cli import main
from paota.data.load import load_data
from paota.experiment.reference import all_settings, settings_of
from paota.experiment.sections import SECTIONS
from paota.simulate import prepare
from paota.terminal.arguments import parse_seeds

ROOT = Path(__file__).parents[2]
SMALL = {"rounds": 2, "data": {"dataset": "synthetic", "devices": 3, "sizes": [20]}, "algorithms": [{"name": "paota"}]}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"period_s": 6}, "did you mean 'timing.period_s'?"),
        ({"dT": 6}, "did you mean 'timing.period_s'?"),
        ({"lr": 0.1}, "did you mean 'training.learning_rate'?"),
        ({"dataset": "mnist"}, "did you mean 'data.dataset'?"),
        ({"data": {"name": "mnist"}}, "did you mean 'data.dataset'?"),
        ({"evaluation": {"stop_at": 80}}, "evaluation.stop_at must be at most 1, not 80; did you mean 0.8?"),
        ({"training": {"lr": 0.1}}, "did you mean 'training.learning_rate'?"),
        ({"devices": 3}, "did you mean 'data.devices'?"),
        ({"num_clients": 3}, "did you mean 'data.devices'?"),
        ({"alpha": 0.1}, "did you mean 'data.concentration' with data.partition = 'dirichlet'"),
        ({"air": {"period_s": 6}}, "did you mean 'timing.period_s'?"),
        ({"timing": {"median_s": 6}}, "did you mean it together with timing.latency = 'lognormal'?"),
        ({"payload": "update"}, "did you mean 'algorithms.LABEL.payload'"),
        ({"algorithms": [{"name": "paota", "paylod": "update"}]}, "did you mean 'algorithms[0].payload'?"),
        ({"algorithms": [{"name": "fedavg"}]}, "did you mean 'local-sgd'?"),
        ({"algorithms": [{"name": "FedBuff"}]}, "did you mean 'fedbuff'?"),
        ({"model": {"name": "lenet"}}, "did you mean 'lenet5'?"),
        ({"data": {"dataset": "MNIST"}}, "did you mean 'mnist'?"),
        ({"timing": {"zzz": 1}}, "known: timing.fleet_file, timing.fleet_repeat_s, timing.high_s"),
        ({"zzz": 1}, "known: air, algorithms, data"),
        ({"timing": {"latency": "zzz"}}, "known: fleet, lognormal, per-device, trace"),
    ],
)
def test_suggestions_look_everywhere(table, says):
    with pytest.raises(UserError) as error:
        load_data(Experiment.from_dict(table).data)
    assert says in str(error.value)


def test_every_synonym_means_something_that_exists():
    for registry in KINDS.values():
        assert set(registry.aliases.values()) <= set(registry)
        assert not set(registry.aliases) & set(registry)
    for section in ["", *SECTIONS]:  # in one section, or one alternative of it, a word means one key
        meant = {}
        for one in settings_of(section):
            for word in one.aliases:
                assert meant.setdefault((one.under, word.lower()), one.key) == one.key, word


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seed", "3"], "unknown option '--seed': did you mean '--set seed=3' or '--seeds'?"),
        (["--rounds", "5"], "unknown option '--rounds': did you mean '--set rounds=5'?"),
        (["--rounds=5"], "unknown option '--rounds': did you mean '--set rounds=5'?"),
        (["--lr", "0.1"], "did you mean '--set training.learning_rate=0.1'"),
        (["--dataset", "mnist"], "unknown option '--dataset': did you mean '--set data.dataset=mnist'?"),
        (["--set", "algorithms.fedavg.payload=update"], "unknown algorithm label 'fedavg': did you mean 'local-sgd'?"),
        (["--set", "algorithms.paota=update"], "'algorithms.paota' is a whole table"),
        (["--pre", "quick"], "unknown option '--pre'"),
        (["--zzzz"], "known: --callback"),
        (["quick"], "no such experiment file: 'quick'; did you mean the preset, '--preset quick'?"),
        (["fedavg"], """did you mean the algorithm, --set 'algorithms=[{name="local-sgd"}]'?"""),
        (["--algorithm", "FedBuff"], """did you mean --set 'algorithms=[{name="fedbuff"}]'?"""),
        (["--algorithms=fedavg,paota"], """did you mean --set 'algorithms=[{name="local-sgd"}, {name="paota"}]'?"""),
        (["--snr", "10"], "unknown option '--snr': did you mean '--set air.n0_dbm_per_hz=VALUE'?"),
        (["--seeds", "1,two"], "--seeds must be a number, such as 5, or seeds such as 1,2,3, not '1,two'"),
    ],
)
def test_options_that_are_settings(arguments, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("seeds", "numbers"),
    [(1, (7,)), (3, (7, 8, 9)), ([1, 2, 3], (1, 2, 3)), ((4,), (4,)), (np.array([9, 2]), (9, 2)), (range(2), (0, 1))],
)
def test_seeds_are_a_number_or_a_list(seeds, numbers):
    assert seed_numbers(seeds, 7) == numbers


@pytest.mark.parametrize("seeds", [0, -1, [], "3", 1.5, True, [1, 1], [-1], [1.5], [2**31], None])
def test_other_seeds_are_refused(seeds):
    with pytest.raises(UserError, match="seed"):
        seed_numbers(seeds, 0)


def test_a_list_of_seeds_gives_those_trajectories():
    """Seed 4 of a list is seed 4 of a count: nothing else is drawn."""
    listed = prepare(Experiment.from_dict(SMALL), seeds=[2, 4])
    counted = prepare(Experiment.from_dict({**SMALL, "seed": 4}))
    assert listed.seeds == (2, 4)
    np.testing.assert_array_equal(listed.shards[4].indices, counted.shards[4].indices)


def test_seeds_on_the_command_line(tmp_path):
    assert [parse_seeds(text) for text in ("5", "1,2,3", "7,")] == [5, (1, 2, 3), (7,)]
    changes = [word for key in ("rounds=2", "data.dataset=synthetic", "data.devices=3", "data.sizes=[20]")
               for word in ("--set", key)]  # fmt: skip
    only = [
        "--set",
        'algorithms=[{name="paota"}]',
        "--set",
        "model.name=softmax",
        "--quiet",
        "--out",
        str(tmp_path / "x"),
    ]
    assert main(["run", *changes, *only, "--seeds", "3,5"]) == 0
    assert json.loads((tmp_path / "x" / "summary.json").read_text())["seeds"] == [3, 5]
    assert "paota run experiment.toml --seeds 3,5" in (tmp_path / "x" / "report.html").read_text()


def test_every_setting_has_a_sentence():
    """`setting(..., doc="...")`: the reference page, `paota settings` and the help of errors are made of it."""
    assert [one.key for one in all_settings() if not one.doc] == []


def test_the_reference_page_is_up_to_date():
    """Write it again with: python docs/_build/settings.py > docs/settings.md"""
    made = runpy.run_path(str(ROOT / "docs" / "_build" / "settings.py"))["markdown"]()
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == made


def test_settings_are_listed(capsys):
    assert main(["settings", "timing"]) == 0
    shown = capsys.readouterr().out
    assert "timing.period_s" in shown
    assert "with timing.latency = 'lognormal'" in shown
    assert main(["settings", "lr"]) == 0
    assert "training.learning_rate" in capsys.readouterr().out
    assert main(["settings", "zzz"]) == 2
    assert "known: air" in capsys.readouterr().err


def test_the_version_is_known():
    from importlib.metadata import version

    assert paota.__version__ == version("paota")
    shown = subprocess.run([sys.executable, "-m", "paota", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"paota {paota.__version__}\n"
