from __future__ import annotations

import attrs
import numpy as np
import pytest
from sentbed import DataError
from sentbed.protocols import Items, Score
from sentbed_evaluators.probing import SentEvalProbing
from sentbed_evaluators.senteval_sts import SentEvalSTS
from sentbed_evaluators.sentglue import SentGLUE
from sentbed_evaluators.task_suites import average, task_problems
from sentbed_evaluators.transfer import SentEvalTransfer


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
    found = average([first, second], "mean", benchmark="all")
    assert (found.task, found.metric, found.value) == ("AVG", "mean", 62.5)
    assert found.protocol == {
        "id": "some",
        "aggregation": "mean",
        "of": {"A": "accuracy", "B": "accuracy"},
        "classifier": {"seed": 1},
        "data": {"A": "1", "B": "2"},
        "benchmark": "all",
    }
    assert found.items is not None
    assert found.items.groups is not None
    assert found.items.x.tolist() == [1, 0, 1, 1, 1, 0]
    assert found.items.groups.tolist() == [0, 0, 1, 1, 1, 1]


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
