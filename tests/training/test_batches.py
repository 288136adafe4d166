"""Samples of a local training: mini-batches, normalised channels, cropped and mirrored images."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paota import simulate
from paota.base.errors import UserError
from paota.base.rng import Purpose
from paota.base.settings import as_tree, parse
from paota.data.dataset import BLOCK, Dataset, Scaling
from paota.data.partition import Iid
from paota.models.mlp import Mlp
from paota.studies.bound.landscape import Landscape
from paota.training.batches import PADDING, crop_and_flip, draw_augmentation, draw_batches, permutation
from paota.training.learner import as_float, choose
from paota.training.settings import Training

RNG = np.random.default_rng(11)
CROP_FLIP = parse(Training, {"augment": "crop-flip"}, "training")
PLAIN = parse(Training, {}, "training")


def training_with(**changes):
    return as_tree(parse(Training, changes, "training"))


# --- mini-batches


def drawn(training, device=(3, 5, 8), number=(0, 2, 1), size=(7, 12, 1), most=16, seed=4):
    batches = draw_batches(
        training, jax.random.key(seed), jnp.array(device), jnp.array(number), jnp.array(size), most_samples=most
    )
    return np.asarray(batches.position), batches.steps


def test_an_epoch_is_a_permutation_filled_up_from_its_beginning():
    position, steps = drawn(training_with(epochs=3, batch_size=5))
    assert np.asarray(steps).tolist() == [3 * 2, 3 * 3, 3 * 1]  # ceil(7 / 5), ceil(12 / 5), ceil(1 / 5)
    orders = []
    for row, size, total in zip(position, (7, 12, 1), np.asarray(steps), strict=True):
        for epoch in np.split(row[:total], 3):
            seen = epoch.ravel()
            assert sorted(seen[:size]) == list(range(size))
            assert seen[size:].tolist() == np.resize(seen[:size], len(seen) - size).tolist()
            orders.append(tuple(seen[:size]))
    assert len(set(orders[3:6])) == 3  # a new one each epoch


def test_epochs_do_not_depend_on_the_company():
    training = training_with(epochs=2, batch_size=5)
    together, steps = drawn(training)
    alone, own = drawn(training, (5,), (2,), (12,), most=64)
    assert own[0] == steps[1]
    assert alone[0, : own[0]].tolist() == together[1, : own[0]].tolist()


def test_permutations_are_uniform():
    keys = jax.random.split(jax.random.key(0), 6000)
    made = np.asarray(jax.vmap(lambda key: permutation(key, jnp.array(3), 5))(keys))
    assert (np.sort(made[:, :3]) == np.arange(3)).all()
    _, counts = np.unique(made[:, :3], axis=0, return_counts=True)
    assert len(counts) == 6
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5  # chi-squared, 5 degrees of freedom: p = 0.001


def test_numbers_of_steps_are_uniform_and_addressed():
    training = training_with(local_steps=5, least_steps=2, batch_size=1)
    device, number = (a.ravel() for a in np.meshgrid(np.arange(50), np.arange(40), indexing="ij"))
    position, steps = drawn(training, device, number, np.full(2000, 9))
    assert position.shape == (2000, 5, 1)
    counts = np.bincount(steps)
    assert counts[:2].tolist() == [0, 0]
    assert ((counts[2:] - 500) ** 2 / 500).sum() < 16.3  # 3 degrees of freedom: p = 0.001
    assert drawn(training, [17], [3], [9])[1][0] == steps[17 * 40 + 3]


# --- normalisation


@pytest.mark.parametrize(
    ("x", "axes"),
    [
        (RNG.integers(256, size=(BLOCK + 7, 3, 4, 3), dtype=np.uint8) // np.array([1, 2, 3], np.uint8), (0, 1, 2)),
        (RNG.integers(256, size=(50, 3, 4), dtype=np.uint8), None),
        (RNG.normal(1000.0, 2.0, size=(60, 5, 4, 2)).astype(np.float32), (0, 1, 2)),
        (RNG.normal(-3.0, 2.0, size=(70, 9)).astype(np.float32), None),
    ],
)
def test_scaling_of_samples(x, axes):
    seen = x / 255 if x.dtype == np.uint8 else x.astype(float)
    scaling = Scaling.of(x)
    np.testing.assert_allclose(scaling.mean, np.atleast_1d(seen.mean(axis=axes)), rtol=1e-12)
    np.testing.assert_allclose(scaling.std, np.atleast_1d(seen.std(axis=axes)), rtol=1e-9)
    normal = np.asarray(as_float(jnp.asarray(x), scaling))
    np.testing.assert_allclose(normal.mean(axis=axes), 0, atol=2e-4)
    np.testing.assert_allclose(normal.std(axis=axes), 1, atol=2e-4)


def test_a_channel_that_never_changes_is_only_shifted():
    x = np.zeros((4, 2, 2, 2), np.uint8)
    x[..., 1] = 51
    scaling = Scaling.of(x)
    assert scaling.mean == (0.0, pytest.approx(0.2))
    assert scaling.std == (1.0, 1.0)


def made_up_images(tmp_path):
    """(path of uint8 images [N, 6, 6, 3], path of the same as floats that were normalised beforehand)."""
    y = RNG.integers(3, size=90)
    x = (40 * y[:, None, None, None] + RNG.integers(100, size=(90, 6, 6, 3))).astype(np.uint8)
    mean, std = (x[:60] / 255).mean(axis=(0, 1, 2)), (x[:60] / 255).std(axis=(0, 1, 2))
    normal = ((x / 255 - mean) / std).astype(np.float32)
    for name, inputs in (("bytes", x), ("floats", normal)):
        np.savez(tmp_path / name, x_train=inputs[:60], y_train=y[:60], x_test=inputs[60:], y_test=y[60:])
    return tmp_path / "bytes.npz", tmp_path / "floats.npz"


def run(path, *, seeds=1, devices=4, data=(), **sections):
    table = {
        "rounds": 3,
        "data": {"dataset": str(path), "devices": devices, "partition": "iid", **dict(data)},
        "training": {"local_steps": 2, "batch_size": 4},
        "algorithms": [{"name": "local-sgd"}],
    }
    return simulate.run({**table, **sections}, seeds=seeds)


def test_a_normalised_run_is_the_run_on_normalised_data(tmp_path):
    stored, beforehand = made_up_images(tmp_path)
    one, other = run(stored, data={"normalise": "channel"}), run(beforehand)
    np.testing.assert_allclose(one.of("local-sgd")[0].model, other.of("local-sgd")[0].model, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one.metrics["test_loss"], other.metrics["test_loss"], rtol=1e-4)
    assert one.info["learner"] == "generic (no kernel for data.normalise)"
    assert np.abs(run(stored).of("local-sgd")[0].model - one.of("local-sgd")[0].model).max() > 1e-3


def test_the_landscape_sees_what_the_model_sees():
    x, y = RNG.integers(256, size=(20, 3, 3, 2), dtype=np.uint8), np.arange(20) % 3
    dataset = Dataset.from_arrays(name="mine", x_train=x, y_train=y, x_test=x, y_test=y).normalised()
    landscape = Landscape(dataset, Iid()(dataset.y_train, devices=2, rng=np.random.default_rng(0)), Mlp(hidden=(4,)))
    np.testing.assert_allclose(np.asarray(landscape.x).mean(axis=(0, 1, 2)), 0, atol=1e-6)


def test_who_gets_no_kernel():
    x = np.zeros((2, 8, 8), np.uint8)
    assert choose(Mlp(), x, 3, CROP_FLIP)[1] == "generic (no kernel for training.augment = 'crop-flip')"
    assert choose(Mlp(), x, 3, PLAIN, Scaling((0.5,), (0.1,)))[1] == "generic (no kernel for data.normalise)"
    with pytest.raises(UserError, match=r"unknown value of data.normalise 'chanel': did you mean 'channel'"):
        run("synthetic", data={"normalise": "chanel"})


# --- crop and flip


def by_hand(image, down, right, mirrored):
    height, width = image.shape[:2]
    out = np.zeros_like(image)
    for row, column in itertools.product(range(height), range(width)):
        from_row, from_column = row + down - PADDING, column + right - PADDING
        if 0 <= from_row < height and 0 <= from_column < width:
            out[row, width - 1 - column if mirrored else column] = image[from_row, from_column]
    return out


@pytest.mark.parametrize("shape", [(7, 6), (6, 7, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_crop_and_flip_by_hand(shape, dtype):
    draws = np.array([[4, 4, 0], [4, 4, 1], [0, 8, 0], [8, 1, 1], [3, 5, 1]])
    images = RNG.integers(1, 256, size=(len(draws), *shape)).astype(dtype)
    made = crop_and_flip(jnp.asarray(images), jnp.asarray(draws))
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, [by_hand(i, *d) for i, d in zip(images, draws, strict=True)])
    np.testing.assert_array_equal(made[0], images[0])  # in the middle, not mirrored: as it is


def draws_of(device, number, *, steps=3, batch=4, seed=0):
    arguments = jnp.asarray(device), jnp.asarray(number)
    return np.asarray(draw_augmentation(CROP_FLIP, jax.random.key(seed), *arguments, steps, batch))


def test_every_image_has_a_draw_of_its_own():
    draws = draws_of([0, 0, 1], [0, 1, 0], steps=40, batch=50).reshape(-1, 3)
    for axis, values in ((0, 9), (1, 9), (2, 2)):
        share = np.bincount(draws[:, axis], minlength=values) / len(draws)
        assert len(share) == values
        # 6,000 draws: five standard deviations of a share.
        np.testing.assert_allclose(share, 1 / values, atol=5 * np.sqrt(1 / values * (1 - 1 / values) / len(draws)))
    correlation = np.corrcoef(draws.T) - np.eye(3)
    assert np.abs(correlation).max() < 5 / np.sqrt(len(draws))
    rows = draws.reshape(3, -1)
    assert len({row.tobytes() for row in rows}) == 3  # another device, another training: other draws


def test_draws_depend_on_their_address_alone():
    whole = draws_of([5, 2, 7], [1, 0, 3])
    np.testing.assert_array_equal(draws_of([7], [3])[0], whole[2])
    np.testing.assert_array_equal(draws_of([5, 2, 7], [1, 0, 3], steps=2, batch=3), whole[:, :2, :3])
    assert (draws_of([5, 2, 7], [1, 0, 3], seed=1) != whole).any()


def test_no_augmentation_no_draws_and_the_address_stays():
    assert draw_augmentation(PLAIN, jax.random.key(0), jnp.zeros(1, int), jnp.zeros(1, int), 2, 3) is None
    assert Purpose.AUGMENTATION == 16


@pytest.mark.parametrize("steps", [{"local_steps": 2}, {"epochs": 1}, {"local_steps": 3, "least_steps": 1}])
def test_augmented_runs(tmp_path, steps):
    path, _ = made_up_images(tmp_path)
    training = {"batch_size": 4, "augment": "crop-flip", **steps}
    one, two, plain = (
        run(path, training=training, seeds=2),
        run(path, training=training, seeds=1),
        run(path, training={**training, "augment": "none"}),
    )
    np.testing.assert_array_equal(one.of("local-sgd")[0].model, two.of("local-sgd")[0].model)  # same bits
    assert np.abs(two.of("local-sgd")[0].model - plain.of("local-sgd")[0].model).max() > 1e-4
    assert np.isfinite(two.metrics["test_loss"]).all()


def test_vectors_cannot_be_cropped(tmp_path):
    x, y = np.zeros((6, 9), np.float32), np.arange(6) % 2
    np.savez(tmp_path / "flat", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(UserError, match=r"'crop-flip' needs images .* a sample of flat.npz has shape \(9,\)"):
        run(tmp_path / "flat.npz", training={"augment": "crop-flip"})


def test_a_natural_partition_runs(tmp_path):
    x, y = RNG.random((12, 5)).astype(np.float32), np.arange(12) % 2
    np.savez(tmp_path / "mine", x_train=x, y_train=y, x_test=x, y_test=y, device_train=[9, 9, 4, 4, 4, 1] * 2)
    result = run(tmp_path / "mine.npz", devices=3, data={"partition": "natural"})
    assert result.of("local-sgd")[0].devices["device"].max() == 2
    with pytest.raises(UserError, match=r"set data.devices to 3"):
        run(tmp_path / "mine.npz", devices=4, data={"partition": "natural"})
