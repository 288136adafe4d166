"""Cells in the pool: a worker that dies ends nothing but its own cell, and the same command goes on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.studies.reproduce import catalogue, run
from paota.studies.reproduce import cells as reproduction
from paota.studies.reproduce.cells import Cell, find, task_of

DATA = {"dataset": "synthetic", "devices": 6, "sizes": [20]}


def cell(name, rounds=3):
    return Cell(name=name, table={"rounds": rounds, "data": DATA, "algorithms": [{"name": "paota"}]}, seeds=2)


def test_a_dead_worker_ends_nothing_but_its_own_cell(tmp_path, monkeypatch):
    """Three cells, two workers, and one of them is killed as soon as it has begun: the same command goes on."""
    cells = [cell("long", 30), cell("two"), cell("three")]
    monkeypatch.setattr(catalogue, "catalogue", lambda scale, parts: list(cells))
    killed = []

    def kill_one(todo):
        def watch(update):
            if update.kind == "done" and not killed:  # while the first one is still under way, or has just ended
                victim = next(child for child in multiprocessing.active_children() if child.is_alive())
                killed.append(victim.pid)
                os.kill(victim.pid, signal.SIGKILL)

        return contextlib.nullcontext(watch)

    monkeypatch.setattr(run, "write", lambda out, scale, stored: stored)
    monkeypatch.setattr(catalogue, "crossed_cell", lambda scale: cells[0])
    with contextlib.suppress(UserError):
        run.reproduce(tmp_path, workers=2, display=kill_one, parts=["paper"])
    assert killed
    kept = [cell.name for cell in cells if find(tmp_path / "cells", cell) is not None]
    assert len(kept) >= 2
    stored = run.reproduce(tmp_path, workers=1, parts=["paper"])
    assert set(stored) == {"long", "two", "three"}
    one, other = stored["two"].of("paota", "test_accuracy"), stored["three"].of("paota", "test_accuracy")
    np.testing.assert_array_equal(one, other)
    assert multiprocessing.active_children() == []


def test_a_cell_whose_worker_dies_is_named(tmp_path, monkeypatch):
    """The process of one cell ends itself: the other one is kept, and the sentence names the lost one."""
    plugin = tmp_path / "deadly.py"
    plugin.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    cells = [cell("bad"), cell("good")]
    monkeypatch.setattr(catalogue, "catalogue", lambda scale, parts: list(cells))

    def deadly(cell, folder):
        task = task_of(cell, folder)
        return replace(task, experiment={**task.experiment, "plugins": [str(plugin)] if cell.name == "bad" else []})

    monkeypatch.setattr(reproduction, "task_of", deadly)
    with pytest.raises(UserError, match=r"1 of 2 cells failed \('bad': its process was ended by SIGKILL"):
        run.reproduce(tmp_path / "out", workers=2, parts=["paper"])
    assert find(tmp_path / "out" / "cells", cells[1]) is not None
