"""The compiled engine against the literal reading of Algorithm 1, on the same draws."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers.literal_algorithm_1 import paota as literal_paota

from paota import simulate
from paota.base.units import dbm_to_w
from paota.experiment.experiment import Experiment
from paota.simulate import prepare
from paota.simulate.programs import Programs
from paota.timing.latency import Latencies


@pytest.mark.parametrize("payload", ["model", "update"])
@pytest.mark.parametrize("n0_dbm_per_hz", [-174.0, -30.0])
def test_engine_agrees_with_algorithm_1(payload, n0_dbm_per_hz):
    rounds = 7
    experiment = Experiment.from_dict(
        {
            "rounds": rounds,
            "seed": 3,
            "data": {"dataset": "synthetic", "devices": 6, "sizes": [30, 60]},
            "training": {"local_steps": 3, "batch_size": 8},
            "timing": {"period_s": 6.0},  # stalenesses 0, 1 and 2, and an early round without a ready device
            "air": {"n0_dbm_per_hz": n0_dbm_per_hz},
            "power": {"cap": "paper"},
            "algorithms": [{"name": "paota", "payload": payload}],
        }
    )
    result = simulate.run(experiment)
    prepared = prepare(experiment)
    shards = prepared.shards[3]
    latencies = Latencies(experiment.timing.latency, devices=6, seed=3)
    models = literal_paota(
        3, _initial_model(prepared), prepared.dataset, [shards.of(k) for k in range(6)],
        lambda k, n: latencies(np.array([k]), np.array([n]))[0],
        (int(np.prod(prepared.dataset.input_shape)), 10, 10, 10),
        rounds=rounds, period_s=6.0, M=3, B=8, eta=0.1, omega=3.0, p_max=15.0,
        sigma2=20e6 * dbm_to_w(n0_dbm_per_hz), L=10.0, eps2=1.0, payload=payload,
    )  # fmt: skip
    metrics = result.trajectories[0].metrics
    assert 0 in metrics["ready"][1:]
    assert np.nanmax(metrics["staleness_max"]) == 2
    # The literal reading is in float64 anyway; ReLU kinks amplify the last bits of a float32 a little.
    tolerance = {"rtol": 1e-10, "atol": 1e-11} if jax.config.jax_enable_x64 else {"rtol": 2e-4, "atol": 2e-5}
    assert result.trajectories[0].model.dtype == (np.float64 if jax.config.jax_enable_x64 else np.float32)
    np.testing.assert_allclose(result.trajectories[0].model, models[-1], **tolerance)


@pytest.mark.skipif(jax.config.jax_enable_x64, reason="this is the double-precision run itself")
@pytest.mark.slow
def test_engine_agrees_in_double_precision():
    """The same comparison with JAX in float64, where only rounding is left: an error of method could not hide."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", "agrees_with", __file__]
    done = subprocess.run(
        command, env={**os.environ, "JAX_ENABLE_X64": "1"}, cwd=Path(__file__).parents[2],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def _initial_model(prepared):
    return np.asarray(Programs(prepared).problem(prepared.experiment.algorithms[0]).initial_model(3), float)
