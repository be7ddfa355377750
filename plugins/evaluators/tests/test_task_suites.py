from __future__ import annotations

import re

import attrs
import numpy as np
import pytest
from sentbed import DataError, RunError
from sentbed.protocols import Items, Score
from sentbed_evaluators import glue_files, probing_files
from sentbed_evaluators._torch import batched_logistic_regression
from sentbed_evaluators.probe import Classifier
from sentbed_evaluators.probing import SentEvalProbing
from sentbed_evaluators.sentbench import SentBench
from sentbed_evaluators.sentbench_sets import SOURCES
from sentbed_evaluators.sentglue import SentGLUE
from sentbed_evaluators.sts import SentEvalSTS
from sentbed_evaluators.task_suites import average, task_problems
from sentbed_evaluators.transfer import PAPERS, SentEvalTransfer


def score(task, right, groups=None, **protocol):
    items = Items("mean", np.array(right), groups=groups)
    return Score(task, "accuracy", 100 * float(np.mean(right)), protocol, items=items)


def test_every_problem_of_a_list_of_tasks_is_named_once():
    assert list(task_problems(("Abc", "B", "B"), ("ABC", "B"), "some")) == [
        "`Abc` is not a task of `some`. Choose one of `ABC`, `B`.",
        "task `B` is listed twice; remove one",
    ]
    assert list(task_problems((), ("A",), "some", "paradigm")) == [
        "`paradigms` is empty; name at least one paradigm. Choose one of `A`."
    ]
    assert list(task_problems(("A", "?", "?"), None, "some")) == [
        "task `?` is listed twice; remove one"
    ]


def test_an_average_says_once_what_its_tasks_agree_on():
    first = score(
        "A", [1, 0], id="some", classifier={"seed": 1}, data="1", test=2, note="odd"
    )
    second = score("B", [1, 1, 1, 0], id="some", data="2", test=4)
    mean = average([first, second], "mean", benchmark="all")
    assert (mean.task, mean.metric, mean.value) == ("AVG", "mean", 62.5)
    assert mean.protocol == {
        "id": "some",
        "aggregation": "mean",
        "of": {"A": "accuracy", "B": "accuracy"},
        "classifier": {"seed": 1},
        "data": {"A": "1", "B": "2"},
        "benchmark": "all",
    }
    assert mean.items is not None
    assert mean.items.groups is not None
    assert mean.items.x.tolist() == [1, 0, 1, 1, 1, 0]
    assert mean.items.groups.tolist() == [0, 0, 1, 1, 1, 1]


def test_an_average_of_other_than_plain_means_has_no_items():
    plain = score("A", [1, 0])
    others = [
        score("B", [1, 0], np.array([0, 1])),
        Score("B", "f1", 5.0, {}, items=Items("f1", np.ones(2), np.ones(2))),
        Score("B", "accuracy", 5.0, {}),
    ]
    assert [average([plain, other], "mean").items for other in others] == [
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("suite", "misspelt", "task", "missing_file", "present", "present_files"),
    [
        (
            SentEvalSTS,
            "STS-B",
            "STSB",
            "STS/STSBenchmark/sts-test.csv",
            "SICKR-dev",
            ["SICK/SICK_trial.txt"],
        ),
        (
            SentEvalTransfer,
            "MRC",
            "MR",
            "MR/rt-polarity.pos` and `MR/rt-polarity.neg",
            "TREC",
            ["TREC/train_5500.label", "TREC/TREC_10.label"],
        ),
        (
            SentEvalProbing,
            "length",
            "Length",
            "sentence_length.txt",
            "Tense",
            ["past_present.txt"],
        ),
        (
            SentGLUE,
            "CoLa",
            "CoLA",
            "CoLA/train.tsv` and `CoLA/dev.tsv",
            "RTE",
            ["RTE/train.tsv", "RTE/dev.tsv"],
        ),
    ],
)
def test_a_suite_names_every_problem_of_its_tasks(
    suite,
    misspelt,
    task,
    missing_file,
    present,
    present_files,
    write,
    tmp_path,
):
    for file in present_files:
        write(file, "")
    assert list(suite(tasks=(present,), data_dir=str(tmp_path)).check()) == []

    unknown, twice, missing = suite(
        tasks=(misspelt, task, task, present), data_dir=str(tmp_path)
    ).check()
    assert unknown.startswith(f"`{misspelt}` is not a task of `{suite.name}`. Did you")
    assert twice == f"task `{task}` is listed twice; remove one"
    assert missing.startswith(f"task `{task}` needs `{missing_file}`, missing in")
    assert missing.endswith(f"tasks present: `{present}`")

    skipping = suite(tasks=(task, present), data_dir=str(tmp_path), skip_missing=True)
    assert list(skipping.check()) == []
    (problem,) = attrs.evolve(skipping, tasks=(task,)).check()
    assert problem.startswith(f"`skip_missing` leaves no task: task `{task}` needs")
    with pytest.raises(DataError, match="leaves no task"):
        attrs.evolve(skipping, tasks=(task,)).prepare()
    (empty,) = suite(tasks=(), data_dir=str(tmp_path)).check()
    assert empty.startswith("`tasks` is empty; name at least one task. Choose one of")


# Suites of classifiers


@attrs.frozen
class Suite:
    """A suite whose tasks train classifiers, on small data."""

    cls: type
    tasks: tuple[str, ...]
    """The tasks of its average, in the paper's order."""
    trained: tuple[str, ...]
    """What classifiers are trained for."""
    fields: dict[str, object]

    def evaluator(self, *tasks, **fields):
        return self.cls(tasks=tasks, **{"mode": "fast", **self.fields, **fields})

    def evaluate(self, encoder, *tasks, **fields):
        return self.evaluator(*tasks, **fields).prepare().evaluate(encoder)


