"""The transfer tasks: their files as SentEval reads them, and what is done with bad ones."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from sentbed import DataError
from sentbed_evaluators.probe import Classifier, Outcome
from sentbed_evaluators.transfer import PAPERS, SentEvalTransfer
from sentbed_evaluators.transfer_files import TRANSFER, find_files, read_transfer
from sklearn.metrics import f1_score


def suite(downstream, *arguments, **fields):
    return SentEvalTransfer(
        *arguments, data_dir=str(downstream), check_sizes=False, **fields
    )


def evaluate(evaluator, encoder, *arguments, **options):
    return evaluator.prepare().evaluate(encoder, *arguments, **options)


def read(directory, task):
    """Read the splits of a task, whatever their sizes."""
    splits, _ = read_transfer(find_files(str(directory)), task, check_sizes=False)
    return splits


def test_mrpc_has_an_f1_beside_its_accuracy(downstream, table_encoder):
    scores = evaluate(suite(downstream, ("MRPC",), mode="fast"), table_encoder()).scores
    f1 = next(score for score in scores if score.metric == "f1")
    assert f1.items is not None
    assert f1.value == pytest.approx(100 * f1_score(f1.items.x, f1.items.y), abs=0.006)
    assert f1.protocol["features"] == "[|u-v|, u*v]"


def test_the_accuracy_that_chose_the_penalty_says_on_what(downstream, table_encoder):
    tasks = ("CR", "SST2", "TREC", "MRPC")
    scores = evaluate(suite(downstream, tasks, mode="fast"), table_encoder()).scores
    splits = {(score.task, score.metric): score.protocol["split"] for score in scores}
    assert splits == {
        ("CR", "accuracy"): "nested cross-validation",
        ("CR", "dev-accuracy"): "inner cross-validation",
        ("SST2", "accuracy"): "test",
        ("SST2", "dev-accuracy"): "dev",
        ("TREC", "accuracy"): "test",
        ("TREC", "dev-accuracy"): "cross-validation on train",
        ("MRPC", "accuracy"): "test",
        ("MRPC", "f1"): "test",
        ("MRPC", "dev-accuracy"): "cross-validation on train",
    }


@pytest.mark.parametrize("gold", [0, 1])
def test_an_f1_without_a_positive_that_was_found_is_zero_and_is_noted(
    downstream, table_encoder, monkeypatch, gold
):
    zeros = np.zeros(60, np.int64)
    nothing = Outcome(0.0, 0.0, zeros, zeros + gold)
    monkeypatch.setattr(Classifier, "probe", lambda *_: nothing)
    evaluator = suite(downstream, ("MRPC",))
    accuracy, f1, _ = evaluate(evaluator, table_encoder()).scores
    assert (f1.metric, f1.value) == ("f1", 0.0)
    assert f1.note == "the classifier predicts no positive pair"
    assert accuracy.note == ""


def test_examples_are_sorted_by_words_then_class(write):
    write("MR/rt-polarity.pos", "one two three\nb\n")
    write("MR/rt-polarity.neg", "\nc\nfour five\n")
    root = write("MR/x", "").parents[1]

    splits = read(root, "MR")

    assert splits["all"].sentences == (("", "c", "b", "four five", "one two three"),)
    assert splits["all"].labels == (0, 0, 1, 0, 1)


def test_pairs_are_sorted_by_the_words_of_both(write):
    rows = ["1\t1\t2\ta b\tc d", "0\t1\t2\ta b\tc", "1\t1\t2\ta\tc d e"]
    for name in ("train", "test"):
        write(
            f"MRPC/msr_paraphrase_{name}.txt",
            "\ufeffQuality\tx\tx\tx\tx\n" + "\n".join(rows) + "\n",
        )
    root = write("MRPC/x", "").parents[1]

    splits = read(root, "MRPC")

    assert splits["train"].sentences == (("a", "a b", "a b"), ("c d e", "c", "c d"))
    assert splits["train"].labels == (1, 0, 1)


def test_latin_1_is_read_and_0x85_ends_no_line(write):
    write("MR/rt-polarity.pos", b"caf\xe9 na\xefve\x85 fin\n")
    write("MR/rt-polarity.neg", b"a\n")
    root = write("MR/x", "").parents[1]

    splits = read(root, "MR")

    assert splits["all"].sentences == (("a", "café naïve fin"),)


def test_trec_takes_the_coarse_label(write):
    write("TREC/train_5500.label", "NUM:dist How far : really ?\nABBR:exp What ?\n")
    write("TREC/TREC_10.label", "HUM:ind Who ?\n")
    root = write("TREC/x", "").parents[1]

    splits = read(root, "TREC")

    assert splits["train"].sentences == (("What ?", "How far : really ?"),)
    assert splits["train"].labels == (0, 5)
    assert splits["test"].labels == (3,)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "TREC/train_5500.label",
            "NUM:dist How\nBIRD:x Who\n",
            r"BIRD.*expected `LABEL:fine.*label:2",
        ),
        (
            "SST/binary/sentiment-dev",
            "good\t1\nbad\t2\n",
            "label is '2', but one of .* was expected.*dev:2",
        ),
        ("SST/binary/sentiment-dev", "good 1\n", "no tab.*dev:1"),
        (
            "SST/fine/sentiment-dev",
            "7 good\n",
            "label is '7', but one of .* was expected.*dev:1",
        ),
        (
            "MRPC/msr_paraphrase_test.txt",
            "head\n1\t2\t3\ttext\n",
            "4 fields, expected 5.*txt:2",
        ),
        (
            "SST/binary/sentiment-dev",
            "",
            "the split has no example.*sentbed data get senteval.*dev$",
        ),
        (
            "MRPC/msr_paraphrase_test.txt",
            "head\n",
            r"the split has no example.*test\.txt$",
        ),
        (
            "MR/rt-polarity.pos",
            "",
            r"all examples in all of `MR` have the class 0, .*rt-polarity\.pos$",
        ),
        (
            "TREC/train_5500.label",
            "NUM:a b\nNUM:c d\n",
            r"in train of `TREC` have the class 5, .*label$",
        ),
    ],
)
def test_a_bad_line_is_named(downstream, file, content, message):
    (downstream / file).write_text(content)
    task = next(
        name for name, task in TRANSFER.items() if file.startswith(task.folder + "/")
    )
    with pytest.raises(DataError, match=message):
        read(downstream, task)


def test_a_classifier_that_found_one_class_only_says_so(downstream, table_encoder):
    """All sentences have one vector, as after a collapse: each classifier takes the largest class."""
    evaluator = suite(
        downstream, tasks=("TREC", "MRPC"), mode="fast", protocol="logistic"
    )
    encoder = table_encoder(width=6)
    encoder.encode = lambda texts, task: np.ones((len(texts), 6), np.float32)
    degenerate = {
        (s.task, s.metric): s.degenerate for s in evaluate(evaluator, encoder).scores
    }
    assert {
        ("TREC", "accuracy"),
        ("TREC", "dev-accuracy"),
        ("MRPC", "f1"),
    } <= degenerate.keys()
    assert set(degenerate.values()) == {"the classifier predicts one class only"}


def test_the_training_part_is_scored_without_any_test_sentence(
    downstream, table_encoder
):
    evaluator = suite(downstream, mode="fast", part="train")
    assert evaluator.development
    prepared = evaluator.prepare()
    held_out = attrs.evolve(evaluator, part="held-out").prepare()
    for task in PAPERS:
        lists = {
            name: texts
            for name, texts in prepared.lists.items()
            if name.startswith(f"{task} ")
        }
        assert not any(name.endswith((" test", " all")) for name in lists)
        test = set(held_out.lists[f"{task} test"].first)
        assert test.isdisjoint(text for texts in lists.values() for text in texts.first)
    evaluation = prepared.evaluate(table_encoder())
    main = [score for score in evaluation.scores if score.metric == "accuracy"]
    assert [score.task for score in main] == list(PAPERS)
    assert {score.protocol["id"] for score in main} == {"senteval-transfer-train"}
    assert main[PAPERS.index("SST2")].protocol["split"] == "dev"
    assert main[PAPERS.index("MR")].protocol["split"] == "cross-validation on train"


@pytest.mark.parametrize("protocol", ["senteval", "logistic"])
def test_what_is_held_out_is_the_first_fold_of_the_published_accuracy(
    downstream, table_encoder, protocol
):
    evaluator = suite(downstream, ("MR",), protocol, "fast")
    encoder = table_encoder(width=16)
    encode = encoder.encode
    # With short vectors, `logistic` would choose a C that is tried for TREC and MRPC alone.
    encoder.encode = lambda texts, task: 0.1 * encode(texts, task)
    whole = evaluate(evaluator, encoder).scores[0]
    held_out = evaluate(attrs.evolve(evaluator, part="held-out"), encoder).scores[0]
    assert whole.items is not None
    assert whole.items.groups is not None
    first = whole.items.x[whole.items.groups == 0]
    assert held_out.value == pytest.approx(100 * first.mean(), abs=0.01)
    assert (
        held_out.protocol["id"]
        == f"senteval-transfer{'' if protocol == 'senteval' else '-logistic'}-held-out"
    )


def test_the_training_part_is_scored_as_the_penalty_is_chosen(
    downstream, table_encoder
):
    evaluator = suite(downstream, ("TREC",), mode="fast")
    published = evaluate(evaluator, table_encoder()).scores
    train = evaluate(attrs.evolve(evaluator, part="train"), table_encoder())
    assert train.primary == next(
        score.value for score in published if score.metric == "dev-accuracy"
    )
