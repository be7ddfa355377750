from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed import DataError, RunError
from sentbed_evaluators import feature_table
from sentbed_evaluators import task_suites as shared
from sentbed_evaluators.classifier_dataclasses import Examples
from sentbed_evaluators.classifier_training import Classifier, Outcome
from sentbed_evaluators.glue_files import TASKS
from sentbed_evaluators.sentglue import SentGLUE

COUNTS = {"train": 60, "dev": 12}


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


@pytest.fixture
def directory(write, tmp_path):
    """All nine tasks, small; sentences recur in pairs and across splits."""
    for name, task in TASKS.items():
        for split, count in COUNTS.items():
            lines = []
            if task.header:
                lines.append("\t".join([*task.texts, task.label]))
            for k in range(count):
                label = f"{(7 * k) % 11 / 2}"
                if task.classes:
                    label = task.classes[k % len(task.classes)]
                first, second = f'{name} "{split} {k}', f"{task.folder} {k % 9}"
                if not task.header:
                    lines.append(f"s\t{label}\t\t{first}")
                elif len(task.texts) == 1:
                    lines.append(f"{first}\t{label}")
                else:
                    lines.append(f"{first}\t{second}\t{label}")
            write(f"glue/{task.path(split)}", "\n".join(lines) + "\n")
    return tmp_path / "glue"


@attrs.define
class Spy:
    """Classifies by the nearest class mean, and keeps its examples."""

    calls: list[dict[str, Any]] = attrs.field(factory=list)
    arguments: tuple[Any, ...] = ()
    suffix: str = ""
    folds: int = 10

    def build(self, *arguments):
        self.arguments = arguments
        self.suffix = Classifier(*arguments).suffix
        return self

    def folded(self, train, test, classes, progress):
        return self._fit("folded", train, None, test, classes, progress)

    def split(self, train, held, test, classes, progress):
        return self._fit("split", train, held, test, classes, progress)

    def _fit(self, how, train, held, test, classes, progress):
        if progress:
            progress(1, 1)
        call = {"how": how}
        for name, part in (("train", train), ("held", held), ("test", test)):
            if part:
                # Features on disk are gone after the call.
                call[name] = Examples(np.array(part.features), np.array(part.labels))
        self.calls.append(call)
        means = []
        for number in range(classes):
            means.append(train.features[train.labels == number].mean(axis=0))
        distances = np.linalg.norm(test.features[:, None] - np.array(means), axis=2)
        return Outcome(0.0, 0.0, distances.argmin(axis=1))

    def describe(self):
        return {"spy": True}


@pytest.fixture
def spy(monkeypatch):
    spy = Spy()
    monkeypatch.setattr(shared, "Classifier", spy.build)
    return spy


def evaluator(directory, *tasks, **fields):
    return SentGLUE(
        tasks=tasks or tuple(TASKS),
        data_dir=str(directory),
        check_sizes=False,
        **fields,
    )


def table(path, header=True):
    return [line.split("\t") for line in path.read_text().split("\n")[header:-1]]


def test_nine_tasks_and_their_plain_mean_in_the_papers_order(directory, encoder, spy):
    result = evaluate(evaluator(directory), encoder)
    assert [score.task for score in result.scores] == [*TASKS, "AVG"]
    metrics = [
        "matthews",
        "accuracy",
        "accuracy",
        "spearman",
        *["accuracy"] * 5,
        "mean",
    ]
    assert [score.metric for score in result.scores] == metrics
    *scores, average = result.scores
    assert average.value == pytest.approx(np.mean([score.value for score in scores]))
    assert result.primary == average.value
    assert average.protocol["of"] == dict(zip(TASKS, metrics[:-1], strict=True))
    assert average.protocol["penalty"]["CoLA"] == "cross-validation on train"
    assert average.items is None


def test_the_order_of_the_tasks_is_the_recipes_and_changes_no_score(
    directory, encoder, spy
):
    forward = evaluate(evaluator(directory), encoder)
    tasks = (
        "STS-B",
        "MNLI-mm",
        "RTE",
        "QNLI",
        "MRPC",
        "MNLI-m",
        "QQP",
        "SST-2",
        "CoLA",
    )
    backward = evaluate(evaluator(directory, *tasks), encoder)
    assert [score.task for score in backward.scores] == [*tasks, "AVG"]
    values = {score.task: score.value for score in forward.scores}
    assert {score.task: score.value for score in backward.scores} == pytest.approx(
        values
    )
    data = backward.scores[-1].protocol["data"]
    assert data == forward.scores[-1].protocol["data"]


