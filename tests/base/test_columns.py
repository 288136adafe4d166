"""The table of columns knows what runs record, and the glossary shows it."""

import runpy
from pathlib import Path

import numpy as np

import paota
from paota.base.columns import DEVICE_SCORES, DEVICES, METRICS, needed, with_new_names

ROOT = Path(__file__).parents[2]
TABLE = {
    "rounds": 4,
    "data": {"dataset": "synthetic", "devices": 6, "sizes": [30]},
    "air": {"control_mbit_per_s": 1.0, "digital": "ofdma"},
    "guards": {"max_update_norm": 0.5, "noise_multiplier": 0.1},
    "faults": {"dropout": 0.5},
    "algorithms": [
        {"name": "paota"},
        {"name": "baa", "participants": 2, "selected": 4},
        {"name": "fedbuff", "guards": {"noise_multiplier": None}},
    ],
}


def test_every_recorded_column_is_in_the_table():
    result = paota.run(TABLE)
    for name, table in (("metrics", METRICS), ("devices", DEVICES), ("device_scores", DEVICE_SCORES)):
        for trajectory in result.trajectories:
            recorded = set(getattr(trajectory, name))
            assert recorded <= {column.name for column in table}
            assert set(needed(table)) <= recorded
    assert {"aborted", "lost", "own_rho_max", "control_bits"} <= set(result.metrics)


def test_names_are_unique_and_meanings_are_sentences():
    for table in (METRICS, DEVICES, DEVICE_SCORES):
        assert len({column.name for column in table}) == len(table)
        assert all(column.meaning.endswith(".") and column.meaning[0].isupper() for column in table)


def test_columns_of_version_0_1_get_their_new_names():
    old = {"round": np.arange(2), "power": np.ones(2), "transmit_w": np.ones(2)}
    assert list(with_new_names(old, DEVICES)) == ["round", "amplitude", "transmit_power_w"]


def test_the_glossary_is_written_from_the_table():
    made = runpy.run_path(str(ROOT / "docs" / "_build" / "columns.py"))["markdown"]()
    assert (ROOT / "docs" / "columns.md").read_text(encoding="utf-8") == made
