"""The catalogue of all cells."""

from __future__ import annotations

import pytest

from paota.base.errors import UserError
from paota.studies.reproduce import catalogue


def test_the_whole_catalogue_is_valid_and_every_method_has_the_same_training():
    cells = catalogue.catalogue(catalogue.full())
    assert len({cell.name for cell in cells}) == len(cells)
    for cell in cells:
        experiment = cell.experiment  # refuses an unknown or impossible setting
        rates = {c.training.learning_rate for c in experiment.algorithms}
        batches = {c.training.batch_size for c in experiment.algorithms}
        assert batches == {32}
        if not cell.name.startswith(("eta-", "bound-")):
            assert rates == {0.1}
        if cell.name in ("quiet", "loud", "six") or (cell.name.startswith("noise-") and "far" not in cell.name):
            assert cell.seeds >= 15  # what a verdict depends on
    etas = [
        [c.training.learning_rate for c in cell.experiment.algorithms] for cell in cells if cell.name.startswith("eta-")
    ]
    assert all(e == etas[0] for e in etas)  # all methods get the same rates


def test_parts_can_be_chosen_and_the_papers_figures_are_always_there():
    scale = catalogue.full()
    everything = {cell.name for cell in catalogue.catalogue(scale)}
    noise = {cell.name for cell in catalogue.catalogue(scale, ["noise"])}
    assert {"quiet", "loud", "six", "optimum-2000", "noise-cotaf"} <= noise < everything
    assert "omega" not in noise
    with pytest.raises(UserError, match="did you mean 'noise'"):
        catalogue.catalogue(scale, ["nois"])
