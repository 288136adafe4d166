"""Properties of every partition, and of each one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from paota.base.errors import UserError
from paota.base.registry import PARTITIONS
from paota.data.partition import Dirichlet, Iid, LabelShards, Paper, RareClass
from paota.data.sampling import blocks, draw_distinct, ragged_ranges
from paota.data.shards import Shards

LABELS = st.lists(st.sampled_from([0, 1, 2, 5, 9]), min_size=1, max_size=120).map(lambda y: np.array(y, np.int32))
ANY_PARTITION = st.one_of(
    st.builds(
        Paper,
        sizes=st.lists(st.integers(1, 200), min_size=1, max_size=4).map(tuple),
        classes_per_device=st.integers(1, 8),
    ),
    st.builds(Dirichlet, concentration=st.floats(min_value=1.2e-38, max_value=3.4e38)),
    st.builds(LabelShards, shards_per_device=st.integers(1, 6)),
    st.just(Iid()),
)
DEVICES = st.integers(1, 80)
SEEDS = st.integers(0, 2**32)
MANY = settings(max_examples=200, deadline=None)


def split(partition, labels, devices, seed=0) -> Shards:
    return partition(labels, devices=devices, rng=np.random.default_rng(seed))


def holders(shards: Shards, samples: int) -> np.ndarray:
    """Return the number of devices that hold each sample."""
    return np.bincount(shards.indices, minlength=samples)


@MANY
@given(partition=ANY_PARTITION, labels=LABELS, devices=DEVICES, seed=SEEDS)
def test_every_device_holds_something_and_nothing_twice(partition, labels, devices, seed):
    shards = split(partition, labels, devices, seed)
    assert shards.num_devices == devices
    assert shards.indices.dtype == np.int32
    assert shards.offsets.dtype == np.int64
    assert shards.sizes.sum() == len(shards.indices)
    for device in range(devices):
        mine = shards.of(device).tolist()
        assert 1 <= len(mine) == len(set(mine))
        assert all(0 <= sample < len(labels) for sample in mine)


@MANY
@given(partition=ANY_PARTITION, labels=LABELS, devices=DEVICES, seed=SEEDS)
def test_the_same_generator_gives_the_same_bits(partition, labels, devices, seed):
    first = split(partition, labels, devices, seed)
    np.random.seed(seed % 1000)  # noqa: NPY002 - the global state must not matter
    second = split(partition, labels, devices, seed)
    assert first.indices.tobytes() == second.indices.tobytes()
    assert first.offsets.tobytes() == second.offsets.tobytes()


@MANY
@given(
    partition=st.one_of(
        st.builds(Dirichlet, concentration=st.floats(0.01, 100)), st.just(LabelShards()), st.just(Iid())
    ),
    labels=LABELS,
    devices=DEVICES,
    seed=SEEDS,
)
def test_all_samples_are_used_and_shared_only_when_there_are_too_few(partition, labels, devices, seed):
    count = holders(split(partition, labels, devices, seed), len(labels))
    assert count.min() >= 1
    if devices * getattr(partition, "shards_per_device", 1) <= len(labels):
        assert count.max() == 1


@MANY
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=3), classes=st.integers(1, 6), labels=LABELS, seed=SEEDS)
def test_paper_sizes_and_classes(sizes, classes, labels, seed):
    shards = split(Paper(sizes=tuple(sizes), classes_per_device=classes), labels, 20, seed)
    for device in range(20):
        mine = shards.of(device)
        kinds = np.unique(labels[mine])
        assert len(kinds) <= classes
        if len(mine) not in sizes:  # fewer than asked: then its classes hold no more
            assert len(mine) == np.isin(labels, kinds).sum() < max(sizes)
            assert len(kinds) == min(classes, len(np.unique(labels)))


def test_papers_default_setting():
    """Sizes equally likely, all classes equally likely, and the samples of a device spread as its classes are."""
    labels = np.repeat(np.arange(10), 1000).astype(np.int32)
    shards = split(Paper(), labels, 2000)
    sizes, counts = np.unique(shards.sizes, return_counts=True)
    assert sizes.tolist() == [300, 600, 900, 1200, 1500]
    assert stats.chisquare(counts).pvalue > 1e-3
    table = np.stack([np.bincount(labels[shards.of(k)], minlength=10) for k in range(2000)])
    assert ((table > 0).sum(axis=1) == 5).all()
    assert stats.chisquare((table > 0).sum(axis=0)).pvalue > 1e-3
    # Given its classes, a class's share is hypergeometric: mean size/5.
    held = table[table > 0] / np.repeat(shards.sizes, 5)
    assert held.mean() == pytest.approx(1 / 5)
    assert np.abs(held - 1 / 5).max() < 0.15


def test_every_sample_is_as_likely_as_the_next_under_paper():
    labels = np.repeat(np.arange(4), 25).astype(np.int32)
    shards = split(Paper(sizes=(5, 10), classes_per_device=2), labels, 20_000)
    assert stats.chisquare(holders(shards, 100)).pvalue > 1e-3


def test_paper_takes_all_when_its_classes_are_small():
    labels = np.array([0, 0, 1, 1, 1, 2], np.int32)
    shards = split(Paper(sizes=(2**31 - 1,), classes_per_device=3), labels, 4)
    for device in range(4):
        assert shards.of(device).tolist() == [0, 1, 2, 3, 4, 5]


def test_iid_sizes_differ_by_at_most_one():
    shards = split(Iid(), np.zeros(7, np.int32), 3)
    assert sorted(shards.sizes.tolist()) == [2, 2, 3]
    assert sorted(shards.indices.tolist()) == list(range(7))


def test_label_shards_are_pure_when_they_fit():
    """4 classes of 4 samples, 4 devices with 2 shards: 8 shards of 2 samples, each of one class."""
    labels = np.array([3, 2, 1, 0] * 4, np.int32)
    shards = split(LabelShards(shards_per_device=2), labels, 4)
    assert shards.sizes.tolist() == [4, 4, 4, 4]
    for device in range(4):
        counts = np.bincount(labels[shards.of(device)], minlength=4)
        assert set(counts.tolist()) <= {0, 2, 4}


def test_dirichlet_from_one_owner_to_an_even_split():
    labels = np.repeat(np.arange(5), 200).astype(np.int32)

    def class_table(concentration: float) -> np.ndarray:
        shards = split(Dirichlet(concentration=concentration), labels, 10)
        return np.stack([np.bincount(labels[shards.of(k)], minlength=5) for k in range(10)])

    alone = class_table(1e-9)
    # Each class belongs to one device, except for samples that went to devices without any (at most 9).
    assert (alone.max(axis=0) >= 200 - 9).all()
    even = class_table(1e9)
    assert ((even >= 19) & (even <= 21)).all()


def test_dirichlet_shares_follow_the_law():
    """One class, two devices, concentration 1: the first device's share is uniform on [0, 1]."""
    labels = np.zeros(1000, np.int32)
    rng = np.random.default_rng(3)
    shares = [Dirichlet(concentration=1.0)(labels, devices=2, rng=rng).sizes[0] / 1000 for _ in range(500)]
    assert stats.kstest(shares, "uniform").pvalue > 1e-3


