"""Cells that are kept, found again, resumed and computed again."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

import paota
from paota.studies.pool import run_tasks
from paota.studies.reproduce.cells import Cell, find, task_of
from paota.studies.reproduce.gather import radiated_by

TINY = {
    "rounds": 3,
    "data": {"dataset": "synthetic", "devices": 6, "sizes": [20]},
    "algorithms": [{"name": "paota"}, {"name": "local-sgd"}],
}


def tiny(**changes):
    return Cell(name="tiny", table={**TINY, **changes}, seeds=2)


def compute(folder, cell):
    """Compute a cell in this process; return the reason of a failure by name."""
    return run_tasks([task_of(cell, folder)], workers=1)


def test_a_cell_is_a_run_folder_and_found_again_only_if_nothing_changed(tmp_path):
    assert compute(tmp_path, tiny()) == {}
    found = find(tmp_path, tiny())
    assert found.labels == ["paota", "local-sgd"]
    assert found.of("paota", "test_accuracy").shape == (2, 4)
    loaded = paota.load(tmp_path / "tiny")
    alone = paota.run(TINY, seeds=2)
    for label in alone.labels:
        np.testing.assert_array_equal(loaded.array(label, "test_loss"), alone.array(label, "test_loss"))
    assert len(loaded.devices["device"]) == 0  # most of a folder's size, and no figure needs them ...
    assert find(tmp_path, tiny(rounds=4)) is None
    assert find(tmp_path, replace(tiny(), seeds=3)) is None
    assert find(tmp_path, replace(tiny(), devices=True)) is None
    assert find(tmp_path, tiny(training={"learning_rate": 0.1})) is not None  # the default, spelled out
    assert compute(tmp_path, replace(tiny(), devices=True)) == {}  # ... unless asked for
    assert set(find(tmp_path, replace(tiny(), devices=True)).arrays["devices/device"]) == set(range(6))


def test_the_same_cell_gives_the_same_numbers(tmp_path):
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        compute(tmp_path / part, tiny())
    for name in ("metrics.csv", "models.npz"):
        assert len({(tmp_path / part / "tiny" / name).read_bytes() for part in ("a", "b")}) == 1


@pytest.mark.parametrize("name", ["cell.json", "metrics.csv", "run.json"])
@pytest.mark.parametrize("spoil", [b"", b"{", None])
def test_a_damaged_cell_is_computed_again(tmp_path, whole_cell, name, spoil):
    shutil.copytree(whole_cell, tmp_path / "tiny")
    assert find(tmp_path, tiny()) is not None
    file = tmp_path / "tiny" / name
    file.write_bytes(file.read_bytes()[:-9] if spoil is None else spoil)
    assert find(tmp_path, tiny()) is None
    task_of(tiny(), tmp_path)
    assert [f.name for f in (tmp_path / "tiny").iterdir()] == ["cell.json"]


@pytest.fixture(scope="module")
def whole_cell(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    compute(folder, tiny())
    return folder / "tiny"


def test_a_cell_without_runs_is_found_again(tmp_path):
    cell = Cell(name="o", kind="optimum", table=TINY, options={"epochs": 1, "polish": 1})
    assert compute(tmp_path, cell) == {}
    found = find(tmp_path, cell)
    assert found.facts["value"] > 0
    assert found.arrays["model"].ndim == 1
    (tmp_path / "o" / "arrays.npz").write_bytes(b"rubbish")
    assert find(tmp_path, cell) is None
    assert compute(tmp_path, cell) == {}
    np.testing.assert_array_equal(find(tmp_path, cell).arrays["model"], found.arrays["model"])


def test_what_was_begun_goes_on_and_what_is_stale_does_not(tmp_path):
    checkpoints = tmp_path / "tiny" / "checkpoints"
    task_of(tiny(), tmp_path)
    checkpoints.mkdir()
    task_of(tiny(), tmp_path)
    assert checkpoints.is_dir()
    task_of(tiny(rounds=5), tmp_path)
    assert not checkpoints.exists()


def test_what_is_radiated_is_measured(tmp_path):
    """PAOTA as printed exceeds its own 15 W; within the physical cap it never does. Local SGD does not use the air."""
    within = {"name": "paota", "label": "within", "power": {"cap": "physical"}}
    cell = tiny(
        algorithms=[
            {"name": "paota", "power": {"cap": "paper"}},
            within,
            {"name": "local-sgd"},
            {"name": "cotaf", "fading": True},
        ]
    )
    assert compute(tmp_path, cell) == {}
    found = find(tmp_path, cell)
    printed, kept, ideal, cotaf = (radiated_by(found, [label]) for label in ("paota", "within", "local-sgd", "cotaf"))
    assert printed.median_w > 15
    assert printed.over_budget > 0.9
    assert ideal is None
    assert 0 < kept.median_w <= 15 * (1 + 1e-5)
    assert kept.over_budget == cotaf.over_budget == 0
    assert cotaf.median_w < kept.median_w  # the weakest channel decides for all
