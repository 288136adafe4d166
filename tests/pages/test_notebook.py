"""Tests of the notebook views of a result and a power solution, and of the models of a result."""

import numpy as np
import pytest
from helpers.made_results import make_result

import paota
from paota import UserError
from paota.pages.figure import Style
from paota.pages.notebook import as_plotly
from paota.studies.report.learning import learning_section
from paota.studies.report.study import gather


@pytest.fixture(scope="module")
def result():
    """A real run: it has a model, shards and records of devices."""
    return paota.run(
        {
            "name": "small & <b>bold</b>",
            "rounds": 4,
            "model": {"name": "softmax"},
            "data": {"dataset": "synthetic", "devices": 5, "sizes": [40], "normalise": "channel"},
            "algorithms": [{"name": "paota"}, {"name": "local-sgd", "participants": 3}],
        },
        seeds=[1, 4],
    )


def test_a_result_is_one_line(result):
    for text in (repr(result), repr(result.trajectories[0])):
        assert "\n" not in text
        assert len(text) < 200
    assert "2 seeds" in repr(result)
    assert "'local-sgd', seed 4: 4 rounds" in repr(result.trajectories[-1])


def test_a_result_as_html(result):
    """The report's sentences and table, without scripts, and no markup from a name."""
    shown = result._repr_html_()
    assert "small &amp; &lt;b&gt;bold&lt;/b&gt;" in shown
    assert "The best final accuracy is" in shown
    assert "<table>" in shown
    assert "<script" not in shown
    assert len(shown) < 20_000


def test_figures_are_the_reports_own(result):
    """The same numbers under the same title; the band, colours and dashes as in the page."""
    drawn = result.plot("test_accuracy", against="time_s")
    (figure,) = [f for f in learning_section(gather([result]), 300).figures if f.id == "test-accuracy"]
    lines = [trace for trace in drawn.data if trace.name]
    assert [trace.name for trace in lines] == ["paota", "local-sgd"]
    for mine, theirs in zip(lines, figure.views["seconds"].traces, strict=True):
        assert list(mine.y) == theirs["y"]
    assert drawn.layout.title.text == figure.title
    assert len(drawn.data) == 4  # two lines and their bands
    assert lines[0].line.color != lines[1].line.color
    assert lines[0].line.dash != lines[1].line.dash


@pytest.mark.parametrize(
    ("draw", "title", "x"),
    [
        (lambda r: r.plot("staleness_mean"), "Mean staleness (rounds)", "simulated seconds"),
        (lambda r: r.plot("energy_j", against="round"), "Radiated energy (J)", "round"),
        (lambda r: r.plot_power(), "Mean transmit power (W)", "round"),
        (lambda r: r.plot_timeline("local-sgd"), "Training, waiting and sending: local-sgd", "simulated seconds"),
    ],
)
def test_other_figures(result, draw, title, x):
    drawn = draw(result)
    assert drawn.layout.title.text == title
    assert drawn.layout.xaxis.title.text == x
    assert "$" not in drawn.to_json()  # every colour is resolved


def test_the_power_stands_beside_its_limit(result):
    drawn = result.plot_power()
    assert drawn.layout.yaxis.type == "log"
    assert [note.text for note in drawn.layout.annotations] == ["P_max 15 W"]


def test_names_are_no_markup():
    study = gather([make_result()])
    (figure,) = [f for f in learning_section(study, 50).figures if f.id == "test-accuracy"]
    styles = [Style(name="<a href=x>y</a>", colour=0) for _ in study.entries]
    assert "<a" not in as_plotly(figure, "rounds", styles).data[-1].name


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda r: r.time_to(80), r"a share from 0 to 1, not 80; did you mean time_to\(0.8\)"),
        (lambda r: r.time_to(-1), "a share from 0 to 1, not -1$"),
        (lambda r: r.array("paota", "test_acuracy"), "unknown column 'test_acuracy': did you mean 'test_accuracy'"),
        (lambda r: r.array("paota", "accuracy"), "did you mean 'test_accuracy'"),
        (lambda r: r.plot("zzzz"), "unknown column 'zzzz': known: airtime_s"),
        (lambda r: r.plot(against="seconds"), "did you mean 'time_s'"),
        (lambda r: r.plot_timeline("paot"), "did you mean 'paota'"),
        (lambda r: r.model("paot"), "did you mean 'paota'"),
        (lambda r: r.predict(np.zeros((3, 3))), r"the shape \[n, 8, 8\], not \[3, 3\]"),
        (lambda r: r.predict(r.dataset.x_test, seed=2), "there is no seed 2 in this run: its seeds are 1, 4"),
    ],
)
def test_mistakes_are_sentences(result, mistake, says):
    with pytest.raises(UserError, match=says):
        mistake(result)


@pytest.mark.parametrize(("label", "seed", "row"), [("paota", 1, 0), ("local-sgd", 4, 1)])
def test_predictions_are_those_that_were_judged(result, label, seed, row):
    data = result.dataset
    predicted = result.predict(data.x_test, label, seed=seed)
    assert predicted.shape == data.y_test.shape
    np.testing.assert_allclose(
        (predicted == data.y_test).mean(), result.array(label, "test_accuracy")[row, -1], rtol=1e-5
    )


def test_the_model_has_its_own_form(result):
    params = result.model("paota")
    assert {name: leaf.shape for name, leaf in params.items()} == {"bias": (10,), "weight": (10, 64)}
    flat = result.of("paota")[0].model
    np.testing.assert_array_equal(np.concatenate([params["bias"], params["weight"].ravel()]), flat)


def test_shards_are_those_of_the_run(result, tmp_path):
    assert set(result.shards) == {1, 4}
    assert result.shards[1].sizes.tolist() == [40] * 5
    assert not np.array_equal(result.shards[1].indices, result.shards[4].indices)
    again = paota.load(result.save(tmp_path / "x", report=False))
    np.testing.assert_array_equal(again.shards[4].indices, result.shards[4].indices)
    np.testing.assert_array_equal(again.predict(result.dataset.x_test[:9]), result.predict(result.dataset.x_test[:9]))


def test_a_power_solution():
    solution = paota.power.solve(p_max=15.0, staleness=[0, 1, 1] * 9, similarity=[0.2, 0.6, 0.9] * 9)
    assert repr(solution).startswith("<paota.power.Solution by exact: 27 of 27 devices send, objective ")
    assert "\n" not in repr(solution)
    shown = solution._repr_html_()
    assert solution.message in shown
    assert "The first 20 of 27 devices." in shown
