"""The bookkeeping of devices and answers, without Flower: everything that can go wrong with one device, in tables."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.deploy.answers import Refused, accept
from paota.deploy.roster import Flight, Roster
from paota.deploy.transport import Answer, Layout, Malformed

LAYOUT = Layout(("0.bias", "0.weight"), ((2,), (2, 3)))
START = np.arange(8, dtype=np.float32)
FLIGHT = Flight(message="m", node=10, device=3, version=5, training=2, start_s=40.0)


def roster(devices: int = 3, patience_s: float = 20.0) -> Roster:
    made = Roster(devices, patience_s)
    for k in range(devices):
        made.join(100 + k, k, 0.0)
    return made


def kinds(r: Roster) -> dict[tuple[int, str], int]:
    return {key: incident.count for key, incident in r.incidents.items()}


# ---- the roster ------------------------------------------------------------


def test_a_device_in_flight_is_not_idle_and_an_answer_makes_it_idle_again() -> None:
    r = roster()
    assert r.idle({100, 101, 102}) == [0, 1, 2]
    r.depart(1, "a", 0, 0.0)
    assert r.idle({100, 101, 102}) == [0, 2]
    flight = r.land("a", 7.0)
    assert flight is not None
    assert (flight.device, flight.version, flight.training) == (1, 0, 0)
    assert r.idle({100, 101, 102}) == [0, 1, 2]
    assert r.depart(1, "b", 3, 8.0).training == 1  # every training has another number
    assert r.incidents == {}


def test_an_unreachable_device_is_left_alone_until_it_is_back() -> None:
    r = roster()
    assert r.idle({100, 102}) == [0, 2]
    assert r.idle({100, 101, 102}) == [0, 1, 2]


def test_a_mute_device_is_given_up_rearmed_and_its_late_answer_refused() -> None:
    r = roster(patience_s=20.0)
    r.depart(0, "a", 0, 0.0)
    assert r.give_up(19.9) == []
    assert [f.message for f in r.give_up(20.0)] == ["a"]
    assert r.idle({100}) == [0]
    r.depart(0, "b", 2, 24.0)
    assert r.land("a", 30.0) is None
    assert kinds(r) == {(0, "no answer"): 1, (0, "late"): 1}
    assert r.flights.keys() == {"b"}  # the new order is not touched by the old answer


def test_a_slow_device_gets_more_time_after_its_first_late_answer() -> None:
    r = roster(patience_s=20.0)
    r.depart(0, "a", 0, 0.0)
    r.give_up(21.0)
    r.land("a", 33.0)
    r.depart(0, "b", 2, 40.0)
    assert r.give_up(40.0 + 65.9) == []  # 2 * 33 s
    assert len(r.give_up(40.0 + 66.1)) == 1
    r.depart(1, "c", 2, 40.0)
    assert len(r.give_up(60.5)) == 1  # the others do not


def test_news_that_a_given_up_training_failed_says_nothing_of_speed() -> None:
    r = roster(patience_s=20.0)
    r.depart(0, "a", 0, 0.0)
    r.give_up(21.0)
    assert r.land("a", 50.0, failed=True) is None
    assert kinds(r) == {(0, "no answer"): 1}
    assert r.patience_with(0) == 20.0


def test_a_second_answer_and_an_unasked_one_are_refused() -> None:
    r = roster()
    r.depart(2, "a", 0, 0.0)
    assert r.land("a", 5.0) is not None
    assert r.land("a", 6.0) is None
    assert r.land("nonsense", 6.0) is None
    assert kinds(r) == {(2, "answered twice"): 1, (-1, "unasked"): 1}


def test_a_restarted_device_comes_back_under_another_node() -> None:
    r = roster()
    r.depart(1, "a", 0, 0.0)
    r.join(555, 1, 4.0)
    assert r.idle({100, 102, 555}) == [0, 1, 2]  # what the old node was asked for is lost
    assert r.depart(1, "b", 1, 8.0).node == 555
    assert r.land("a", 9.0) is None
    assert kinds(r) == {(1, "replaced"): 1, (1, "late"): 1}


def test_joining_twice_under_the_same_node_changes_nothing() -> None:
    r = roster()
    r.depart(1, "a", 0, 0.0)
    r.join(101, 1, 4.0)
    assert r.flights.keys() == {"a"}
    assert r.incidents == {}


def test_a_node_with_a_wrong_number_does_not_take_part() -> None:
    r = roster(devices=3)
    for wrong in (-1, 3, 10**9):
        r.join(900, wrong, 0.0)
    assert 900 not in r.node_of.values()
    assert kinds(r) == {(-1, "unknown device"): 3}


def test_an_incident_is_logged_once_and_counted_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    r = roster()
    with caplog.at_level(logging.WARNING, logger="paota.deploy"):
        for i in range(5):
            r.note(1, "not finite", "3 of 8 values are NaN or infinite", float(i))
    assert len(caplog.records) == 1
    assert r.incidents[1, "not finite"].count == 5
    assert r.incidents[1, "not finite"].first_s == 0.0


def test_a_device_that_stays_mute_for_ever_costs_no_memory() -> None:
    r = roster(patience_s=1.0)
    for i in range(100):
        r.depart(0, f"m{i}", i, 2.0 * i)
        r.give_up(2.0 * i + 1.5)
    assert len(r.given_up) == 1
    assert r.flights == {}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["send", "land", "again", "give", "join"]), st.integers(0, 3)), max_size=60))
def test_whatever_happens_a_device_is_idle_or_in_flight_exactly_once(steps: list[tuple[str, int]]) -> None:
    r, now, sent = roster(4, patience_s=3.0), 0.0, 0
    for what, k in steps:
        now += 1.0
        if what == "send" and k in r.idle(range(1000)):
            r.depart(k, f"m{(sent := sent + 1)}", sent, now)
        elif what in ("land", "again") and sent:
            r.land(f"m{max(1, sent - k)}", now)
        elif what == "give":
            r.give_up(now)
        elif what == "join":
            r.join(200 + int(now), k, now)
        busy = [flight.device for flight in r.flights.values()]
        assert len(busy) == len(set(busy))
        assert sorted(busy + r.idle(range(1000))) == [0, 1, 2, 3]
        assert sum(r.trainings) == sent


# ---- answers ------------------------------------------------------------


def answer(**changes: object) -> Answer:
    numbers = {"version": 5, "training": 2, "num-examples": 30, "loss": 0.5}
    numbers |= {k.replace("_", "-"): v for k, v in changes.items() if k not in ("arrays", "error", "error_kind")}
    arrays = changes.get("arrays", LAYOUT.split(START + 1))
    return Answer(message="m", arrays=arrays, numbers=numbers, error=changes.get("error"))  # type: ignore[arg-type]


def check(given: Answer) -> object:
    return accept(given, FLIGHT, LAYOUT, 48.0)


def test_a_good_answer_is_taken_as_it_is() -> None:
    arrival = accept(answer(), FLIGHT, LAYOUT, 48.0)
    np.testing.assert_array_equal(arrival.model, START + 1)
    assert (arrival.num_samples, arrival.loss, arrival.finish_s) == (30.0, 0.5, 48.0)


def with_value(value: float) -> dict[str, np.ndarray]:
    arrays = LAYOUT.split(START)
    arrays["0.weight"] = arrays["0.weight"].copy()
    arrays["0.weight"][1, 1] = value
    return arrays


REFUSED = {
    "error": ({"error": "it raised"}, "error"),
    "NaN": ({"arrays": with_value(math.nan)}, "not finite"),
    "infinite": ({"arrays": with_value(-math.inf)}, "not finite"),
    "beyond float32": ({"arrays": {**LAYOUT.split(START), "0.bias": np.array([1e300, 0.0])}}, "not finite"),
    "no arrays": ({"arrays": {}}, "wrong shape"),
    "an array too many": ({"arrays": {**LAYOUT.split(START), "extra": np.zeros(1)}}, "wrong shape"),
    "transposed": ({"arrays": {**LAYOUT.split(START), "0.weight": np.zeros((3, 2))}}, "wrong shape"),
    "whole numbers": ({"arrays": {**LAYOUT.split(START), "0.bias": np.zeros(2, int)}}, "wrong shape"),
    "texts": ({"arrays": {**LAYOUT.split(START), "0.bias": np.array(["a", "b"])}}, "wrong shape"),
    "another version": ({"version": 4}, "other task"),
    "another training": ({"training": 1}, "other task"),
    "no samples": ({"num_examples": 0}, "wrong numbers"),
    "half a sample": ({"num_examples": 0.5}, "wrong numbers"),
    "negative samples": ({"num_examples": -5}, "wrong numbers"),
    "NaN samples": ({"num_examples": math.nan}, "wrong numbers"),
    "endless samples": ({"num_examples": math.inf}, "wrong numbers"),
    "a text for samples": ({"num_examples": "many"}, "wrong numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_answer_is_refused_with_its_reason(case: str) -> None:
    changes, kind = REFUSED[case]
    with pytest.raises(Refused) as refused:
        check(answer(**changes))
    assert refused.value.kind == kind
    assert refused.value.detail


# ---- layout ------------------------------------------------------------


def test_layout_takes_a_model_apart_and_together() -> None:
    parts = LAYOUT.split(START)
    np.testing.assert_array_equal(parts["0.bias"], [0, 1])
    np.testing.assert_array_equal(parts["0.weight"], [[2, 3, 4], [5, 6, 7]])
    np.testing.assert_array_equal(LAYOUT.join(dict(reversed(parts.items()))), START)  # names decide, not the order
    assert LAYOUT.size == 8
    with pytest.raises(Malformed, match=r"0\.bias"):
        LAYOUT.join({"0.weight": parts["0.weight"]})


def test_layout_names_the_parameters_of_a_jax_model() -> None:
    import jax
    from jax.flatten_util import ravel_pytree

    from paota.models.mlp import Mlp

    params = Mlp(hidden=(4,)).init(jax.random.key(0), (3, 3), 2)
    layout = Layout.of(params)
    assert layout.names == ("0.bias", "0.weight", "1.bias", "1.weight")
    assert layout.shapes == ((4,), (4, 9), (2,), (2, 4))
    flat = ravel_pytree(params)[0]
    np.testing.assert_array_equal(layout.split(np.asarray(flat))["1.weight"], params[1]["weight"])
