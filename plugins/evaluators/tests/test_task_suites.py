from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sentbed.protocols import Items, Score, Vectors
from sentbed_evaluators.classifier_training import Classifier
from sentbed_evaluators.task_suites import (
    average,
    classifier_of,
    part_progress,
    task_problems,
)


def score(task: str, right: list[float], groups: Any = None, **protocol: Any) -> Score:
    items = Items("mean", np.array(right), groups=groups)
    return Score(task, "accuracy", 100 * float(np.mean(right)), protocol, items=items)


def test_every_problem_of_a_list_of_tasks_is_named_once() -> None:
    assert list(task_problems(("Abc", "B", "B"), ("ABC", "B"), "some")) == [
        "`Abc` is not a task of `some`. Choose one of `ABC`, `B`.",
        "task `B` is listed twice; remove one",
    ]
    assert list(task_problems((), ("A",), "some", "paradigm")) == [
        "`paradigms` is empty; name at least one paradigm"
    ]
    assert list(task_problems(("A", "?", "?"), None, "some")) == [
        "task `?` is listed twice; remove one"
    ]


def test_an_average_says_once_what_its_tasks_agree_on() -> None:
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


def test_an_average_of_other_than_plain_means_has_no_items() -> None:
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


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
def test_a_classifier_computes_where_the_encoder_does(
    device: str, encoder: Any
) -> None:
    vectors = Vectors({}, encoder, device=device)
    assert classifier_of(vectors, "logistic", "fast", 3) == Classifier(
        "logistic", "fast", 3, device
    )


def test_progress_is_told_under_the_name_of_the_part(encoder: Any) -> None:
    told: list[tuple[str, int, int]] = []
    part_progress(Vectors({}, encoder, progress=lambda *args: told.append(args)), "MR")(
        1, 2
    )
    assert told == [("MR: classifiers", 1, 2)]
