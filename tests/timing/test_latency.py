"""Latencies: their draws, and any trace is read or refused in a sentence."""

import numpy as np
import pytest
from helpers.timelines import periodic
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.base.errors import UserError
from paota.timing import latency
from paota.timing.latency import Latencies, LogNormal, PerDevice, Trace, TwoSpeeds, Uniform
from paota.timing.timeline import Horizon


def uniform(devices=100, seed=0):
    return Latencies(Uniform(), devices=devices, seed=seed)


def test_a_draw_that_was_let_go_is_made_again(monkeypatch):
    """However long a run is, few draws are kept; the timeline is the same to the last bit."""
    kept = periodic(uniform(), period_s=8.0, horizon=Horizon(rounds=60))
    monkeypatch.setattr(latency, "MOST_DRAWS", 0)
    monkeypatch.setattr(latency, "FEWEST_ROWS", 1)
    few = uniform()
    again = periodic(few, period_s=8.0, horizon=Horizon(rounds=60))
    assert len(few._rows) == 1
    for name in ("time_s", "device", "version", "training", "start_s", "finish_s"):
        np.testing.assert_array_equal(getattr(again, name), getattr(kept, name))


def test_latency_draws_do_not_depend_on_who_asks():
    one, other = uniform(seed=4), uniform(seed=4)
    everyone = np.arange(100)
    late_first = one(everyone, np.full(100, 7))
    other(everyone, np.zeros(100, int))
    assert (other(everyone[::-1], np.full(100, 7))[::-1] == late_first).all()
    few = Latencies(Uniform(), devices=10, seed=4)
    assert (few(np.arange(10), np.full(10, 7)) == late_first[:10]).all()


def test_lognormal_has_its_median():
    draws = Latencies(LogNormal(median_s=9.0, spread=0.4), devices=20_000, seed=1)(
        np.arange(20_000), np.zeros(20_000, int)
    )
    assert np.median(draws) == pytest.approx(9.0, rel=0.02)
    assert np.log(draws).std() == pytest.approx(0.4, rel=0.02)


def test_per_device_latency_is_for_life():
    latencies = Latencies(PerDevice(), devices=50, seed=2)
    everyone = np.arange(50)
    assert (latencies(everyone, np.zeros(50, int)) == latencies(everyone, np.full(50, 9))).all()
    assert len(np.unique(latencies(everyone, np.zeros(50, int)))) == 50


def test_two_speeds():
    draws = Latencies(TwoSpeeds(slow_share=0.25), devices=400, seed=2)(np.arange(400), np.zeros(400, int))
    assert draws[:100].min() >= 12
    assert draws[:100].max() <= 15
    assert draws[100:].min() >= 5
    assert draws[100:].max() <= 9


def test_trace(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("device,latency_s\n0,1.5\n1,2\n0,2.5\n")
    latencies = Latencies(Trace(trace_file=str(file)), devices=3, seed=0)
    assert latencies(np.array([0, 0, 0, 1, 2]), np.array([0, 1, 2, 1, 1])).tolist() == [1.5, 2.5, 1.5, 2.0, 2.5]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "columns"),
        ("device,latency_s\n", "has no rows"),
        ("device,latency_s\n0,abc\n", "line 2"),
        ("device,latency_s\n0,-1\n", "line 2"),
        ("device,latency_s\n0,nan\n", "line 2"),
        ("a,b\n1,2\n", "columns"),
        ("device,latency_s\n0,\n", "line 2: latency_s must be a finite number above 0, not nothing"),
        ("device,latency_s\n0\n", "line 2 has 1 cells"),
        (b"\xff\xfe\x00", "CSV"),
    ],
)
def test_bad_traces_are_refused_in_a_sentence(tmp_path, content, says):
    file = tmp_path / "trace.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=says):
        Latencies(Trace(trace_file=str(file)), devices=3, seed=0)(np.array([0]), np.array([0]))


cells = st.sampled_from(["0", "1", "-1", "3.5", "nan", "inf", "1e400", "", '"', "x", "\x00", "é", "0" * 50])
lines = st.lists(st.lists(cells, max_size=4).map(",".join), max_size=6)
texts = st.tuples(st.sampled_from(["device,latency_s", "latency_s,device,extra", "a,b", ""]), lines).map(
    lambda parts: "\n".join([parts[0], *parts[1]]).encode()
)


def read(folder, content):
    file = folder / "trace.csv"
    file.write_bytes(content)
    try:
        drawn = Latencies(Trace(trace_file=str(file)), devices=4, seed=0)(np.arange(4), np.zeros(4, int))
    except UserError as error:
        assert "trace_file" in str(error)
    else:
        assert (drawn > 0).all()
        assert np.isfinite(drawn).all()


@given(texts | st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_trace(tmp_path_factory, content):
    read(tmp_path_factory.getbasetemp(), content)


@pytest.mark.slow
@given(texts | st.binary(max_size=200))
@settings(max_examples=10_000, deadline=None)
def test_any_trace_many(tmp_path_factory, content):
    read(tmp_path_factory.getbasetemp(), content)
