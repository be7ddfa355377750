from __future__ import annotations

import attrs
import numpy as np
import pytest
from sentbed_evaluators import sentbench
from sentbed_evaluators.probe import Classifier, Outcome
from sentbed_evaluators.probe_task import LabelledTexts, ProbeTask
from sentbed_evaluators.sentbench import SentBench
from sentbed_evaluators.sentbench_sets import SPLITS, built_sets, find_files
from sentbed_evaluators.sentbench_sets.built_sets import VERSION
from sentbed_evaluators.transfer_files import TRANSFER

PAPER = ["ST", "DBpedia", "GoEmo", "ROC", "CQA", "SWAG"]


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def test_contrast_counts_the_greater_cosine_and_a_tie_as_wrong(
    sentbench_data, table_encoder
):
    # Stories point up; endings 0 to 9 of the right kind lean less than the wrong ones, 10 and 11 as much,
    # 12 to 19 more: 10 of 20 are right, with vectors of different lengths.
    leans = [0.5] * 10 + [1.0] * 2 + [3.0] * 8
    table = {}
    for i, lean in enumerate(leans):
        story = " ".join(f"Story {i}, part {j}." for j in range(1, 5))
        table[story] = [0.0, 2.0 + i]
        table[f"ending {i} right"] = [lean, 1.0]
        table[f"ending {i} wrong"] = [-2.0, 2.0]
    evaluator = SentBench(
        paradigms=("contrast",), tasks=("ROC",), data_dir=str(sentbench_data)
    )
    prepared = evaluator.prepare()
    result = prepared.evaluate(table_encoder(table))
    (score,) = result.scores
    assert (score.task, score.metric, score.value) == ("ROC", "contrast-accuracy", 50.0)
    assert result.primary == 50.0
    assert score.note == "2 ties, which count as wrong"
    assert score.items is not None
    assert score.items.statistic == "mean"
    assert score.items.x.sum() == 10
    texts = prepared.item_texts()["ROC/contrast-accuracy"]
    assert len(score.items.x) == len(texts) == 20
    # The text of each item says whether it is right.
    is_right = [table[near][0] == 0.5 for _, near, _ in texts]
    assert score.items.x.tolist() == is_right


def test_triples_alone_need_no_pairs_for_a_classifier(sentbench_data, encoder):
    evaluator = SentBench(
        paradigms=("contrast",),
        tasks=("ROC",),
        limit=4,
        data_dir=str(sentbench_data),
    )
    (score,) = evaluate(evaluator, encoder).scores
    assert score.protocol["test"] == 4


def test_the_classifier_sees_the_features_of_the_pairs_and_their_labels(
    sentbench_data, encoder, probed
):
    evaluator = SentBench(
        paradigms=("pair",), tasks=("CQA",), data_dir=str(sentbench_data)
    )
    prepared = evaluator.prepare()
    (score,) = prepared.evaluate(encoder).scores
    assert len(encoder.calls) == 1
    assert len(set(encoder.calls[0])) == len(encoder.calls[0])
    sets = built_sets(find_files(sentbench_data, "CQA"), seed=0)
    texts = [(first, second) for first, second, _ in sets.pairs["test"]]
    assert prepared.item_texts()["CQA/accuracy"] == texts
    assert score.protocol["features"] == "[u, v, u*v, |u-v|]"
    (call,) = probed
    parts = call.train, call.development, call.test
    for split, part in zip(SPLITS, parts, strict=True):
        pairs = sets.pairs[split]
        assert part.labels.tolist() == [label for _, _, label in pairs]
        first = encoder.encode([text for text, _, _ in pairs])
        second = encoder.encode([text for _, text, _ in pairs])
        expected = np.hstack([first, second, first * second, abs(first - second)])
        np.testing.assert_array_equal(part.features, expected)


