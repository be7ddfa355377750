from __future__ import annotations

import math
import statistics

import attrs
import numpy as np
import pytest
from sentbed.protocols import Items, Score
from sentbed_report.formatting import expected_verdict
from sentbed_report.statistics.cell_scores import CellScores, mean_over_tasks
from sentbed_report.statistics.difference import difference
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_comparison import published_numbers
from sentbed_report.study.published_number_config import Published
from sentbed_report.study.study_data import AxisInfo, CellRun, with_runs
from sentbed_report.study_page.published_section import published_notes
from toy_study import with_added, with_fields

TWO = {
    "first": {
        1: {"MR": 70.0, "CR": 80.0},
        2: {"MR": 72.0, "CR": 84.0},
        3: {"MR": 71.0, "CR": 85.0},
    },
    "mean": {
        1: {"MR": 75.0, "CR": 80.0},
        2: {"MR": 76.0, "CR": 88.0},
        3: {"MR": 80.0, "CR": 81.0},
    },
}


def with_scores(data, change, cell=""):
    """Change what the runs of a cell have scored, or of all."""

    def changed(run):
        return attrs.evolve(run, scores=change(run)) if cell in ("", run.cell) else run

    return attrs.evolve(data, cells=with_runs(data.cells, changed))


def only(data):
    (summary,) = summarise(data)
    return summary


def names(summary):
    return [row.name for row in summary.rows]


def places_of(rows):
    """The places of rows in the first column."""
    return [row.cells[0].place for row in rows]


def values(row):
    return [cell.value for cell in row.cells]


# --- numbers -----------------------------------------------------------------------------------------------


def test_each_value_is_mean_and_sample_deviation_over_the_seeds(study_of):
    summary = only(study_of(TWO))
    assert summary.headings == ("MR", "CR", "Avg")
    assert names(summary) == ["first", "mean"]
    mr = summary.rows[0].cells[0]
    assert (mr.value, mr.std, len(mr.seeds)) == (
        71.0,
        pytest.approx(statistics.stdev([70, 72, 71])),
        3,
    )
    average = summary.rows[0].cells[2]
    assert list(average.seeds.values()) == [75.0, 78.0, 78.0]
    assert (average.value, average.std) == (
        77.0,
        pytest.approx(statistics.stdev([75, 78, 78])),
    )
    assert summary.over == "Mean and standard deviation over 3 seeds (1, 2, 3)."


# --- ranks -------------------------------------------------------------------------------------------------

# Two columns of SentBench's table 2 with the ranks that it prints, within BERT and within RoBERTa.
KNOWLEDGE = (
    "avg",
    "cls",
    "dropout ctr",
    "dropout cls",
    "nsp ctr",
    "nsp cls",
    "da ctr",
    "da cls",
)
PRINTED = {
    "bert": {
        "CR": (
            [87.39, 87.39, 85.09, 70.09, 87.18, 85.59, 84.64, 77.25],
            [1, 1, 5, 8, 3, 4, 6, 7],
        ),
        "TREC": (
            [91.80, 91.33, 90.67, 79.33, 89.67, 89.87, 89.67, 84.73],
            [1, 2, 3, 8, 5, 4, 5, 7],
        ),
    },
    "roberta": {
        "CR": (
            [88.58, 86.01, 85.43, 63.84, 90.60, 88.51, 86.78, 63.97],
            [2, 5, 6, 8, 1, 3, 4, 7],
        ),
        "TREC": (
            [91.93, 83.00, 87.80, 66.60, 91.33, 89.67, 89.13, 65.60],
            [1, 6, 5, 7, 2, 3, 4, 8],
        ),
    },
}
RANKED_AXES = (
    AxisInfo("backbone", ("bert", "roberta")),
    AxisInfo("knowledge", KNOWLEDGE),
)


def sentbench(study_of, **more):
    numbers = {}
    for backbone, tasks in PRINTED.items():
        for place, knowledge in enumerate(KNOWLEDGE):
            scores = {task: values[place] for task, (values, _) in tasks.items()}
            numbers[f"{backbone}, {knowledge}"] = {1: scores}

    return study_of(numbers, axes=RANKED_AXES, **more)