def test_some_of_the_tasks_have_no_average(directory, encoder, spy):
    result = evaluate(evaluator(directory, "RTE", "STS-B"), encoder)
    assert [score.task for score in result.scores] == ["RTE", "STS-B"]
    assert result.primary == pytest.approx(
        np.mean([score.value for score in result.scores])
    )


def test_single_sentences_are_their_vectors_and_pairs_their_features(
    directory, encoder, spy
):
    evaluate(evaluator(directory, "CoLA", "RTE"), encoder)
    cola, rte = spy.calls
    rows = table(directory / "CoLA" / "train.tsv", header=False)
    np.testing.assert_array_equal(
        cola["train"].features, encoder.encode([row[3] for row in rows])
    )
    assert cola["train"].labels.tolist() == [int(row[1]) for row in rows]
    for part, file in (("train", "train.tsv"), ("test", "dev.tsv")):
        rows = table(directory / "RTE" / file)
        u, v = (
            encoder.encode([row[0] for row in rows]),
            encoder.encode([row[1] for row in rows]),
        )
        np.testing.assert_array_equal(
            rte[part].features, np.hstack([u, v, u * v, abs(u - v)])
        )
        assert rte[part].labels.tolist() == [
            ["entailment", "not_entailment"].index(row[2]) for row in rows
        ]


def test_a_task_encodes_each_sentence_once(directory, encoder, spy):
    evaluate(evaluator(directory, "MNLI-m", "MNLI-mm", "STS-B"), encoder)
    mnli, sts = encoder.calls
    assert len(set(mnli)) == len(mnli) == 60 + 12 + 12 + 9
    assert len(sts) == 2 * 12


def test_mnli_is_trained_once_and_scored_twice(directory, encoder, spy):
    matched, mismatched = evaluate(
        evaluator(directory, "MNLI-m", "MNLI-mm"), encoder
    ).scores
    (call,) = spy.calls
    assert len(call["test"]) == 24
    alone = evaluate(evaluator(directory, "MNLI-mm"), encoder).scores[0]
    assert alone.value == mismatched.value
    np.testing.assert_array_equal(alone.items.x, mismatched.items.x)
    assert alone.protocol == mismatched.protocol
    alone = evaluate(evaluator(directory, "MNLI-m"), encoder).scores[0]
    np.testing.assert_array_equal(alone.items.x, matched.items.x)
    assert matched.protocol["data"] != mismatched.protocol["data"]


def test_small_tasks_cross_validate_and_large_ones_hold_a_part_out(
    directory, encoder, spy
):
    result = evaluate(evaluator(directory, *TASKS, development_share=0.25), encoder)
    how = {"CoLA": "folded", "MRPC": "folded", "RTE": "folded"}
    trained = [task for task in TASKS if task not in ("STS-B", "MNLI-mm")]
    assert [call["how"] for call in spy.calls] == [
        how.get(task, "split") for task in trained
    ]
    for score in result.scores:
        if score.task in how:
            assert (score.protocol["train"], score.protocol["held_out"]) == (60, 0)
        elif "train" in score.protocol:
            assert (score.protocol["train"], score.protocol["held_out"]) == (45, 15)


def test_the_held_out_rows_are_the_training_rows_that_are_not_trained_on(
    directory, encoder, spy
):
    evaluate(evaluator(directory, "SST-2"), encoder)
    evaluate(evaluator(directory, "SST-2"), encoder)
    evaluate(evaluator(directory, "SST-2", seed=2), encoder)
    first, again, other = spy.calls
    every = encoder.encode([row[0] for row in table(directory / "SST-2" / "train.tsv")])
    both = np.concatenate([first["train"].features, first["held"].features])
    assert sorted(map(tuple, both.tolist())) == sorted(map(tuple, every.tolist()))
    np.testing.assert_array_equal(first["held"].features, again["held"].features)
    assert (first["held"].features != other["held"].features).any()
    dev = encoder.encode([row[0] for row in table(directory / "SST-2" / "dev.tsv")])
    np.testing.assert_array_equal(first["test"].features, dev)