@pytest.mark.parametrize(
    ("paradigm", "task"), [("single", "MR"), ("pair", "CQA"), ("pair", "ROC")]
)
def test_a_score_of_several_runs_is_their_mean(
    paradigm,
    task,
    sentbench_data,
    encoder,
    monkeypatch,
):
    rows = [((f"sentence {i}",), i % 2) for i in range(30)]
    monkeypatch.setattr(SentBench, "missing", lambda _: {})
    # SentEval's files have a fixed size, too large for a unit test.
    small = [ProbeTask("MR", {"all": LabelledTexts.of(rows)}, 2, "hash")]
    monkeypatch.setattr(
        sentbench, "read_tasks", lambda tasks, data_dir: small[: len(tasks)]
    )

    def score(**fields):
        evaluator = SentBench(
            (paradigm,),
            (task,),
            "fast",
            data_dir=str(sentbench_data),
            **fields,
        )
        (mean,) = evaluate(evaluator, encoder).scores
        assert mean.items is not None
        return mean

    runs = [score(seed=seed) for seed in (5, 6, 7)]
    together = score(seed=5, runs=3)
    # Otherwise the mean could be that of one run thrice.
    assert len({run.items.x.tobytes() for run in runs}) > 1
    assert together.value == pytest.approx(sum(run.value for run in runs) / 3)
    np.testing.assert_allclose(
        together.items.x, np.mean([run.items.x for run in runs], axis=0)
    )
    assert together.protocol == {**runs[0].protocol, "runs": 3}
    assert together.degenerate == next(
        (run.degenerate for run in runs if run.degenerate), ""
    )


def test_positive_test_pairs_with_two_equal_sides_are_counted(
    sentbench_data, encoder, probed
):
    for name, count in (("train", 30), ("valid", 8), ("test", 9)):
        for form in ("modern", "original"):
            path = sentbench_data / "styletransfer" / f"{name}.{form}.nltktok"
            lines = path.read_text().splitlines()
            assert len(lines) == count
            for i in range(count):
                if i % 3:
                    lines[i] = f"same {name} {i} ."
            path.write_text("".join(f"{line}\n" for line in lines))
    evaluator = SentBench(
        paradigms=("pair",), tasks=("ST",), data_dir=str(sentbench_data)
    )
    (score,) = evaluate(evaluator, encoder).scores
    texts = [
        (first, label)
        for first, second, label in built_sets(
            find_files(sentbench_data, "ST"), seed=0
        ).pairs["test"]
        if first == second
    ]
    assert texts
    assert all(label == 1 and text.startswith("same") for text, label in texts)
    assert score.protocol["identical"] == len(texts)


def test_rocstories_has_no_validation_set_and_is_cross_validated(
    sentbench_data, encoder, probed
):
    (score,) = evaluate(
        SentBench(paradigms=("pair",), tasks=("ROC",), data_dir=str(sentbench_data)),
        encoder,
    ).scores
    (call,) = probed
    assert (call.development, len(call.train), len(call.test)) == (None, 31, 9)
    assert [score.protocol[split] for split in SPLITS] == [31, 0, 9]
    assert score.protocol["penalty"] == "cross-validation on train"


def test_each_paradigm_has_a_mean_and_the_texts_of_both_are_encoded_once(
    sentbench_data, encoder, probed
):
    suite = SentBench(paradigms=("pair", "contrast"), data_dir=str(sentbench_data))
    result = evaluate(suite, encoder)
    assert [score.task for score in result.scores] == [*PAPER, "AVG"] * 2
    pair, contrast = result.scores[6], result.scores[13]
    assert (pair.metric, pair.protocol["id"]) == ("accuracy", "sentbench-pair")
    assert pair.protocol["penalty"] == {
        **dict.fromkeys(PAPER, "validation set"),
        "ROC": "cross-validation on train",
    }
    assert contrast.metric == "contrast-accuracy"
    assert contrast.protocol["id"] == "sentbench-contrast"
    values = [score.value for score in result.scores[7:13]]
    assert contrast.value == pytest.approx(np.mean(values))
    assert result.primary == pytest.approx((pair.value + contrast.value) / 2)
    assert len(encoder.calls) == 6


def test_a_protocol_says_what_makes_the_number_comparable(
    sentbench_data, encoder, probed
):
    evaluator = SentBench(
        ("pair", "contrast"),
        ("GoEmo",),
        set_seed=4,
        data_dir=str(sentbench_data),
    )
    pair, contrast = evaluate(evaluator, encoder).scores
    sets = built_sets(find_files(sentbench_data, "GoEmo"), seed=4)
    common = {
        "aggregation": "single",
        "split": "test",
        "size": "smaller",
        "builder": VERSION,
        "set_seed": 4,
        "text": "as in the file",
        "source": sets.source,
    }
    assert dict(pair.protocol) == {
        **common,
        "id": "sentbench-pair",
        **{split: len(sets.pairs[split]) for split in SPLITS},
        "identical": 0,
        "penalty": "validation set",
        "features": "[u, v, u*v, |u-v|]",
        "classifier": Classifier().describe(),
        "data": sets.pairs_hash,
    }
    assert dict(contrast.protocol) == {
        **common,
        "id": "sentbench-contrast",
        "test": 32,
        "similarity": "cosine",
        "data": sets.triples_hash,
    }