def ranks_of(table, column):
    return [row.cells[column].rank for row in table.rows]


def test_ranks_are_those_that_the_paper_prints(study_of):
    summary = only(sentbench(study_of, ranks=("backbone",)))
    for column, task in enumerate(("CR", "TREC")):
        expected = PRINTED["bert"][task][1] + PRINTED["roberta"][task][1]
        assert ranks_of(summary, column) == expected

    everywhere = only(sentbench(study_of, ranks=()))
    values = PRINTED["bert"]["CR"][0] + PRINTED["roberta"]["CR"][0]
    best_first = sorted(values, reverse=True)
    ranks = []
    for value in values:
        ranks.append(1 + best_first.index(value))

    assert ranks_of(everywhere, 0) == ranks
    assert set(ranks_of(only(sentbench(study_of)), 0)) == {None}


def test_what_is_printed_alike_is_ranked_as_it_was_before_rounding(study_of):
    # The averages of table 3, printed 69.33 and 69.33 with the ranks 4 and 3; and three equal means of seeds.
    close = study_of(
        {"nsp cls": {1: {"MR": 415.95 / 6}}, "da ctr": {1: {"MR": 416.0 / 6}}},
        ranks=(),
    )
    assert ranks_of(only(close), 0) == [2, 1]
    thirds = {
        "a": {1: {"MR": 0.1}, 2: {"MR": 0.2}},
        "b": {1: {"MR": 0.2}, 2: {"MR": 0.1}},
    }
    assert ranks_of(only(study_of(thirds, ranks=())), 0) == [1, 1]


def test_only_what_has_finished_and_is_not_degenerate_is_ranked(study_of):
    numbers = {}
    for name, value in {"a": 1.0, "b": 2.0, "c": 3.0}.items():
        numbers[name] = {1: {"MR": value}}
    running = study_of({**numbers, "d": {1: {}}}, ranks=(), statuses={"d": "running"})
    assert ranks_of(only(running), 0) == [3, 2, 1, None]
    useless = with_fields(study_of(numbers, ranks=()), "c", degenerate="constant")
    assert ranks_of(only(useless), 0) == [2, 1, None]


def test_further_metrics_have_tables_of_their_own_after_the_first(study_of):
    tasks = {
        "MRPC": 75.0,
        "MRPC/f1": 82.0,
        "MRPC/mcc": 40.0,
        "SST2": 90.0,
        "QQP": 80.0,
        "QQP/f1": 78.0,
    }
    other = {task: value + 1 for task, value in tasks.items()}
    data = study_of({"a": {1: tasks}, "b": {1: other}}, baseline="a", items=True)
    summaries = summarise(data)
    assert [(table.headings, table.metric) for table in summaries] == [
        (("MRPC", "SST2", "QQP", "Avg"), ""),
        (("MRPC", "QQP", "Avg"), "f1"),
        (("MRPC",), "mcc"),
    ]
    assert values(summaries[1].rows[0]) == [82.0, 78.0, 80.0]
    # Each table judges by the items of its own metric.
    for place in range(3):
        cells = []
        for cell in data.cells:
            cells.append(CellScores({(1, ""): (cell.runs[0].scores[place],)}))
        judged = summaries[place].rows[1].cells[0].judged
        assert judged.estimate == difference(*cells)


# --- best --------------------------------------------------------------------------------------------------


def test_best_and_second_are_as_printed_and_ties_share(study_of):
    numbers = {}
    for name, value in zip("abcd", (80.004, 80.001, 70.0, 60.0), strict=True):
        numbers[name] = {1: {"MR": value}}
    summary = only(study_of(numbers))
    assert places_of(summary.rows) == [1, 1, 2, None]


