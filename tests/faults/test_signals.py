"""Learning survives what it should, and fails where no guard stands."""

import numpy as np
import pytest

from paota import simulate

BASE = {
    "rounds": 40,
    "data": {"dataset": "synthetic", "devices": 20, "sizes": [60, 90]},
    "training": {"local_steps": 5, "batch_size": 16},
    "evaluation": {"every": 40},
}


@pytest.fixture(scope="module")
def runs():
    """All the runs of this file as one experiment: same data, latencies and channels for all."""
    cases = {
        "calm": {},
        "dropout": {"faults": {"dropout": 0.3}},
        "broadcasts": {"faults": {"lost_broadcasts": 0.3}},
        "stragglers": {"faults": {"stragglers": 0.3}},
        "stuck": {"faults": {"stuck": 0.3}},
        "fades": {"faults": {"deep_fades": 0.3, "fade_db": 40.0}},
        "csi": {"faults": {"csi_outage": 0.1}},
        "nan": {"faults": {"corrupted": 0.2}},
        "nan-guarded": {"faults": {"corrupted": 0.2}, "guards": {"reject_non_finite": True}},
        "scaled": {"faults": {"corrupted": 0.2, "corruption": "scale", "scale": 100.0}},
        "scaled-guarded": {
            "faults": {"corrupted": 0.2, "corruption": "scale", "scale": 100.0}, "guards": {"max_update_norm": 1.0}
        },
        "flipped": {"faults": {"corrupted": 0.2, "corruption": "sign-flip"}},
        "stale-guarded": {"guards": {"max_staleness": 0}},
    }  # fmt: skip
    printed = {"name": "paota", "payload": "update", "power": {"cap": "paper"}}  # a huge update may be loud
    algorithms = [{**printed, "label": label, **case} for label, case in cases.items()]
    return {t.label: t for t in simulate.run({**BASE, "algorithms": algorithms}).trajectories}


@pytest.mark.parametrize(
    ("label", "share"),
    [
        ("dropout", 0.5), ("broadcasts", 0.5), ("stragglers", 0.5), ("stuck", 0.5), ("fades", 0.9), ("csi", 0.4),
        ("nan-guarded", 0.7), ("scaled-guarded", 0.5), ("flipped", 0.3), ("stale-guarded", 0.3),
    ],
)  # fmt: skip
def test_learning_survives(runs, label, share):
    """It makes at least this share of the calm run's progress in loss."""

    def progress(t):
        return t.metrics["train_loss"][0] - t.metrics["train_loss"][-1]

    assert runs[label].diverged_round is None
    assert progress(runs[label]) > share * progress(runs["calm"])


def test_without_a_guard_rubbish_wins(runs):
    assert runs["nan"].diverged_round is not None
    assert runs["scaled"].diverged_round is not None or (
        runs["scaled"].metrics["train_loss"][-1] > runs["scaled"].metrics["train_loss"][0]
    )


def test_mishaps_are_counted(runs):
    assert "lost" not in runs["calm"].metrics
    assert runs["dropout"].metrics["lost"].sum() > 0
    assert runs["stale-guarded"].metrics["lost"].sum() > 0
    guarded = runs["nan-guarded"]
    assert guarded.metrics["silent"].sum() > 0
    rejected = guarded.devices["weight"] == 0
    assert 0 < len(np.unique(guarded.devices["device"][rejected])) < 10  # the corrupted ones, and only they
    assert set(guarded.devices["device"][rejected]).isdisjoint(guarded.devices["device"][~rejected])


def test_clipping_shortens_without_turning():
    import jax
    import jax.numpy as jnp

    from paota.faults import Faults, Guards
    from paota.faults.signals import Checked, corrupt_and_guard

    update = jnp.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    work = Checked(update + 1.0, update, jnp.ones(3, bool), jnp.ones((3, 2)))
    checked = corrupt_and_guard(Faults(), Guards(max_update_norm=1.0), jax.random.key(0), jnp.arange(3), work)
    np.testing.assert_allclose(checked.update, [[0.6, 0.8], [0.3, 0.4], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(checked.local_model, [[1.6, 1.8], [1.3, 1.4], [1, 1]], rtol=1e-6)


@pytest.mark.parametrize("size", [1e3, 1e9, 1e19, 1e30, 3e38])
def test_clipping_very_long_updates(size):
    """Neither does the start cancel in single precision, nor do squares overflow."""
    import jax
    import jax.numpy as jnp

    from paota.faults import Faults, Guards
    from paota.faults.signals import Checked, corrupt_and_guard

    start = jnp.full((1, 2), 0.123456)
    update = jnp.array([[0.6, 0.8]]) * size
    work = Checked(start + update, update, jnp.ones(1, bool), start)
    checked = corrupt_and_guard(Faults(), Guards(max_update_norm=2.0), jax.random.key(0), jnp.arange(1), work)
    np.testing.assert_allclose(checked.update, [[1.2, 1.6]], rtol=1e-6)
    np.testing.assert_allclose(checked.local_model, start + checked.update, rtol=1e-6)


def test_all_held_back_are_all_silent():
    held = {"faults": {"corrupted": 1.0}, "guards": {"reject_non_finite": True}, "algorithms": [{"name": "paota"}]}
    (only,) = simulate.run({**BASE, "rounds": 3, **held}).trajectories
    assert only.metrics["ready"].sum() > 0
    np.testing.assert_array_equal(only.metrics["silent"], only.metrics["ready"])