def test_a_limit_draws_training_rows_and_encodes_no_others(directory, encoder, spy):
    (score,) = evaluate(evaluator(directory, "SST-2", limit=20), encoder).scores
    (call,) = spy.calls
    assert (len(call["train"]), len(call["held"]), len(call["test"])) == (18, 2, 12)
    assert [len(texts) for texts in encoder.calls] == [20 + 12]
    assert (
        score.protocol["limit"],
        score.protocol["train"],
        score.protocol["held_out"],
    ) == (20, 18, 2)


def test_too_few_rows_of_a_class_are_refused_before_anything_is_encoded(
    directory, encoder, spy
):
    with pytest.raises(
        RunError,
        match=r"`RTE` has \d rows of class `\w+` .* at least 10 .*raise `limit`",
    ):
        evaluate(evaluator(directory, "RTE", limit=15), encoder)
    assert encoder.calls == []


def test_cola_is_scored_by_matthews_correlation(directory, encoder, spy, monkeypatch):
    # Gold is 0, 1, 0, 1, ...: 4 true positives, 3 true negatives, 3 false positives, 2 false negatives.
    found = np.array([0, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 0])
    monkeypatch.setattr(Spy, "folded", lambda *_: Outcome(0.0, 0.0, found))
    (score,) = evaluate(evaluator(directory, "CoLA"), encoder).scores
    assert score.value == pytest.approx(100 * (4 * 3 - 3 * 2) / (7 * 6 * 6 * 5) ** 0.5)
    assert score.value == pytest.approx(16.9030851)
    assert (score.items.statistic, score.items.x.tolist()) == (
        "matthews",
        [0.0, 1.0] * 6,
    )
    assert score.items.y.tolist() == found.tolist()


def test_one_class_throughout_is_a_matthews_correlation_of_zero_and_is_noted(
    directory, encoder, spy, monkeypatch
):
    monkeypatch.setattr(
        Spy, "folded", lambda *_: Outcome(0.0, 0.0, np.ones(12, np.int64))
    )
    (score,) = evaluate(evaluator(directory, "CoLA"), encoder).scores
    assert (score.value, score.note) == (0.0, "the classifier predicts one class only")


def test_accuracy_counts_the_rows_that_were_found(directory, encoder, spy):
    (score,) = evaluate(evaluator(directory, "MRPC"), encoder).scores
    (call,) = spy.calls
    means = [
        call["train"].features[call["train"].labels == number].mean(axis=0)
        for number in (0, 1)
    ]
    right = [
        float(np.argmin([np.linalg.norm(row - mean) for mean in means]) == label)
        for row, label in zip(call["test"].features, call["test"].labels, strict=True)
    ]
    assert 0 < sum(right) < 12
    assert score.items.x.tolist() == right
    assert score.value == pytest.approx(100 * sum(right) / 12)


