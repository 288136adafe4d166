"""The sentences and the table, against runs whose answers are worked out on paper."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from helpers.made_results import by_hand, make_result

from paota.base.formatting import isolated, listing, percent, quantity, target_percent
from paota.pages.timeline import stretch_of, timeline_figure
from paota.results.result import Result
from paota.studies.report.devices import rank_correlation
from paota.studies.report.findings import caveats, headline, results_table, what_ran
from paota.studies.report.learning import target_section
from paota.studies.report.report import build
from paota.studies.report.study import distinct_names, gather
from paota.studies.report.timing import staleness_bins


def plain(html: str) -> str:
    """The text of a piece of HTML, its narrow spaces as ordinary ones."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", html)).replace("\u202f", " ")).strip()


def said(*results: Result) -> list[str]:
    return [plain(sentence) for sentence in headline(gather(results))]


def cells(*results: Result) -> list[list[str]]:
    """The heads of the columns, then of each row its head and its cells, notes included."""
    table = results_table(gather(results))
    rows = [[row.head, *row.cells] for row in table.rows]
    said = [[plain(" ".join([cell.text, cell.badge, *cell.notes])) for cell in row] for row in rows]
    return [[plain(head) for head in table.heads[1:]], *said]


FAST = [(0.0, 0.1), (40.0, 0.5), (80.0, 0.8)]
SLOW = [(0.0, 0.1), (50.0, 0.6), (100.0, 0.9)]


def test_who_is_first_and_by_how_much() -> None:
    assert said(by_hand({"fast": [FAST], "slow": [SLOW]})) == [
        "fast reaches 80 % first, after 80 simulated seconds: 20 % sooner than slow.",
        # At 80 s, where the fast one ends, the slow one has what it had at 50 s.
        "The best final accuracy is 90.0 %, by slow; at the same simulated time (80 s) fast leads with 80.0 %.",
    ]


def test_equal_times_are_called_equal_and_the_missing_are_named() -> None:
    never = [(0.0, 0.1), (90.0, 0.2)]
    first, _ = said(by_hand({"a": [FAST], "b": [FAST], "c": [never]}))
    assert first == "a and b reach 80 % at the same time, after 80 simulated seconds; c did not reach it."


def test_what_is_shown_as_equal_is_called_a_tie() -> None:
    nearly = [*FAST[:2], (90.0, 0.80004)]  # 80.0 %, as the page writes it
    times = by_hand({"a": [FAST], "b": [FAST], "c": [SLOW]})
    assert said(times)[1] == (
        "The best final accuracy is 90.0 %, by c; at the same simulated time (80 s) a and b lead with 80.0 %."
    )
    assert said(by_hand({"a": [FAST], "b": [nearly]}))[1] == (
        "The best final accuracy is 80.0 %, by a and b; at the same simulated time (80 s) a leads with 80.0 %."
    )


def test_nothing_good_is_said_of_a_run_that_diverged() -> None:
    result = by_hand({"calm": [SLOW], "wild": [[*FAST, (90.0, 0.99)]]})
    wild = result.trajectories[1]
    lost = replace(wild, diverged_round=3)
    broken = replace(result, trajectories=[result.trajectories[0], lost])
    sentences = said(broken)
    assert sentences[0] == "calm reaches 80 % first, after 100 simulated seconds."
    assert "wild" not in sentences[1]
    assert sentences[-1] == "wild diverged (seed 0 in round 3)."
    bold = [row.head.text for row in results_table(gather([broken])).rows if any(cell.bold for cell in row.cells)]
    assert bold == ["calm"]
    assert said(replace(result, trajectories=[lost])) == ["wild diverged (seed 0 in round 3)."]


def test_the_score_is_called_what_the_model_calls_it() -> None:
    result = replace(by_hand({"fast": [FAST], "slow": [SLOW]}), info={"score": "R²"})
    assert said(result)[0].startswith("fast reaches 0.8 first")
    assert said(result)[1].startswith("The best final R² is 0.9, by slow")
    table = results_table(gather([result]))
    assert table.groups[0] == ("Test R²", 2)
    assert [plain(cell.text) for cell in table.rows[0].cells[:2]] == ["0.8", "0.8"]
    page = build(gather([result]), "run", 50)
    (learning,) = [section for section in page.sections if section.id == "learning"]
    assert learning.figures[0].title == "Test R²"
    assert "accuracy" not in " ".join(figure.title + figure.caption + figure.alt for figure in page.figures())