@pytest.mark.parametrize(
    ("direction", "places", "ranks"),
    [
        ("lower", [1, 2, None], [1, 2, 3]),
        ("none", [None] * 3, [None] * 3),
        ("higher", [None, 2, 1], [3, 2, 1]),
    ],
)
def test_direction_is_what_the_score_says(study_of, direction, places, ranks):
    numbers = {"a": -3.0, "b": -2.0, "c": -1.0}
    data = study_of(
        {name: {1: {"T/error": number}} for name, number in numbers.items()},
        ranks=(),
    )
    summary = only(with_fields(data, direction=direction))
    assert places_of(summary.rows) == places
    assert ranks_of(summary, 0) == ranks


# --- rows --------------------------------------------------------------------------------------------------


def test_cells_that_have_not_finished_have_a_row_with_their_status(study_of):
    numbers = {
        **TWO,
        "late": {1: {}, 2: {}, 3: {}},
        "half": {1: {"MR": 60.0, "CR": 60.0}, 2: {}, 3: {}},
    }
    summary = only(
        study_of(
            numbers, statuses={"late": "waiting", "half": "failed"}, baseline="first"
        )
    )
    late, half = summary.rows[2:]
    assert (late.remark, values(late)) == ("waiting", [None] * 3)
    assert (half.remark, half.cells[0].value, half.cells[0].std) == (
        "failed, 1 of 3",
        60.0,
        None,
    )
    assert half.cells[0].judged.difference == -10.0


def test_encoders_of_a_run_are_rows_and_those_before_training_are_left_out(study_of):
    def several(run):
        scores = []
        for name, shift in (("en", 0.0), ("zh", 1.0), ("en@start", -9.0)):
            for score in run.scores:
                value = score.value + shift
                scores.append(attrs.evolve(score, encoder=name, value=value))

        return tuple(scores)

    data = with_scores(study_of(TWO, baseline="first"), several)
    (summary,) = summarise(data)
    assert names(summary) == [
        "first/en",
        "first/zh",
        "mean/en",
        "mean/zh",
    ]
    # zh is compared with zh: both are one higher.
    assert summary.rows[3].cells[0].judged.difference == pytest.approx(6.0)
    (all_of,) = summarise(data, start=True)
    assert [row.encoder for row in all_of.rows[:3]] == ["en@start", "en", "zh"]


FEWER_FOLDS = {"encoder": {}, "evaluator": {"id": "p", "folds": 5}}


def test_a_task_of_unlike_protocol_stands_in_a_table_of_its_own(study_of):
    data = study_of({**TWO, "late": {1: {}}}, protocol={"folds": 10})
    data = with_fields(data, "mean", "MR", protocol=FEWER_FOLDS)
    longer, other = summarise(data)
    assert names(longer) == ["first", "mean"]
    assert names(other) == ["mean"]
    assert values(longer.rows[1]) == [
        None,
        pytest.approx(83.0),
        None,
    ]
    assert values(other.rows[0]) == [pytest.approx(77.0)]
    assert (longer.apart, other.apart) == (
        "folds (10 against 5)",
        "folds (5 against 10)",
    )
    assert (
        other.note
        == "transfer; accuracy; p; unlike other tables in folds (5 against 10)"
    )
    for summary, folds in ((longer, 10), (other, 5)):
        assert summary.columns[0].protocol["folds"] == folds


def test_the_average_of_a_table_that_lacks_tasks_of_its_rows_says_of_how_many_it_is(
    study_of,
):
    tasks = {"MR": 70.0, "CR": 80.0, "SUBJ": 90.0}
    data = study_of({"a": {1: tasks}, "b": {1: tasks}}, protocol={"folds": 10})
    for task in ("MR", "CR"):
        data = with_fields(data, "b", task, protocol=FEWER_FOLDS)

    first, second = summarise(data)
    assert (first.headings[-1], second.headings[-1]) == ("Avg", "Avg (2 of 3)")
    assert [row.cells[-1].value for row in first.rows] == [80.0, None]
    assert [row.cells[-1].value for row in second.rows] == [75.0]


# --- significance ------------------------------------------------------------------------------------------


