"""The vocabulary of an experiment: everything readable, nothing ignored, every mistake one sentence."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.base import files
from paota.base.errors import UserError
from paota.experiment.experiment import Experiment, as_experiment, override
from paota.experiment.files import parse_assignment, preset_names, read_preset


def test_an_empty_file_is_the_paper():
    ours, papers = Experiment.from_dict({}), Experiment.preset("paper")
    assert ours == papers
    assert papers.data.partition.sizes == (300, 600, 900, 1200, 1500)
    assert [c.label for c in papers.algorithms] == ["paota", "local-sgd", "cotaf"]


@pytest.mark.parametrize("name", preset_names())
def test_writing_and_reading_back_changes_nothing(name):
    experiment = Experiment.preset(name)
    text = files.to_toml(experiment.to_dict())
    assert Experiment.from_dict(tomllib.loads(text)) == experiment


def test_an_algorithm_may_depart_from_the_experiment():
    experiment = Experiment.from_dict(
        {
            "power": {"omega": 2.0},
            "algorithms": [{"name": "paota"}, {"name": "paota", "label": "loud", "power": {"cap": "paper"}}],
        }
    )
    plain, loud = experiment.algorithms
    assert (plain.power.cap, loud.power.cap) == ("physical", "paper")
    assert loud.power.omega == 2.0
    assert Experiment.from_dict(tomllib.loads(files.to_toml(experiment.to_dict()))) == experiment


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"timing": {"perid_s": 3}}, "unknown setting 'timing.perid_s': did you mean 'timing.period_s'"),
        ({"rouds": 3}, "did you mean 'rounds'"),
        ({"rounds": 3.5}, "experiment.rounds must be a whole number"),
        ({"rounds": True}, "experiment.rounds must be a whole number"),
        ({"rounds": 0}, "at least 1"),
        ({"rounds": 5, "duration_s": 3.0}, "not both"),
        ({"duration_s": float("inf")}, "finite"),
        ({"timing": 3}, "timing must be a table"),
        ({"timing": {"period_s": "abc"}}, "timing.period_s must be a number, not 'abc'"),
        ({"timing": {"period_s": 0}}, "greater than 0"),
        ({"timing": {"period_s": float("nan")}}, "finite"),
        ({"timing": {"latency": "lognormal", "low_s": 3}}, "timing.low_s"),
        ({"timing": {"latency": "unifrm"}}, "did you mean 'uniform'"),
        ({"data": {"devices": 0}}, "data.devices must be at least 1"),
        ({"data": {"partition": "dirichle"}}, "did you mean 'dirichlet'"),
        ({"data": {"sizes": 300}}, "data.sizes must be a list"),
        ({"data": {"sizes": ["a"]}}, r"data.sizes\[0\] must be a whole number"),
        ({"power": {"cap": "phisical"}}, "did you mean 'physical'"),
        ({"power": {"max_power_w": 10**400}}, "too large"),
        ({"algorithms": []}, "at least one"),
        ({"algorithms": {"name": "paota"}}, "must be a list"),
        ({"algorithms": ["paota"]}, "must be a table"),
        ({"algorithms": [{}]}, "needs a name"),
        ({"algorithms": [{"name": "paoda"}]}, "did you mean 'paota'"),
        ({"algorithms": [{"name": "paota"}, {"name": "paota"}]}, "another label"),
        ({"algorithms": [{"name": "paota", "paylod": "update"}]}, r"did you mean 'algorithms\[0\].payload'"),
        ({"algorithms": [{"name": "paota", "power": {"capp": 1}}]}, r"algorithms\[0\].power.capp"),
        ({"algorithms": [{"name": "local-sgd", "participants": 0}]}, "at least 1"),
        ({"seed": -1}, "experiment.seed must be at least 0"),
        ({"targets": [1.5]}, "at most 1"),
    ],
)
def test_mistakes_are_one_sentence(table, says):
    with pytest.raises(UserError, match=says):
        Experiment.from_dict(table)


@pytest.mark.parametrize("given", [3, [1], b"x", {1: 2}])
def test_what_is_no_experiment_is_one_sentence(given):
    with pytest.raises(UserError, match=r"an experiment is a file, a table or a paota\.Experiment, not"):
        as_experiment(given)


def test_overrides_are_typed():
    assert parse_assignment("air.n0_dbm_per_hz=-74") == ("air.n0_dbm_per_hz", -74)
    assert parse_assignment("data.sizes=[1, 2]") == ("data.sizes", [1, 2])
    assert parse_assignment("data.dataset=synthetic") == ("data.dataset", "synthetic")
    changed = as_experiment(None, ["timing.period_s=6", "algorithms.paota.payload=update", "power.cap=physical"])
    assert changed.timing.period_s == 6.0
    assert changed.algorithms[0].algorithm.payload == "update"
    assert {c.power.cap for c in changed.algorithms} == {"physical"}


def test_duration_replaces_rounds():
    assert Experiment.preset("paper").override({"duration_s": 80}).horizon.duration_s == 80.0
    assert override({"duration_s": 5.0}, {"rounds": 3}) == {"rounds": 3}


@pytest.mark.parametrize("text", ["", "=", "a", "timing.period_s", "=3"])
def test_bad_assignments(text):
    with pytest.raises(UserError):
        parse_assignment(text)


@pytest.mark.parametrize(
    "change", ["name.x.y=3", "algorithms.nobody.payload=update", "algorithms.paota=3", "timing.period_s.x=3"]
)
def test_overrides_that_reach_nothing(change):
    with pytest.raises(UserError):
        as_experiment(read_preset("paper"), [change])


letters = st.characters(exclude_categories=["Cs"])  # those of UTF-8, which Hypothesis takes seconds to find out
words = st.text(letters, max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words
values = st.recursive(scalars, lambda x: st.lists(x, max_size=3) | st.dictionaries(words, x, max_size=3))
names = st.sampled_from(
    ["name", "rounds", "duration_s", "seed", "targets", "data", "model", "training", "timing", "air", "power",
     "evaluation", "algorithms", "x"]
)  # fmt: skip
keys = st.sampled_from(
    ["dataset", "partition", "devices", "sizes", "name", "hidden", "local_steps", "learning_rate", "latency", "low_s",
     "period_s", "fading", "n0_dbm_per_hz", "max_power_w", "cap", "omega", "every", "y"]
)  # fmt: skip


tables = st.dictionaries(names, values | st.dictionaries(keys, values, max_size=4), max_size=5)
contents = st.binary(max_size=300) | st.text(letters, max_size=300).map(str.encode)


def read_or_refuse(make):
    """The experiment, or None with a sentence."""
    try:
        return make()
    except UserError as error:
        assert str(error)
        return None


def check_table(table):
    experiment = read_or_refuse(lambda: Experiment.from_dict(table))
    if experiment is not None:
        assert Experiment.from_dict(tomllib.loads(files.to_toml(experiment.to_dict()))) == experiment


def check_file(folder, content):
    file = folder / "x.toml"
    file.write_bytes(content)
    read_or_refuse(lambda: Experiment.from_file(file))


@given(tables)
@settings(max_examples=200, deadline=None)
def test_any_table_is_read_or_refused_in_a_sentence(table):
    check_table(table)


@given(contents)
@settings(max_examples=200, deadline=None)
def test_any_file_is_read_or_refused_in_a_sentence(tmp_path_factory, content):
    check_file(tmp_path_factory.getbasetemp(), content)


@pytest.mark.slow
@given(tables, contents)
@settings(max_examples=10_000, deadline=None)
def test_many_tables_and_files(tmp_path_factory, table, content):
    check_table(table)
    check_file(tmp_path_factory.getbasetemp(), content)
