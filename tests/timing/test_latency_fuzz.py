"""Whatever a latency trace holds, it is read or refused in a sentence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.base.errors import UserError
from paota.timing.latency import Latencies, Trace

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