@MANY
@given(min_samples=st.integers(1, 8), devices=st.integers(1, 12), seed=SEEDS, concentration=st.floats(1e-9, 10))
def test_dirichlet_keeps_its_minimum_without_losing_a_sample(min_samples, devices, seed, concentration):
    labels = (np.arange(100) % 3).astype(np.int32)
    shards = split(Dirichlet(concentration=concentration, min_samples=min_samples), labels, devices, seed)
    assert shards.sizes.min() >= min_samples
    assert sorted(shards.indices.tolist()) == list(range(100))


@pytest.mark.parametrize("partition", [Paper(sizes=(2, 3)), Dirichlet(), LabelShards(), Iid()])
def test_a_hundred_thousand_devices(partition):
    labels = (np.arange(3_000) % 10).astype(np.int32)
    shards = split(partition, labels, 100_000)
    assert shards.num_devices == 100_000
    assert shards.sizes.min() >= 1


REFUSED = [
    (Paper(sizes=(5, 0)), 3, "data.sizes must be at least 1, not 0"),
    (Paper(classes_per_device=0), 3, "data.classes_per_device must be at least 1, not 0"),
    (Paper(sizes=(10,)), 200_000, "the devices ask for 2000000 samples together"),
    (Dirichlet(concentration=0.0), 3, "data.concentration must be greater than 0"),
    (Dirichlet(concentration=float("nan")), 3, "data.concentration must be a finite number"),
    (Dirichlet(min_samples=0), 3, "data.min_samples must be at least 1, not 0"),
    (Dirichlet(min_samples=4), 3, "data.min_samples = 4 for 3 devices asks for more than the 10 training samples"),
    (LabelShards(shards_per_device=0), 3, "data.shards_per_device must be at least 1, not 0"),
    (LabelShards(shards_per_device=2**31 - 1), 3, "and the most allowed is"),
    (Iid(), 0, "data.devices must be at least 1, not 0"),
    (Iid(), 2**40, "and the most allowed is"),
]


