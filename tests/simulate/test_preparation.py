"""Every mistake, however absurd, gets one sentence, quickly, and leaves no files behind."""

import re
import subprocess
import sys

import numpy as np
import pytest

import paota
from paota import simulate
from paota.base import files, system
from paota.base.errors import UserError, is_plain, printable
from paota.cli import main
from paota.experiment.experiment import Experiment
from paota.experiment.files import read_toml
from paota.results.folder import METRIC_TYPES, remove_leftovers
from paota.simulate import preparation

SMALL = {
    "rounds": 3, "data": {"dataset": "synthetic", "devices": 4, "sizes": [20]}, "model": {"name": "softmax"},
    "training": {"local_steps": 1, "batch_size": 4}, "algorithms": [{"name": "paota"}, {"name": "local-sgd"}],
}  # fmt: skip
TEXTS = {
    "digits.toml": "seed = " + "7" * 5000,
    "bits.toml": "seed = 0x" + "f" * 20000,
    "nul.toml": r'name = "a\u0000b"',
    "escape.toml": '[[algorithms]]\nname = "paota"\nlabel = "a\\u001b[31mb"',
    "dotted.toml": ".".join(["a"] * 200_000) + " = 1",
    "quoted.toml": "x = {" + ".".join(['"a b"'] * 60_000) + " = 1}",
}
CASES = {
    "steps": (f"training.local_steps={2**63}", "training.local_steps"),
    "batch": (f"training.batch_size={2**31}", "training.batch_size"),
    "memory of batches": (f"training.batch_size={2**31 - 1}", "GiB"),
    "memory of the model": ("model.hidden=[1000000000]", "GiB"),
    "memory of the plan": ("rounds=10000000", "GiB"),
    "memory of quick rounds": ("duration_s=600 timing.low_s=1e-6 timing.high_s=2e-6", "GiB"),
    "looks": (f"evaluation.every={2**63}", "evaluation.every"),
    "seed": ("seed=" + "7" * 5000, "seed must be a whole number"),
    "trace": ("timing.latency=trace timing.trace_file=" + "a" * 5000, "name too long"),
    "data": ("data.dataset=" + "a" * 5000, "name too long"),
    "period": ("timing.period_s=1e308", "timing.period_s"),
    "end of time": ("timing.period_s=1e38", "lasts longer than"),
    "power": ("power.max_power_w=1e-45", "power.max_power_w"),
    "deep key": (".".join(["a"] * 100_000) + "=1", "unknown setting"),
}


def refused(capsys, *words):
    """The sentence on standard error of a command that must refuse."""
    assert main([*words]) in (1, 2)
    said = capsys.readouterr().err
    assert said.startswith("paota: ")
    assert len(said) < 2000
    assert is_plain(said[:-1])
    return said.lower()


@pytest.mark.parametrize("case", CASES)
def test_settings(capsys, monkeypatch, tmp_path, case):
    monkeypatch.chdir(tmp_path)
    changes, expected = CASES[case]
    words = [word for change in changes.split() for word in ("--set", change)]
    more = ["--set", "data.devices=1000"] if case == "memory of the plan" else []
    assert expected.lower() in refused(capsys, "run", "--preset", "quick", *words, *more)
    assert list(tmp_path.iterdir()) == []


def test_a_long_plan_says_what_it_takes(monkeypatch):
    """60 rounds of about 4 ready devices of 8, judged by the first 50."""
    monkeypatch.setattr(preparation, "MANY_PARTICIPATIONS", 100)
    told = []
    table = {**SMALL, "rounds": 60, "algorithms": [{"name": "paota"}]}
    simulate.prepare(Experiment.from_dict({**table, "data": {**SMALL["data"], "devices": 8}}), notify=told.append)
    (sentence,) = told
    assert re.fullmatch(r"planning 2.* local trainings, which takes 0\.0 GiB and about 1 minute", sentence)


def test_a_long_signal_is_known_before_memory_is_taken(monkeypatch):
    """There is room for models and updates, 2 d numbers a device, but not for the 4 d of a vote on two frequencies."""

    def planned(algorithm):
        table = {
            "rounds": 1, "data": {"dataset": "synthetic", "devices": 4, "sizes": [20]}, "model": {"hidden": [2000]},
            "training": {"local_steps": 1, "batch_size": 1}, "algorithms": [{"name": algorithm, "participants": 4}],
        }  # fmt: skip
        return simulate.prepare(Experiment.from_dict(table))

    places, num_parameters = 16, planned("majority-vote").num_parameters
    monkeypatch.setattr(system, "available_bytes", lambda: places * 4 * 3 * num_parameters)
    planned("majority-vote")
    with pytest.raises(UserError, match=r"'fsk-vote' with .* parameters needs at least"):
        planned("fsk-vote")