def test_single_tasks_are_those_of_senteval_under_the_papers_names(
    monkeypatch, encoder
):
    rows = [((f"sentence {i}",), i % 2) for i in range(30)]

    def read(tasks, data_dir):
        splits = {"all": LabelledTexts.of(rows)}
        return [ProbeTask(task, splits, 2, task) for task in tasks]

    def probe(task, *_):
        accuracy = 80.0 + list(TRANSFER).index(task.name)
        return [Outcome(accuracy, 0.0, np.arange(30) % 2, np.arange(30) % 2)]

    monkeypatch.setattr(ProbeTask, "probe", probe)
    monkeypatch.setattr(SentBench, "missing", lambda _: {})
    monkeypatch.setattr(sentbench, "read_tasks", read)
    result = evaluate(SentBench(paradigms=("single",)), encoder)
    assert [score.task for score in result.scores] == [
        "MR",
        "CR",
        "MPQA",
        "SUBJ",
        "SST",
        "TREC",
        "AVG",
    ]
    assert {(score.metric, score.protocol["id"]) for score in result.scores} == {
        ("accuracy", "sentbench-single")
    }
    assert result.scores[4].protocol["task"] == "SST2"
    assert [score.value for score in result.scores[:6]] == [80, 81, 83, 82, 84, 86]


def test_check_names_every_problem(sentbench_data):
    (sentbench_data / "swag" / "val.csv").unlink()
    evaluator = SentBench(
        paradigms=("pair", "contrast", "contrast"),
        tasks=("DBPedia", "ROC", "ROC", "MR", "SWAG"),
        data_dir=str(sentbench_data),
    )
    problems = list(evaluator.check())
    assert problems[0] == "paradigm `contrast` is listed twice; remove one"
    assert (
        problems[1] == "`DBPedia` is not a task of `sentbench`. Did you mean `DBpedia`?"
    )
    assert problems[2] == "task `ROC` is listed twice; remove one"
    assert problems[3].startswith(
        "task `MR` belongs to none of the paradigms pair, contrast"
    )
    assert problems[4].startswith(
        f"task `SWAG` needs `val.csv`, missing in `{sentbench_data / 'swag'}`"
    )
    assert "`sentbed data get swag`" in problems[4]
    assert len(problems) == 5
    assert (
        list(
            SentBench(
                paradigms=("contrast",), tasks=("ROC",), data_dir=str(sentbench_data)
            ).check()
        )
        == []
    )


def test_check_names_a_paradigm_without_tasks_and_one_that_is_none(
    no_data,
):
    (unknown,) = SentBench(paradigms=("pairs",)).check()
    assert unknown == "`pairs` is not a paradigm of `sentbench`. Did you mean `pair`?"
    assert next(SentBench(paradigms=()).check()).startswith("`paradigms` is empty")
    problems = list(SentBench(paradigms=("single", "contrast"), tasks=("ROC",)).check())
    assert problems[0].startswith("`tasks` has none of `single`")
    assert problems[1].startswith("no data directory is known")


def test_tasks_and_paradigms_without_data_are_skipped_and_named_row_by_row(
    sentbench_data, encoder, probed
):
    (sentbench_data / "swag" / "val.csv").unlink()
    tolerant = SentBench(
        tasks=("MR", "ROC", "SWAG"), data_dir=str(sentbench_data), skip_missing=True
    )
    assert list(tolerant.check()) == []
    scores = evaluate(tolerant, encoder).scores
    assert [(score.task, score.metric, score.skipped) for score in scores] == [
        ("ROC", "accuracy", ("SWAG",)),
        ("ROC", "contrast-accuracy", ("SWAG",)),
    ]
    assert set(tolerant.files()) == set(
        SentBench(("pair",), ("ROC",), data_dir=str(sentbench_data)).files()
    )
    refused = attrs.evolve(tolerant, skip_missing=False)
    assert len(list(refused.check())) == 2