GLUE = tuple(glue_files.TASKS)
FOLDERS = ("CoLA", "SST-2", "MRPC", "QQP", "MNLI", "QNLI", "RTE")
PROBING = tuple(probing_files.TASKS)
ANY_SIZE = {"check_sizes": False}
SUITES = {
    "downstream": Suite(SentEvalTransfer, PAPERS, PAPERS, ANY_SIZE),
    "probing_data": Suite(SentEvalProbing, PROBING, PROBING, ANY_SIZE),
    "glue_data": Suite(SentGLUE, GLUE, FOLDERS, ANY_SIZE),
    "sentbench_data": Suite(
        SentBench, tuple(SOURCES), tuple(SOURCES), {"paradigms": ("pair",)}
    ),
}


@pytest.fixture(params=SUITES)
def suite(request):
    suite = SUITES[request.param]
    data_dir = str(request.getfixturevalue(request.param))
    return attrs.evolve(suite, fields={**suite.fields, "data_dir": data_dir})


def main_scores(evaluation):
    """The first score of each task."""
    scores = {}
    for task_score in evaluation.scores:
        scores.setdefault(task_score.task, task_score)
    return list(scores.values())


def test_all_tasks_are_scored_in_the_papers_order_with_their_plain_mean(suite, encoder):
    evaluation = suite.evaluate(encoder, *suite.tasks)

    *scores, mean = main_scores(evaluation)
    assert tuple(score.task for score in scores) == suite.tasks
    assert mean.task == "AVG"
    assert mean.value == pytest.approx(np.mean([score.value for score in scores]))
    assert evaluation.primary == mean.value
    assert mean.protocol["of"] == {score.task: score.metric for score in scores}
    data = {score.task: score.protocol["data"] for score in scores}
    assert mean.protocol["data"] == data
    names = {f"{task}: classifiers" for task in suite.trained}
    assert names == {what for what, _, _ in encoder.steps if "classifiers" in what}

    for score in scores:
        if score.metric != "accuracy":
            continue
        groups = score.items.groups
        if groups is None:
            groups = np.zeros(len(score.items.x))
        parts = [score.items.x[groups == group].mean() for group in np.unique(groups)]
        assert score.value == pytest.approx(100 * np.mean(parts), abs=0.011)


def test_some_of_the_tasks_have_no_average(suite, encoder):
    second_first = suite.tasks[1::-1]
    evaluation = suite.evaluate(encoder, *second_first)
    scores = main_scores(evaluation)
    assert tuple(score.task for score in scores) == second_first
    mean = np.mean([score.value for score in scores])
    assert evaluation.primary == pytest.approx(mean)


def test_a_task_without_files_is_skipped_and_named(suite, encoder):
    first, last = suite.tasks[0], suite.tasks[-1]
    next(iter(suite.evaluator(last).files())).unlink()
    evaluation = suite.evaluate(encoder, first, last, skip_missing=True)
    assert {score.task for score in evaluation.scores} == {first}
    assert {score.skipped for score in evaluation.scores} == {(last,)}


def test_a_zero_vector_is_named_before_a_classifier_is_trained(
    suite, table_encoder, monkeypatch
):
    monkeypatch.setattr(batched_logistic_regression, "fit", pytest.fail)
    prepared = suite.evaluator(suite.tasks[0]).prepare()
    text = next(iter(prepared.lists.values())).both[3]
    with pytest.raises(RunError, match=f"{re.escape(repr(text))} is a zero vector"):
        prepared.evaluate(table_encoder({text: [0.0] * 5}))


def test_the_data_of_a_protocol_is_that_of_the_files(suite, encoder):
    task = suite.tasks[1]
    before = suite.evaluate(encoder, task).scores[0]
    file = next(iter(suite.evaluator(task).files()))
    content = file.read_bytes()
    file.write_bytes(content + content.splitlines(keepends=True)[-1])
    after = suite.evaluate(encoder, task).scores[0]
    assert before.protocol["data"] != after.protocol["data"]


def test_classifiers_are_trained_by_the_fields_of_the_suite_and_where_the_encoder_is(
    suite, encoder, monkeypatch
):
    devices, trainings = set(), []
    fit = batched_logistic_regression.fit

    def fit_on_cpu(*arguments):
        *data, training, device, done = arguments
        devices.add(device)
        trainings.append(training)
        return fit(*data, training, "cpu", done)

    monkeypatch.setattr(batched_logistic_regression, "fit", fit_on_cpu)
    prepared = suite.evaluator(suite.tasks[0], seed=3).prepare()
    encoder.device = "cuda:1"
    prepared.evaluate(encoder)
    assert devices == {"cuda:1"}
    training = Classifier("fast", 3).training
    assert trainings == [training] * len(trainings)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("downstream", "found 120 rows of `all`, expected 10,662"),
        ("probing_data", "found 30 rows of `tr`, expected 100,000"),
        ("glue_data", "found 60 rows of `train`, expected 8,551"),
    ],
)
def test_other_sizes_than_published_are_refused(data, message, request):
    suite = SUITES[data]
    directory = str(request.getfixturevalue(data))
    with pytest.raises(DataError, match=message):
        suite.cls(tasks=suite.tasks[:1], data_dir=directory).prepare()