def test_every_value_is_judged_against_the_baseline_over_items_and_seeds(study_of):
    data = study_of(TWO, baseline="first", items=True)
    first, mean = only(data).rows
    for cell in first.cells:
        assert cell.judged is None

    def scores_of(cell, place):
        of_runs = {(run.seed, ""): (run.scores[place],) for run in cell.runs}
        return CellScores(of_runs)

    of_tasks = []
    for cell in data.cells:
        of_tasks.append([scores_of(cell, 0), scores_of(cell, 1)])
    before, after = of_tasks
    expected = list(map(difference, before, after))
    expected.append(difference(mean_over_tasks(before), mean_over_tasks(after)))
    assert [cell.judged.estimate for cell in mean.cells] == expected

    assert mean.cells[0].judged.basis == "items and seeds"
    assert only(data).test.endswith(
        "Student's t over items and seeds, with Holm's correction over the cells in each column."
    )


def test_runs_that_were_started_alone_are_paired_and_cells_of_a_study_are_not(study_of):
    numbers = {"first": {1: {"MR": 50.0}}, "mean": {2: {"MR": 90.0}}}
    row = only(study_of(numbers, baseline="first", items=True)).rows[1]
    assert row.cells[0].judged.basis == "items"

    axes = [AxisInfo("pooler", ("first", "mean"))]
    row = only(study_of(numbers, axes, baseline="first", items=True)).rows[1]
    assert row.cells[0].judged.reason == "the cells have no seed in common"

    numbers["first"][3] = {"MR": 51.0}
    row = only(study_of(numbers, baseline="first", items=True)).rows[1]
    assert row.cells[0].judged.reason == "the cells have no seed in common"


# --- published numbers -------------------------------------------------------------------------------------

EXPECTED = {
    "Table 1": Published(
        {
            "first": {"MR": 71.05, "CR": 83.0, "AVG": 80.0},
            "mean": {"CR/accuracy@p": 83.0},
        },
        0.1,
        "p. 4",
    ),
    "Figure 2": Published({"first": {"MR": 70.0, "TREC": 9.0}, "gone": {"MR": 1.0}}),
}


def test_published_numbers_stand_beside_those_that_they_name(study_of):
    data = study_of(TWO, expected=EXPECTED)
    summary = only(data)
    first, mean = summary.rows
    table, figure = first.cells[0].published
    assert (table.value, table.found, table.met, table.source) == (
        71.05,
        71.0,
        True,
        "Table 1 (p. 4)",
    )
    assert (figure.value, figure.met, figure.difference) == (70.0, None, 1.0)
    assert [number.met for number in first.cells[2].published] == [False]
    assert [number.value for number in mean.cells[1].published] == [83.0]
    assert mean.cells[0].published == ()
    verdicts = [
        (number.cell, number.row.key, expected_verdict(number.row))
        for number in published_numbers(data, [summary])
    ]
    assert verdicts == [
        ("first", "MR", "met"),
        ("first", "CR", "met"),
        ("first", "AVG", "not met"),
        ("mean", "CR/accuracy@p", "met"),
        ("first", "MR", "to compare"),
        ("first", "TREC", "not measured"),
        ("gone", "MR", "not measured"),
    ]


def test_a_contradicted_cell_meets_and_misses_nothing(study_of):
    cells = {"first": {"MR": 1.0}, "mean": {"CR": 83.0}}
    data = study_of(
        TWO, expected={"T": Published(cells, 0.1, contradicted={"first": "U has 71.0"})}
    )
    first, mean = published_numbers(data, summarise(data))
    assert (first.row.value, first.row.found, first.row.met) == (1.0, 71.0, None)
    assert (first.row.contradicted, expected_verdict(first.row)) == (
        "U has 71.0",
        "contradicted",
    )
    assert (mean.row.contradicted, expected_verdict(mean.row)) == ("", "met")
    assert published_notes(data) == (
        "T, first: shown but not counted, since U has 71.0.",
    )


