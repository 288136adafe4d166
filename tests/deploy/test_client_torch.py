"""The PyTorch example speaks with the same server. Skipped where PyTorch is missing: it is no dependency of ours."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")
pytest.importorskip("torch", reason="the example client for PyTorch needs torch")

from helpers.deployment import client, make_grid, run

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower" / "paota_app" / "torch_client_app.py"
TABLE = {
    "name": "torch",
    "rounds": 10,
    "data": {"dataset": "synthetic", "devices": 3, "sizes": [200], "classes_per_device": 10},
    "training": {"local_steps": 30},
    "timing": {"latency": "per-device", "seconds": [5.0, 7.0, 12.0]},
    "algorithms": [{"name": "paota", "payload": "update"}],
}


@pytest.mark.slow
def test_jax_and_torch_devices_learn_together(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("torch_client_app", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.APP_FOLDER = tmp_path

    grid = make_grid(tmp_path, TABLE)
    for k in range(3):
        grid.connect(k, 3)
    jax_client = client(tmp_path)
    grid.app = lambda message, context: (  # type: ignore[assignment]
        jax_client if context.node_config["partition-id"] == 1 else example.app
    )(message, context)
    result = run(grid, tmp_path)
    (t,) = result.of("paota")
    assert set(t.devices["device"].tolist()) == {0, 1, 2}
    assert t.devices["staleness"].max() > 0  # device 2 needs longer than a period
    assert result.info["deployment"]["algorithms"]["paota"]["incidents"] == []
    assert np.isfinite(t.model).all()
    assert t.metrics["test_accuracy"][-1] > t.metrics["test_accuracy"][0] + 0.2
