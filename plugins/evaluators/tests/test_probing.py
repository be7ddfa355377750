from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sentbed import DataError, RunError
from sentbed_evaluators import task_suites as shared
from sentbed_evaluators.classifier_dataclasses import Examples
from sentbed_evaluators.classifier_training import Classifier, Outcome
from sentbed_evaluators.probing import SentEvalProbing
from sentbed_evaluators.probing_files import TASKS


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


@pytest.fixture
def directory(write, tmp_path):
    """All ten tasks, small, with three labels each."""
    for task, (file, _) in TASKS.items():
        lines = [
            f"{part}\t{'CAB'[k % 3]}\t{' '.join([task, part, str(k), *['w'] * (k % 4)])}\n"
            for part, count in (("tr", 30), ("va", 8), ("te", 12))
            for k in range(count)
        ]
        write(f"senteval/probing/{file}", "".join(lines))
    return tmp_path / "senteval" / "probing"


class Spy:
    """Finds class 0 everywhere, and keeps what it was given."""

    def __init__(self, *made):
        self.made = made
        self.suffix = Classifier(*made).suffix

    calls: list[tuple[Any, ...]]

    def split(
        self,
        train,
        development,
        test,
        classes,
        progress,
    ):
        if progress:
            progress(1, 1)
        self.calls.append((self.made, train, development, test, classes))
        right = test.labels == 0
        return Outcome(
            round(100 * float(right.mean()), 2), 0.0, np.zeros(len(test), np.int64)
        )

    def describe(self):
        return {"spy": True}


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setattr(Spy, "calls", [], raising=False)
    monkeypatch.setattr(shared, "Classifier", Spy)
    return Spy.calls


def evaluator(directory, *tasks, **fields):
    return SentEvalProbing(
        tasks=tasks or tuple(TASKS),
        data_dir=str(directory),
        check_sizes=False,
        **fields,
    )


def rows(directory, task, part):
    """Words, label and sentence of a part, sorted as Python sorts the first two."""
    lines = [
        line.split("\t")
        for line in (directory / TASKS[task][0]).read_text().split("\n")[:-1]
    ]
    kept = [
        (len(text.split()), label, text)
        for found, label, text in lines
        if found == part
    ]
    return sorted(kept, key=lambda row: row[:2])


def test_ten_tasks_and_their_plain_mean_in_sentevals_order(directory, encoder, calls):
    result = evaluate(evaluator(directory), encoder)
    assert [score.task for score in result.scores] == [*TASKS, "AVG"]
    *scores, average = result.scores
    assert average.value == pytest.approx(np.mean([score.value for score in scores]))
    assert result.primary == average.value
    assert list(average.protocol["of"]) == list(TASKS)
    assert average.protocol["data"] == {
        score.task: score.protocol["data"] for score in scores
    }


def test_some_of_the_tasks_have_no_average(directory, encoder, calls):
    result = evaluate(evaluator(directory, "Tense", "Length"), encoder)
    assert [score.task for score in result.scores] == ["Tense", "Length"]


def test_each_part_has_its_vectors_and_labels_sorted_by_length(
    directory, encoder, calls
):
    evaluate(evaluator(directory, "Depth"), encoder)
    ((_, *parts, classes),) = calls
    assert classes == 3
    for part, name in zip(parts, ("tr", "va", "te"), strict=True):
        expected = rows(directory, "Depth", name)
        np.testing.assert_array_equal(
            part.features, encoder.encode([text for *_, text in expected])
        )
        assert part.labels.tolist() == ["ABC".index(label) for _, label, _ in expected]


def test_the_score_is_the_classifiers_accuracy_and_its_items_say_what_was_found(
    directory, encoder, calls
):
    (score,) = evaluate(evaluator(directory, "OddManOut"), encoder).scores
    right = [float(label == "A") for _, label, _ in rows(directory, "OddManOut", "te")]
    assert 0 < sum(right) < 12
    assert (score.items.statistic, score.items.x.tolist()) == ("mean", right)
    assert score.value == round(100 * sum(right) / 12, 2)


def test_a_protocol_says_what_makes_the_number_comparable(directory, encoder, calls):
    fields = {"protocol": "logistic", "mode": "fast", "seed": 3}
    (score,) = evaluate(
        evaluator(directory, "Tense", **fields), encoder, device="cuda:1"
    ).scores
    protocol = dict(score.protocol)
    data = protocol.pop("data")
    assert protocol == {
        "id": "senteval-probing-logistic",
        "aggregation": "single",
        "split": "test",
        "features": "u",
        "classifier": {"spy": True},
        "classes": 3,
        "train": 30,
        "development": 8,
        "test": 12,
        "text": "words joined by one space",
    }
    assert calls[0][0] == ("logistic", "fast", 3, "cuda:1")
    file = directory / "past_present.txt"
    file.write_text(file.read_text().replace("te 3", "te III"))
    (changed,) = evaluate(
        evaluator(directory, "Tense"), encoder, device="cuda:1"
    ).scores
    assert changed.protocol["data"] != data


@pytest.mark.parametrize("protocol", ["senteval", "logistic"])
def test_the_classifier_is_sentevals_split_one(directory, encoder, protocol):
    (score,) = evaluate(
        evaluator(directory, "Depth", protocol=protocol), encoder
    ).scores
    parts = [
        Examples(
            encoder.encode([text for *_, text in rows(directory, "Depth", name)]),
            np.array(
                ["ABC".index(label) for _, label, _ in rows(directory, "Depth", name)]
            ),
        )
        for name in ("tr", "va", "te")
    ]
    outcome = Classifier(protocol).split(*parts, classes=3)
    assert score.value == outcome.accuracy
    np.testing.assert_array_equal(score.items.x, outcome.predicted == parts[2].labels)
    assert score.protocol["classifier"] == Classifier(protocol).describe()


def test_progress_names_the_task(directory, encoder, calls):
    told = []
    encoder.progress = lambda *args: told.append(args)
    evaluate(evaluator(directory, "Tense"), encoder, progress=encoder.progress)
    assert told == [("Tense: classifiers", 1, 1)]


def test_a_zero_vector_is_named(directory, table_encoder, calls):
    encoder = table_encoder({"Length va 5 w": [0.0] * 5})
    with pytest.raises(RunError, match="'Length va 5 w' is a zero vector"):
        evaluate(evaluator(directory, "Length"), encoder)
    assert calls == []


def test_sizes_are_checked_unless_told_otherwise(directory, encoder):
    strict = SentEvalProbing(tasks=("Length",), data_dir=str(directory))
    with pytest.raises(DataError, match=r"found 30 rows of `tr`.* about 100,000"):
        evaluate(strict, encoder)