def test_a_number_that_names_two_values_is_beside_neither(study_of):
    data = study_of(TWO, expected=EXPECTED)
    other = with_fields(data, protocol={"encoder": {}, "evaluator": {"id": "q"}})
    data = with_added(data, lambda run: other.cells[0].runs[0].scores, "first")
    summaries = summarise(data)
    assert len(summaries) == 2
    for table in summaries:
        for cell in table.rows[0].cells:
            assert not cell.published
    assert expected_verdict(published_numbers(data, summaries)[0].row).startswith(
        "fits 2 scores"
    )


def test_an_average_is_beside_ours_only_where_it_is_of_the_same_tasks(study_of):
    def beside(numbers, with_average=False):
        data = study_of(TWO, expected={"T": Published({"first": numbers}, 0.1)})
        if with_average:
            data = with_added(
                data,
                lambda run: [attrs.evolve(run.scores[0], task="AVG", value=9.0)],
                "first",
            )
        return [published.found for published in only(data).rows[0].cells[2].published]

    assert beside({"MR": 71.0, "CR": 83.0, "AVG": 77.0}) == [77.0]
    assert beside({"MR/accuracy": 71.0, "en/CR": 83.0, "AVG": 77.0}) == [77.0]
    assert beside({"MR": 71.0, "CR": 83.0, "SST2": 9.0, "AVG": 54.0}) == []
    assert beside({"MR": 71.0, "AVG": 71.0}) == []
    assert beside({"AVG": 77.0}) == []
    # The evaluator's own average says itself of what it is.
    assert beside({"MR": 71.0, "AVG": 77.0}, with_average=True) == [9.0]
    data = study_of(TWO, expected={"T": Published({"first": {"AVG": 77.0}}, 0.1)})
    (number,) = published_numbers(data, summarise(data))
    assert (number.row.found, expected_verdict(number.row)) == (None, "not measured")


def test_an_average_over_a_part_of_the_row_says_so_and_is_beside_no_published_one(
    study_of,
):
    numbers = {"MR": 71.0, "CR": 83.0, "AVG": 77.0}
    data = study_of(TWO, expected={"T": Published({"first": numbers}, 0.1)})
    data = with_fields(data, skipped=("SST2", "TREC"))
    summary = only(data)
    assert summary.headings == ("MR", "CR", "Avg (2 of 4)")
    assert summary.note.endswith("; without SST2, TREC, whose data is missing")
    assert [len(cell.published) for cell in summary.rows[0].cells] == [1, 1, 0]
    *_, average = published_numbers(data, [summary])
    assert (average.row.key, average.row.found) == ("AVG", None)


def test_a_cell_that_has_not_finished_is_not_two_scores_for_a_key(study_of):
    numbers = {**TWO, "late": {1: {}}}
    expected = {"T": Published({"late": {"MR": 1.0}, "mean": {"MR": 77.0}}, 0.1)}
    data = study_of(
        numbers, statuses={"late": "waiting"}, expected=expected, protocol={"folds": 10}
    )
    data = with_fields(data, "mean", "MR", protocol=FEWER_FOLDS)
    assert [len(table.rows) for table in summarise(data)] == [3, 2]
    late, mean = published_numbers(data, summarise(data))
    assert (late.row.fits, expected_verdict(late.row)) == (1, "not measured")
    assert (mean.row.fits, expected_verdict(mean.row)) == (1, "met")


def test_two_averages_of_a_published_row_are_each_compared_with_their_own(
    study_of,
):
    transfer = {"MR": 70.0, "CR": 80.0, "AVG/accuracy": 75.0}
    published = {
        **transfer,
        "STS12": 60.0,
        "STSB": 70.0,
        "SICKR": 80.0,
        "AVG/spearman": 70.0,
    }
    scores = {
        "MR": 70.0,
        "CR": 80.0,
        "STS12/spearman": 60.0,
        "STSB/spearman": 70.0,
        "SICKR/spearman": 80.0,
    }
    data = study_of(
        {"a": {1: scores}}, expected={"T": Published({"a": published}, 0.5)}
    )
    by_two_evaluators = []
    for score in data.cells[0].runs[0].scores:
        evaluator = "sts" if score.metric == "spearman" else score.evaluator
        by_two_evaluators.append(attrs.evolve(score, evaluator=evaluator))
    numbers = measured(data, by_two_evaluators)
    assert list(numbers.items()) == list(published.items())

    # A number of a task that was not run may be of either average.
    fewer = [score for score in by_two_evaluators if score.task != "STS12"]
    numbers = measured(data, fewer)
    assert (numbers["AVG/accuracy"], numbers["AVG/spearman"]) == (None, None)