def test_sts_b_is_spearmans_correlation_of_the_cosine_without_a_classifier(
    directory, encoder, spy
):
    (score,) = evaluate(evaluator(directory, "STS-B"), encoder).scores
    rows = table(directory / "STS-B" / "dev.tsv")
    cosines = []
    for first, second, _ in rows:
        u, v = encoder.encode([first, second]).astype(np.float64)
        cosines.append(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    gold = [float(row[2]) for row in rows]
    assert score.value == pytest.approx(100 * stats.spearmanr(gold, cosines).statistic)
    assert spy.calls == []
    assert (score.items.statistic, score.items.x.tolist()) == ("spearman", gold)
    np.testing.assert_allclose(score.items.y, cosines)


def test_a_protocol_says_what_makes_the_number_comparable(directory, encoder, spy):
    (score,) = evaluate(
        evaluator(directory, "QQP", protocol="logistic", mode="fast", seed=3), encoder
    ).scores
    protocol = dict(score.protocol)
    data = protocol.pop("data")
    assert len(data) == 64
    assert protocol == {
        "id": "sentglue-logistic",
        "aggregation": "single",
        "split": "dev",
        "features": "[u, v, u*v, |u-v|]",
        "classifier": {"spy": True},
        "penalty": "held-out part of train",
        "train": 54,
        "held_out": 6,
        "test": 12,
        "limit": None,
        "seed": 3,
        "text": "as in the file",
        "skipped": {"train": 0, "dev": 0},
    }
    assert spy.arguments == ("logistic", "fast", 3, "cpu")
    path = directory / "QQP" / "dev.tsv"
    path.write_text(path.read_text().replace("dev 3", "dev III"))
    (changed,) = evaluate(evaluator(directory, "QQP"), encoder).scores
    assert changed.protocol["data"] != data


def test_features_on_disk_give_the_same_scores_and_leave_nothing_behind(
    directory,
    encoder,
    tmp_path,
    monkeypatch,
    spy,
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    expected = evaluate(evaluator(directory), encoder)
    monkeypatch.setattr(feature_table, "IN_MEMORY", 0)
    assert evaluate(evaluator(directory), encoder).scores == expected.scores
    assert list(scratch.iterdir()) == []


def test_the_classifier_computes_where_the_encoder_does_and_says_how_far_it_is(
    directory, encoder, spy
):
    told = []
    encoder.progress = lambda *args: told.append(args)
    evaluate(
        evaluator(directory, "CoLA", "MNLI-m", "STS-B"),
        encoder,
        device="cuda:1",
        progress=encoder.progress,
    )
    assert spy.arguments == ("senteval", "test", 1111, "cuda:1")
    assert told == [("CoLA: classifiers", 1, 1), ("MNLI: classifiers", 1, 1)]


@pytest.mark.parametrize(
    ("task", "text"), [("STS-B", "STS-B 3"), ("CoLA", 'CoLA "dev 5')]
)
def test_a_zero_vector_is_named(directory, table_encoder, spy, task, text):
    encoder = table_encoder({text: [0.0] * 5})
    with pytest.raises(RunError, match=f"{text}.*is a zero vector"):
        evaluate(evaluator(directory, task), encoder)


def test_sizes_are_checked_unless_told_otherwise(directory, encoder):
    strict = SentGLUE(tasks=("RTE",), data_dir=str(directory))
    with pytest.raises(
        DataError, match=r"found 60 rows, but GLUE's `RTE/train\.tsv` has 2,490"
    ):
        evaluate(strict, encoder)


def test_check_names_every_problem(directory):
    (directory / "MNLI" / "train.tsv").unlink()
    tasks = ("MNLI", "RTE", "RTE", "MNLI-m", "MNLI-mm")
    found = list(
        SentGLUE(tasks=tasks, data_dir=str(directory), development_share=1.0).check()
    )
    unknown, twice, share, *missing = found
    assert unknown == "`MNLI` is not a task of `sentglue`. Did you mean `MNLI-m`?"
    assert "`RTE` is listed twice" in twice
    assert "`development_share` is 1.0" in share
    assert [problem.split(", ")[0] for problem in missing] == [
        "task `MNLI-m` needs `MNLI/train.tsv`",
        "task `MNLI-mm` needs `MNLI/train.tsv`",
    ]
    assert list(SentGLUE(tasks=("RTE", "STS-B"), data_dir=str(directory)).check()) == []


def test_the_development_sets_are_what_papers_report_so_nothing_may_be_chosen_on_them():
    assert SentGLUE().traits.development is False


@pytest.mark.parametrize(
    ("task", "train", "dev"),
    [("CoLA", 8551, 1043), ("MRPC", 3668, 408), ("RTE", 2490, 277)],
)
def test_real_tasks_are_trained_and_scored_whole(
    real_data, encoder, spy, task, train, dev
):
    if not (real_data / "glue").is_dir():
        pytest.skip(
            "needs the GLUE files: set SENTBED_DATA to the directory that holds glue"
        )
    (score,) = evaluate(
        SentGLUE(tasks=(task,), data_dir=str(real_data)), encoder
    ).scores
    (call,) = spy.calls
    assert (len(call["train"]), len(call["test"]), len(score.items.x)) == (
        train,
        dev,
        dev,
    )
    assert (score.protocol["train"], score.protocol["test"]) == (train, dev)


def test_incomplete_real_data_is_refused_with_the_files_that_are_missing(
    real_data, encoder
):
    if not (real_data / "glue").is_dir() or (real_data / "glue" / "QQP").is_dir():
        pytest.skip("needs the GLUE files without QQP")
    with pytest.raises(
        DataError,
        match=r"task `QQP` needs `QQP/train\.tsv` and `QQP/dev\.tsv`, missing in",
    ):
        evaluate(SentGLUE(data_dir=str(real_data)), encoder)
    assert encoder.calls == []