def test_the_devices_own_data_have_a_sentence_columns_and_figures() -> None:
    result = make_result(rounds=4, seeds=2, devices=20, own={"paota": 0.5, "cotaf": 0.5})
    study = gather([result])
    # 20 devices from 0.5 to 0.69: the worst two have 0.505; local-sgd, from 0.4, is 10 points below.
    assert said(result)[2] == (
        "On the devices' own data the worst tenth of them reaches 50.5 % with paota and cotaf, and 40.5 % with local-sgd."
    )
    assert ("On devices' own data", 2) in results_table(study).groups
    assert cells(result)[1][3:5] == ["50.5 % ± 0.0", "5.8 points"]
    figures = {figure.id: figure for figure in build(study, "run", 50).figures()}
    assert {"own-ranked", "own-participation", "own-staleness", "own-channel"} <= set(figures)
    assert figures["own-ranked"].views["all"].traces[0]["y"][::19] == [0.69, 0.5]
    assert "Rank correlation: paota +1.00" in figures["own-channel"].caption


def test_rank_correlation_knows_ties() -> None:
    x, y = np.array([1.0, 2.0, 2.0, 9.0]), np.array([1.0, 3.0, 2.0, 4.0])
    # Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, squared deviations 4.5 and 5.
    assert rank_correlation(x, y) == pytest.approx(4.5 / np.sqrt(4.5 * 5))


def test_the_highest_target_that_was_reached_counts_and_none_is_said() -> None:
    half = [(0.0, 0.1), (10.0, 0.55)]
    assert said(by_hand({"a": [half]}))[0] == "a reaches 50 % first, after 10 simulated seconds."
    assert said(by_hand({"a": [[(0.0, 0.1), (10.0, 0.2)]]}))[0] == "No algorithm reached 50 %, the lowest target."
    assert said(by_hand({"a": [half]}, targets=()))[0].startswith("The best final accuracy is 55.0 %")


def test_seeds_are_said_to_be_medians() -> None:
    runs = by_hand({"a": [[(0.0, 0.1), (time_s, 0.9)] for time_s in (10.0, 20.0, 60.0)]})
    assert said(runs)[0] == "a reaches 80 % first, after 20 simulated seconds (median of 3 seeds)."
    assert plain(what_ran(gather([runs]))) == "1 algorithm, 3 seeds, 100 devices and 1 round on mnist."


def test_few_seeds_are_a_caveat_of_a_comparison() -> None:
    few, enough = (make_result(rounds=3, seeds=seeds, devices=5) for seeds in (3, 5))
    assert caveats(gather([few])) == ["With 3 seeds the order may be chance; use at least 5 seeds to compare."]
    assert caveats(gather([enough])) == caveats(gather([by_hand({"a": [FAST]})])) == []


def test_equal_numbers_are_bold_alike() -> None:
    nearly = [*FAST[:2], (80.0, 0.80004)]
    table = results_table(gather([by_hand({"a": [FAST], "b": [nearly], "c": [SLOW]}, targets=(0.99,))]))
    assert [[cell.bold for cell in row.cells] for row in table.rows] == [[False, True], [False, True], [True, False]]
    assert table.groups == [("Test accuracy", 2)]  # no column for a target that no algorithm reached


def test_divergence_is_said_and_marked() -> None:
    result = make_result(rounds=10, seeds=2, devices=5, diverged=("cotaf",))
    assert "cotaf diverged (seed 0 in round 6)." in said(result)
    assert any(row[0] == "cotaf diverged in 1 seed" for row in cells(result))


def test_table_of_one_seed() -> None:
    result = by_hand({"fast": [FAST], "slow": [SLOW]})
    groups = results_table(gather([result])).groups
    assert groups == [("Test accuracy", 2), ("Rounds to", 2), ("Simulated seconds to", 2)]
    heads, fast, slow = cells(result)
    assert heads == ["final, after 2 rounds", "after 80 s", "50 %", "80 %", "50 %", "80 %"]
    assert fast == ["fast", "80.0 %", "80.0 %", "1", "2", "40", "80"]
    assert slow == ["slow", "90.0 %", "60.0 %", "1", "2", "50", "100"]