def measured(data, scores):
    """Key of each published number -> the measured one, where the only run has these scores."""
    (cell,) = data.cells
    (run,) = cell.runs
    run = attrs.evolve(run, scores=tuple(scores))
    data = attrs.evolve(data, cells=(attrs.evolve(cell, runs=(run,)),))
    return {
        number.row.key: number.row.found
        for number in published_numbers(data, summarise(data))
    }


# --- what says nothing about its encoder ------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [(1, 2), (2,)])
@pytest.mark.parametrize("worst", ["a", "b", "c"])
def test_a_degenerate_score_has_no_place_and_no_mark(study_of, worst, seeds):
    """Constant predictions may well have the highest accuracy, and differ from all others."""
    numbers = {}
    for name in "abc":
        levels = (69.0, 90.0) if name == worst else (60.0, 10.0)
        numbers[name] = {
            seed: {"MR": levels[0], "TREC": levels[1] + seed} for seed in (1, 2)
        }

    def degenerate(run):
        mr, trec = run.scores
        reason = "one class" if run.seed in seeds else ""
        return mr, attrs.evolve(trec, degenerate=reason)

    data = with_scores(study_of(numbers, baseline="a", items=True), degenerate, worst)
    for row in only(data).rows:
        mr, trec, average = row.cells
        is_bad = row.cell == worst
        assert mr.degenerate == ""
        for cell in (trec, average):
            assert cell.degenerate == ("one class" if is_bad else "")
            assert math.isnan(cell.value) == is_bad
            # Nothing is tested against a baseline that says nothing, either.
            judged = cell.judged
            if judged is not None and (is_bad or worst == "a"):
                assert (judged.p_value, judged.corrected) == (None, None)
                assert judged.reason == "a score is not finite"
        if is_bad:
            assert (mr.place, trec.place, average.place) == (1, None, None)


@pytest.mark.parametrize("statistic", ["spearman", "matthews", "f1"])
def test_predictions_that_are_all_the_same_are_seen_in_the_items(statistic):
    gold = np.arange(20.0)
    protocol = {"encoder": {}, "evaluator": {}}
    score = Score("T", "m", 0.0, protocol)
    same = attrs.evolve(score, items=Items(statistic, gold, np.full(20, 0.9998)))
    good = attrs.evolve(score, items=Items(statistic, gold, gold))
    mean = attrs.evolve(score, items=Items("mean", np.ones(20)))
    run = CellRun("a", 1, "finished", scores=(same, good, mean))
    reasons = [score.degenerate for score in run.scores]
    assert reasons == ["all predictions are the same", "", ""]
    assert math.isnan(run.scores[0].value)


def test_a_table_with_a_cost_has_no_average_and_gives_no_wrong_reason(study_of):
    scores = {"MR/accuracy": 60.0, "CR/f1": 61.0}
    data = study_of({"a": {1: scores}, "b": {1: scores}})
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    cost = Score(
        "seconds", "s", 1e6, protocol, "en", "transfer", direction="lower", axis="cost"
    )
    data = with_added(data, lambda run: [cost])
    (table,) = summarise(data)
    assert table.headings == ("MR (accuracy)", "CR (f1)", "seconds (s)")
    # The cost does not decide the decimals of the scores, nor they those of the cost.
    assert [column.digits for column in table.columns] == [2, 2, 0]
    assert not any("average" in note.lower() for note in table.notes)
