"""Any file of a fleet is read, or refused in a sentence that names it."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.base.errors import UserError
from paota.timing.fleet import Attendance
from paota.timing.fleet_files import COLUMNS, read_fleet, write_fleet
from paota.timing.synthetic_fleets import make_fleet

pytestmark = pytest.mark.bare


def read(folder, text, name="fleet.csv"):
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_fleet(file)


def test_a_file_by_hand(tmp_path):
    """Rows in any order, an empty cell as in the row before, an empty line, a BOM; 9 stands before 10."""
    text = "\ufeffdevice,time_s,available,gflop_per_s\n10,0,1,5\n9,60,0,\n\n9,0,true,2\n9,90.5,1,3\n"
    fleet = read(tmp_path, text)
    assert fleet.names == ("9", "10")
    assert fleet.offsets.tolist() == [0, 3, 4]
    assert fleet.time_s.tolist() == [0, 60, 90.5, 0]
    assert fleet.available.tolist() == [True, False, True, True]
    assert fleet.rates["gflop_per_s"].tolist() == [2, 2, 3, 5]
    attendance = Attendance.of(fleet, None)
    device = np.array([0, 2, 2, 1, 3])  # 2 and 3 follow 9 and 10 again
    assert attendance.rate("gflop_per_s", device, np.array([0, 70, 95.0, 1e6, 0])).tolist() == [2, 2, 3, 5, 5]
    assert attendance.rate("up_mbit_per_s", device, None) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs the column device"),
        ("device\na\n", "at least one of"),
        ("device,time_s,available\n", "has no rows"),
        ("device,available\na,1\n", "needs the column time_s"),
        ("device,time_s,availble\na,0,1\n", "unknown column 'availble': did you mean 'available'?"),
        ("device,seconds\na,3\n", "did you mean 'latency_s'?"),
        ("device,device,time_s\na,a,0\n", "twice"),
        ("device,time_s\na,0,1\n", "line 2 has 3 cells, and the first line 2"),
        ("device,time_s\n,0\n", "line 2 names no device"),
        ("device,time_s,available\na,0,1\n\na,nan,1\n", "line 4: time_s must be a finite number"),
        ("device,time_s,available\na,-1,1\n", "line 2: time_s must be a finite number of seconds, at least 0, not -1"),
        ("device,time_s,available\na,,1\n", "not nothing"),
        ("device,time_s,available\na,0,2\n", "line 2: available must be 0, 1, true or false, not '2'"),
        ("device,time_s,available\na,0,\n", "line 2: available is empty"),
        (
            "device,time_s,available\na,0,1\nb,5,1\na,0,0\n",
            "line 4 has a second row for device 'a' at the same time",
        ),
        ("device,latency_s\na,0\n", "latency_s must be a finite number above 0, not 0"),
        ("device,latency_s\na,inf\n", "line 2: latency_s must be a finite number above 0"),
        ("device,latency_s\na,nan\n", "above 0, not NaN"),
        ("device,latency_s\na,x\n", "line 2: latency_s must be a number, not 'x'"),
        (b"\xff\xfe\x00", "not a readable CSV file"),
        ('device,latency_s\n"a' + "x" * 200_000, "not a readable CSV file"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(tmp_path, text, says):
    with pytest.raises(UserError, match=r"fleet\.csv") as refused:
        read(tmp_path, text)
    assert says in str(refused.value)


def test_a_written_fleet_is_read_back(tmp_path):
    fleet = make_fleet(40, 2.0, seed=3)
    write_fleet(tmp_path / "fleet.csv", fleet)
    again = read_fleet(tmp_path / "fleet.csv")
    assert again.names == fleet.names
    np.testing.assert_array_equal(again.time_s, fleet.time_s)
    np.testing.assert_array_equal(again.available, fleet.available)
    for column, values in fleet.rates.items():
        np.testing.assert_allclose(again.rates[column], values, rtol=1e-9)


cells = st.sampled_from(
    ["0", "1", "-1", "3.5", "nan", "inf", "1e400", "", '"', "x", "\x00", "é", "0" * 50, "true", " 1 "]
)
lines = st.lists(st.lists(cells, max_size=4).map(",".join), max_size=6)
heads = st.lists(st.sampled_from([*COLUMNS, "a", ""]), max_size=4).map(",".join)
texts = st.tuples(heads, lines).map(lambda parts: "\n".join([parts[0], *parts[1]]).encode())


@given(texts | st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_file(tmp_path_factory, content):
    read_or_refuse(tmp_path_factory.getbasetemp(), content)


@pytest.mark.slow
@given(texts | st.binary(max_size=200))
@settings(max_examples=10_000, deadline=None)
def test_any_file_many(tmp_path_factory, content):
    read_or_refuse(tmp_path_factory.getbasetemp(), content)


def read_or_refuse(folder, content):
    try:
        fleet = read(folder, content)
    except UserError as error:
        assert "fleet.csv" in str(error)
    else:
        assert np.isfinite(fleet.time_s).all()
        assert (fleet.time_s >= 0).all()
        for values in fleet.rates.values():
            assert (np.isfinite(values) & (values > 0)).all()
        back_s = Attendance.of(fleet, None).availability.back_s(np.arange(len(fleet)), np.zeros(len(fleet)))
        assert not np.isnan(back_s).any()


def test_one_device_with_very_many_changes_does_not_hang(tmp_path):
    """A hundred thousand short stays: the one that is long enough is the last."""
    n = 100_000
    rows = "".join(f"a,{2 * i},1\na,{2 * i + 1},0\n" for i in range(n))
    fleet = read(tmp_path, f"device,time_s,available\n{rows}a,{2 * n},1\n")
    availability = Attendance.of(fleet, None).availability
    begin = time.process_time()
    for _ in range(100):
        done_s, begun_s = availability.finish_s(np.zeros(1, int), np.zeros(1), np.array([1.5]), lose=True)
    assert time.process_time() - begin < 5
    assert begun_s[0] == 2 * n
    assert done_s[0] == 2 * n + 1.5


@pytest.mark.slow
def test_a_million_rows(tmp_path):
    fleet = make_fleet(70_000, 7.0)
    assert len(fleet.time_s) > 1_000_000
    write_fleet(tmp_path / "big.csv", fleet)
    begin = time.process_time()
    again = read_fleet(tmp_path / "big.csv")
    assert time.process_time() - begin < 60  # some 6 s on a quiet machine
    np.testing.assert_array_equal(again.time_s, fleet.time_s)