def test_table_has_the_spread_and_says_what_was_not_reached() -> None:
    # Seconds to 50 %: 10, 20, 30, so quartiles 15 and 25. 80 % is reached by one seed of three: no median.
    seeds = [[(0.0, 0.1), (10.0, 0.6)], [(0.0, 0.1), (20.0, 0.7)], [(0.0, 0.1), (30.0, 0.8)]]
    *_, row = cells(by_hand({"a": seeds}))
    # Mean 0.7, standard deviation sqrt(0.02 / 3) = 0.0816. At 10 s only the first has left 0.1.
    assert row[1] == "70.0 % ± 8.2"
    assert row[2] == "26.7 % ± 23.6"
    assert row[3:] == ["1 1–1", "not reached 1 of 3 seeds", "20 15–25", "not reached 1 of 3 seeds"]


def test_equal_rounds_get_a_column_only_when_the_runs_are_of_unequal_length() -> None:
    longer = [*SLOW, (150.0, 0.95)]
    heads, fast, slow = cells(by_hand({"fast": [FAST], "slow": [longer]}))
    assert heads[:3] == ["final", "after 2 rounds", "after 80 s"]
    assert fast[1:4] == ["80.0 %", "80.0 %", "80.0 %"]
    assert slow[1:4] == ["95.0 %", "90.0 %", "60.0 %"]


def test_several_runs_are_compared_at_the_time_that_all_of_them_reached() -> None:
    one = by_hand({"a": [FAST]}, name="one")
    two = by_hand({"a": [SLOW]}, name="two", targets=(0.9,))
    heads, first, second = cells(one, two)
    assert first[0] == "one: a"
    assert second[0] == "two: a"
    assert heads[1] == "after 80 s"
    assert second[2] == "60.0 %"
    # A target that only the other run set is not "not reached".
    assert first[-1] == "–"


def test_best_of_each_column_is_bold() -> None:
    table = results_table(gather([by_hand({"fast": [FAST], "slow": [SLOW]})]))
    bold = [plain(cell.text) for row in table.rows for cell in row.cells if cell.bold]
    assert bold == ["80.0 %", "1", "2", "40", "80", "90.0 %", "1", "2"]


@pytest.mark.parametrize(
    ("largest", "count", "last"), [(0, 1, (0, 0)), (11, 12, (11, 11)), (12, 7, (12, 13)), (999, 12, (924, 1007))]
)
def test_staleness_bins(largest: int, count: int, last: tuple[int, int]) -> None:
    bins = staleness_bins(largest)
    assert len(bins) == count
    assert bins[-1] == last


def test_small_words() -> None:
    assert distinct_names(["a", "b", "a", "a (2)", "a"]) == ["a", "b", "a (2)", "a (2) (2)", "a (3)"]
    assert listing([]) == ""
    assert listing(["a", "b", "c"]) == "a, b and c"
    assert listing(["<a>", isolated("<b>")]) == "&lt;a&gt; and <bdi>&lt;b&gt;</bdi>"
    assert percent(0.8314) == "83.1\u202f%"
    assert target_percent(0.825) == "82.5\u202f%"
    assert (quantity(12345.6), quantity(88.64), quantity(40.0)) == ("12,346", "88.6", "40")


def test_a_timeline_late_in_a_run_is_as_sharp_as_at_its_beginning() -> None:
    """Whole seconds would draw a device that waits while it still trains."""
    records = {
        "device": [0.0], "round": [3000.0], "staleness": [0.0], "start_s": [239_984.25], "finish_s": [239_990.75],
        "time_s": [239_992.125], "version": [2999.0], "weight": [1.0],
    }  # fmt: skip
    stretch = stretch_of({name: np.array(column) for name, column in records.items()})
    assert stretch is not None
    waits, trains, sends = timeline_figure({"0": ("paota", stretch)}).views["0"].traces
    assert (trains["base"], trains["x"]) == ([239_984.25], [6.5])
    assert waits["x"] == [239_990.75, 239_992.125, None]
    assert sends["x"] == [239_992.125]


def test_one_seed_has_no_whiskers_to_draw_or_to_speak_of() -> None:
    for seeds, whiskers in ((1, False), (3, True)):
        study = gather([make_result(seeds=seeds, rounds=8)])
        section = target_section(study)
        assert section is not None
        (figure,) = section.figures
        assert ("whiskers" in figure.caption) == whiskers
        assert ("error_y" in figure.views["seconds"].traces[0]) == whiskers
