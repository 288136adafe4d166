"""`--dry-run`: what would be computed, with counts that the run then confirms, and nothing written."""

import pytest

import paota
from paota.cli import main
from paota.simulate import prepare
from paota.simulate.workload import memory_bytes, workload_of

SMALL = [
    "--set", "rounds=4", "--set", "data.dataset=synthetic", "--set", "data.devices=5", "--set", "data.sizes=[20]",
]  # fmt: skip
TABLE = {"rounds": 4, "data": {"dataset": "synthetic", "devices": 5, "sizes": [20]}}


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("run --seeds 2 --out mine", ["local-sgd", "seeds:   0, 1", "870 parameters", "folder:  mine", "time:    about"]),
        ("sweep --over timing.period_s=4,8", ["timing.period_s = 8, cotaf", "folder:  runs/paper-sweep-", "memory:  about"]),
        ("sweep --over training.batch_size=9,2000000000", ["training.batch_size = 2000000000: fails: ", "= 9, cotaf"]),
        ("plan --target 0.5", ["candidates, each with one seed", "paota, model, dT", "folder:  runs/paper-plan-"]),
    ],
)  # fmt: skip
def test_a_dry_run_says_what_would_be_computed_and_writes_nothing(command, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert main([*command.split(), *SMALL, "--dry-run"]) == 0
    told = capsys.readouterr().out
    for text in [*says, "dry run: nothing was computed or written"]:
        assert text in told
    assert list(tmp_path.iterdir()) == []


def test_the_counts_are_those_of_the_run():
    experiment = paota.Experiment.from_dict(TABLE)
    prepared, result = prepare(experiment, seeds=2), paota.run(TABLE, seeds=2)
    for entry in experiment.algorithms:
        work, runs = workload_of(prepared, entry), result.of(entry.label)
        assert work.rounds == max(run.metrics["round"][-1] for run in runs)
        assert work.seconds == max(run.metrics["time_s"][-1] for run in runs)
        assert work.trainings == sum(run.metrics["ready"].sum() for run in runs)


def test_work_grows_with_steps_and_memory_with_the_model():
    def of(**changes):
        prepared = prepare(paota.Experiment.from_dict({**TABLE, **changes}))
        return workload_of(prepared, prepared.experiment.algorithms[0]).flop, memory_bytes(prepared)

    flop, memory = of()
    assert of(training={"local_steps": 50})[0] > 2 * flop > 0
    assert of(model={"hidden": [2_000, 2_000]})[1] > memory + 4 * 2_000**2


@pytest.mark.parametrize("flag", [["--resume", "nowhere"], ["--json"]])
def test_a_dry_run_is_neither_resumed_nor_json(flag, capsys):
    assert main(["run", *flag, "--dry-run"]) == 2
    assert f"give it without {flag[0]}" in capsys.readouterr().err