@pytest.mark.parametrize(("partition", "devices", "sentence"), REFUSED)
def test_impossible_wishes_are_refused(partition, devices, sentence, monkeypatch):
    # The limit on the total is checked after K numbers are drawn, so let it be small here.
    monkeypatch.setattr("paota.data.partition.MAX_TOTAL", 10**6)
    with pytest.raises(UserError) as caught:
        split(partition, np.arange(10, dtype=np.int32), devices)
    assert sentence in str(caught.value)


def test_paper_needs_a_size():
    with pytest.raises(UserError, match=r"data.sizes must name at least one size"):
        Paper(sizes=())


@pytest.mark.parametrize("name", ["paper", "dirichlet", "shards", "iid"])
def test_partitions_are_registered_and_refuse_empty_data(name):
    with pytest.raises(UserError, match="no training samples"):
        split(PARTITIONS[name](), np.zeros(0, np.int32), 3)


@MANY
@given(
    rows=st.lists(st.integers(1, 50).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=30),
    seed=SEEDS,
)
def test_draw_distinct_gives_what_was_asked(rows, seed):
    populations = np.array([n for n, _ in rows], np.int64)
    counts = np.array([c for _, c in rows], np.int64)
    drawn = draw_distinct(populations, counts, np.random.default_rng(seed))
    for (population, count), row in zip(rows, np.split(drawn, np.cumsum(counts)[:-1]), strict=False):
        assert len(row) == count
        assert (np.diff(row) > 0).all()
        assert count == 0 or (row[0] >= 0 and row[-1] < population)
    assert len(drawn) == counts.sum()


@pytest.mark.parametrize(("count", "subsets"), [(2, 15), (3, 20), (4, 15), (5, 6)])
def test_all_subsets_are_equally_likely(count, subsets):
    """`count` of 6: more than half is drawn the other way round, and must be just as fair."""
    rows = 20_000
    drawn = draw_distinct(np.full(rows, 6), np.full(rows, count), np.random.default_rng(11)).reshape(rows, count)
    _, seen = np.unique((1 << drawn).sum(axis=1), return_counts=True)
    assert len(seen) == subsets
    assert stats.chisquare(seen).pvalue > 1e-3


def test_ragged_ranges_and_blocks():
    assert ragged_ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    cut = blocks(np.array([3, 3, 3, 50, 1, 1]), 7)
    assert [(s.start, s.stop) for s in cut] == [(0, 2), (2, 3), (3, 4), (4, 6)]


def test_shards_from_pairs():
    shards = Shards.from_pairs([1, 0, 1, 1, 0], [4, 2, 0, 4, 1], devices=2)
    assert shards.indices.tolist() == [1, 2, 0, 4]
    assert shards.offsets.tolist() == [0, 2, 4]
    assert shards.of(1).tolist() == [0, 4]
    with pytest.raises(IndexError):
        shards.of(2)


@pytest.mark.parametrize(
    ("indices", "offsets", "sentence"),
    [
        ([1, 2], [0, 1, 1, 2], "device 1 holds no sample"),
        ([1, 2], [0, 1], "offsets must run from 0"),
        ([1, 2], [0], "offsets must run from 0"),
        ([1, -2], [0, 2], "index -2 is negative"),
        ([3, 1, 3], [0, 3], "holds the same sample twice"),
        ([1.5], [0, 1], "must be a vector of whole numbers"),
    ],
)
def test_shards_made_by_hand_are_checked(indices, offsets, sentence):
    with pytest.raises(UserError, match=sentence):
        Shards(np.array(indices), np.array(offsets))


def test_the_rare_class_is_held_by_the_first_devices_alone():
    """Ten classes, 3 a device, class 4 rare: devices 0 to 5 of 20 hold it and two others, the rest three others."""
    labels = np.repeat(np.arange(10), 200)
    shards = split(RareClass(sizes=(120,), rare_class=4, holders=0.3), labels, 20)
    for k in range(20):
        held = np.unique(labels[shards.of(k)])
        assert len(held) == 3
        assert (4 in held) == (k < 6)
    assert (shards.sizes == 120).all()
    assert len(np.unique(labels[shards.indices])) == 10


def test_a_rare_class_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match="rare_class = 9, but there are 3 classes"):
        split(RareClass(), np.array([0, 1, 2]), 4)


def test_shards_may_share_and_stand_in_any_order():
    shards = Shards(np.array([3, 1, 3]), np.array([0, 2, 3]))
    assert shards.sizes.tolist() == [2, 1]
