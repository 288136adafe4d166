"""Trackers, each against its own local back end, read back with its own reader."""

import csv
import math

import numpy as np
import pytest

from paota import UserError, simulate
from paota.callbacks import CsvStream, MLflow, NotebookBar, TensorBoard, WandB

from .conftest import plan_of

# What the trackers' own dependencies are going to drop is theirs to mend.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    """One run with all of them at once."""
    for package in ("tensorboard", "mlflow", "sqlalchemy", "wandb"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("tracked")
    store = f"sqlite:///{folder / 'mlflow.db'}"
    trackers = [
        CsvStream(folder / "rounds.csv"),
        TensorBoard(folder / "tb"),
        MLflow(store),
        WandB("mine", mode="offline", dir=str(folder)),
        lambda round: round.label == "paota" and round.round == 4,
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # MLflow keeps its artifacts here
        result = simulate.execute(plan_of(seeds=1, rounds=6), callbacks=trackers, folder=folder)
    return folder, store, result


def test_the_stream_is_the_table(tracked):
    folder, _, result = tracked
    with (folder / "rounds.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for t in result.trajectories:
        mine = [row for row in rows if (row["label"], int(row["seed"])) == (t.label, t.seed)]
        for name, column in t.metrics.items():
            np.testing.assert_array_equal([float(row[name] or math.nan) for row in mine], column, err_msg=name)


def test_a_program_can_follow_the_stream(tmp_path):
    """Every line is there, whole, when the next round is told."""
    path, lines = tmp_path / "mine.csv", []
    simulate.execute(
        plan_of(seeds=1, rounds=6), callbacks=[CsvStream(path), lambda r: lines.append(path.read_text().count("\n"))]
    )
    assert lines == list(range(2, 2 + len(lines)))


def test_tensorboard_reads_the_events_back(tracked):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, _, result = tracked
    for t in result.trajectories:
        place = folder / "tb" / "small" / t.label / f"seed-{t.seed}"
        events = EventAccumulator(str(place)).Reload()
        for name in ("test_accuracy", "train_loss", "time_s", "staleness_mean"):
            told = events.Scalars(name)
            known = ~np.isnan(t.metrics[name])
            assert [e.step for e in told] == t.metrics["round"][known].tolist()
            np.testing.assert_array_equal([e.value for e in told], t.metrics[name][known].astype(np.float32))
        settings = events.Tensors("settings")[0].tensor_proto.string_val[0].decode()
        assert "timing.period_s = 6.0" in settings
        assert {"experiment.toml", "metrics.csv", "model.npz"} <= {file.name for file in place.iterdir()}


def test_mlflow_store_holds_one_run_for_each_unit(tracked):
    from mlflow import MlflowClient

    _, store, result = tracked
    client = MlflowClient(tracking_uri=store)
    runs = client.search_runs([client.get_experiment_by_name("small").experiment_id])
    by_name = {run.info.run_name: run for run in runs}
    assert set(by_name) == {"paota, seed 0", "local-sgd, seed 0"}
    for t in result.trajectories:
        run = by_name[f"{t.label}, seed {t.seed}"]
        assert run.info.status == "FINISHED"
        assert run.data.params["timing.period_s"] == "6.0"
        assert run.data.params["algorithm.name"] == t.label
        told = client.get_metric_history(run.info.run_id, "test_accuracy")
        assert [m.value for m in told] == t.metrics["test_accuracy"].tolist()
        assert run.data.metrics["final_accuracy"] == t.metrics["test_accuracy"][-1]
        assert {f.path for f in client.list_artifacts(run.info.run_id)} == {
            "experiment.toml", "metrics.csv", "model.npz",
        }  # fmt: skip
    assert by_name["paota, seed 0"].data.metrics["stopped_round"] == 4


def wandb_records(content):
    """The records of a .wandb file: LevelDB's log format, blocks of 32 KiB, after a header of 7 bytes."""
    position, parts = 7, []
    while position < len(content):
        if 32768 - position % 32768 < 7:  # no room for a record's head
            position += 32768 - position % 32768
            continue
        length, kind = int.from_bytes(content[position + 4 : position + 6], "little"), content[position + 6]
        parts.append(content[position + 7 : position + 7 + length])
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield b"".join(parts)
            parts = []


def test_wandb_keeps_an_offline_run_for_each_unit(tracked):
    from wandb.proto import wandb_internal_pb2

    folder, _, result = tracked
    found = {}
    for file in (folder / "wandb").glob("offline-run-*/*.wandb"):
        records = [wandb_internal_pb2.Record.FromString(data) for data in wandb_records(file.read_bytes())]
        (name,) = {r.run.display_name for r in records if r.HasField("run") and r.run.display_name}
        found[name] = records
    assert set(found) == {"paota, seed 0", "local-sgd, seed 0"}
    for t in result.trajectories:
        records = found[f"{t.label}, seed {t.seed}"]
        told = [
            float(item.value_json)
            for r in records
            if r.HasField("history")
            for item in r.history.item
            if "test_accuracy" in (item.key, *item.nested_key)
        ]
        assert told == t.metrics["test_accuracy"].tolist()
        assert any(r.HasField("artifact") or r.request.HasField("log_artifact") for r in records)


def test_a_tracker_that_is_not_installed_is_asked_for_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(TensorBoard, "package", "no_such_package")
    with pytest.raises(Exception, match="needs no_such_package: pip install") as caught:
        simulate.execute(plan_of(), callbacks=[TensorBoard()])
    assert isinstance(caught.value.__cause__, UserError)
    assert caught.value.result is None


def test_a_notebook_bar_draws_in_place(monkeypatch):
    InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    shell = InteractiveShell.instance()
    published = []
    monkeypatch.setattr(
        shell.display_pub, "publish", lambda data, *rest, update=False, **more: published.append((data, update))
    )
    try:
        bar = NotebookBar()
        simulate.execute(plan_of(rounds=6, algorithms=[{"name": "paota", "label": "<b>"}]), callbacks=[bar])
    finally:
        InteractiveShell.clear_instance()
    first, *later = published
    assert not first[1]
    assert all(update for _, update in later)
    assert "12/12 rounds" in later[-1][0]["text/html"]
    assert "&lt;b&gt;" in later[-1][0]["text/html"]