@pytest.mark.parametrize("name", TEXTS)
def test_experiment_files(capsys, monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(TEXTS[name])
    refused(capsys, "run", name)
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("words", [
    ("run", "--seeds", "1000000000"), ("run", "--seeds", "1" * 5000), ("run", "a" * 5000), ("report", "a" * 5000),
    ("run", "--resume", "a" * 5000), ("run", "--plugin", "a" * 5000), ("run", "--out", "a" * 5000), ("power", "a" * 5000),
    ("sweep", "--over", "timing.period_s=4,8", "--seeds", "1000000000"), ("sweep", "--over", "rounds=" + "1" * 5000),
    ("run", "--set", "\x1b[31m=1"),
], ids=lambda words: " ".join(words)[:30].encode("unicode_escape").decode())  # fmt: skip
def test_options(capsys, monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    refused(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_what_a_terminal_obeys_is_written_out():
    assert printable("a\x1b[31mb\u202ec\nd") == "a\\x1b[31mb\\u202ec\nd"
    assert is_plain("Größe\u00a0→ 速い 🙂")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    paota.run(SMALL).save(folder)
    return folder


def test_labels_are_no_formulas_in_tables(tmp_path):
    labels = ["=1+1", "@x", "+y", "-z", "'quoted", "'=both", "plain"]
    files.write_csv(tmp_path / "t.csv", {"label": np.array(labels, dtype=object), "x": np.arange(7.0) - 3})
    cells = [line.split(",")[0] for line in (tmp_path / "t.csv").read_text().splitlines()[1:]]
    assert not any(cell.startswith(("=", "@", "+", "-")) for cell in cells)
    assert files.read_csv(tmp_path / "t.csv", {"label": str})["label"].tolist() == labels


def edit_metrics(change):
    def edit(folder):
        columns = files.read_csv(folder / "metrics.csv", METRIC_TYPES)
        files.write_csv(folder / "metrics.csv", change(columns))

    return edit


def edit_npz(name, change):
    def edit(folder):
        files.write_npz(folder / name, change(files.read_npz(folder / name)))

    return edit


def edit_text(name, old, new):
    def edit(folder):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return edit


def edit_toml(**settings):
    def edit(folder):
        file = folder / "experiment.toml"
        file.write_text(files.to_toml(read_toml(file) | settings))

    return edit


def without(columns, name):
    return {key: column for key, column in columns.items() if key != name}


TARGETS = "targets = [0.5, 0.6, 0.7, 0.8]"
EDITS = {
    "label gone": edit_metrics(lambda c: {k: v[c["label"] != "paota"] for k, v in c.items()}),
    "rows gone": edit_metrics(lambda c: {k: np.delete(v, 1) for k, v in c.items()}),
    "column renamed": edit_metrics(lambda c: {**without(c, "test_accuracy"), "accuracy": c["test_accuracy"]}),
    "all gone": edit_metrics(lambda c: {k: v[:0] for k, v in c.items()}),
    "device ids": edit_npz("devices.npz", lambda c: {**c, "device": c["device"].astype(np.int64) + 2**40}),
    "negative ids": edit_npz("devices.npz", lambda c: {**c, "device": c["device"] - 5}),
    "own ids": edit_npz("device_scores.npz", lambda c: {**c, "device": c["device"].astype(np.int64) + 2**40}),
    "own rows": edit_npz("device_scores.npz", lambda c: {k: v[1:] for k, v in c.items()}),
    "a column of texts": edit_npz("devices.npz", lambda c: {**c, "amplitude": np.array(["x"] * len(c["amplitude"]))}),
    "short column": edit_npz("devices.npz", lambda c: {**c, "amplitude": c["amplitude"][:-1]}),
    "device column": edit_npz("devices.npz", lambda c: without(c, "finish_s")),
    "no model": edit_npz("models.npz", lambda c: without(c, "0")),
    "escape": edit_text("run.json", '"label": "paota"', '"label": "\\u001b[31mpaota"'),
    "label is a number": edit_text("run.json", '"label": "paota"', '"label": 7'),
    "more facts": edit_text("run.json", '"label": "paota"', '"model": 3, "label": "paota"'),
    "diverged": edit_text("run.json", '"diverged_round": null', '"diverged_round": "x"'),
    "nested": edit_text("run.json", '"trajectories": ', '"nested": ' + "[" * 100_000 + "]" * 100_000 + ', "trajectories": '),
    "digits": edit_text("metrics.csv", "\npaota,paota,0,1,", "\npaota,paota,0," + "1" * 5000 + ","),
    "round": edit_text("metrics.csv", "\npaota,paota,0,1,", "\npaota,paota,0," + str(2**70) + ","),
    "no devices": edit_text("experiment.toml", "devices = 4", "devices = 0"),
    "infinite target": edit_text("experiment.toml", TARGETS, "targets = [0.5, 1e400]"),
    "target is a text": edit_text("experiment.toml", TARGETS, 'targets = ["<script>"]'),
    "targets of a stranger": edit_text("experiment.toml", TARGETS, 'plugins = ["x.py"]\ntargets = ["<script>"]'),
    "plug-ins": edit_text("experiment.toml", TARGETS, "plugins = 1"),
    "seed": edit_text("experiment.toml", "seed = 0", "seed = [0]"),
    "data set": edit_text("experiment.toml", 'dataset = "synthetic"', "dataset = [1]"),
    "section": edit_toml(power=1),
    "algorithms": edit_toml(algorithms="paota"),
    "an algorithm": edit_toml(algorithms=["paota"]),
    "power": edit_text("experiment.toml", "max_power_w = ", "max_power_w = -1e308 # "),
    "negative power": edit_text("experiment.toml", "max_power_w = ", "max_power_w = -1 # "),
    "far target": edit_text("experiment.toml", TARGETS, "targets = [-1, 1e30]"),
    "times": edit_metrics(lambda c: {**c, "time_s": c["time_s"] * np.nan}),
    "late starts": edit_npz("devices.npz", lambda c: {**c, "start_s": c["start_s"] + 1e9}),
    "staleness": edit_npz("devices.npz", lambda c: {**c, "staleness": c["staleness"] + 1e300}),
}  # fmt: skip
HARMLESS = {
    "more facts",
    "diverged",
    "negative power",
    "far target",
    "times",
    "late starts",
}  # read as they are if one insists


@pytest.mark.parametrize("edit", EDITS)
def test_edited_folders(capsys, tmp_path, finished, edit):
    import shutil

    folder = tmp_path / "edited"
    shutil.copytree(finished, folder)
    EDITS[edit](folder)
    assert "edited" in refused(capsys, "report", str(folder))
    code = main(["report", str(folder), "--unchecked"])
    said = capsys.readouterr().err
    assert code in (0, 2)
    assert (code == 0) == (said == "")
    if edit not in HARMLESS:
        assert code == 2


def test_run_json_has_a_checksum_of_its_own(finished, tmp_path):
    import shutil

    folder = tmp_path / "edited"
    shutil.copytree(finished, folder)
    edit_text("run.json", '"diverged_round": null', '"diverged_round": 2')(folder)
    with pytest.raises(paota.UserError, match=r"run\.json changed"):
        paota.load(folder)
    assert paota.load(folder, check=False).trajectories[0].diverged_round == 2


def test_leftovers_on_read_only_media(monkeypatch, finished):
    from pathlib import Path

    def read_only(self, missing_ok=False):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    remove_leftovers(finished)
    assert main(["run", "--resume", str(finished)]) == 0


def test_folder_removed_while_running(tmp_path, monkeypatch, capsys):
    import shutil

    from paota.simulate.unit import Unit

    save = Unit.save

    def remove_first(self):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        save(self)

    monkeypatch.setattr(Unit, "save", remove_first)
    (tmp_path / "small.toml").write_text(files.to_toml(SMALL))
    assert "cannot write" in refused(
        capsys,
        "run",
        str(tmp_path / "small.toml"),
        "--out",
        str(tmp_path / "run"),
        "--quiet",
        "--checkpoint-every",
        "0",
    )


def test_ctrl_c_while_importing():
    """A module that is imported late, and there meets Ctrl-C."""
    code = (
        "import sys\n"
        "class Late:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'numpy': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Late())\n"
        "sys.argv = ['paota', 'presets']\n"
        "from paota.cli import command\n"
        "command()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "paota: interrupted\n")


def test_two_that_go_on_with_one_folder(tmp_path):
    from paota.base.system import only_one

    hold = (
        "import sys\nfrom paota.base.system import only_one\nfrom paota.base.errors import UserError\n"
        "try:\n    with only_one(sys.argv[1]): print('mine')\nexcept UserError as error: print(error)\n"
    )

    def ask():
        done = subprocess.run([sys.executable, "-c", hold, str(tmp_path)], capture_output=True, text=True, check=True)
        return done.stdout

    half_written = tmp_path / "points" / ".metrics.csv.123.part"  # of a process that was killed
    half_written.parent.mkdir()
    half_written.touch()
    with only_one(tmp_path):
        assert "another process is at work" in ask()
        assert not half_written.exists()
    assert ask() == "mine\n"
