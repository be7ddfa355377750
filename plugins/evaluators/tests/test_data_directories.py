from __future__ import annotations

from typing import Any

import attrs
import pytest
from sentbed import DataError
from sentbed_evaluators import (
    glue_files,
    probing_files,
    senteval_sts_files,
    transfer_files,
)
from sentbed_evaluators.data_directories import TaskFiles
from sentbed_evaluators.geometry import Geometry
from sentbed_evaluators.known_collections import known_collection
from sentbed_evaluators.probing import SentEvalProbing
from sentbed_evaluators.sentbench import SentBench
from sentbed_evaluators.sentglue import SentGLUE
from sentbed_evaluators.sts import SentEvalSTS
from sentbed_evaluators.transfer import SentEvalTransfer

STSB = ["senteval/downstream/STS/STSBenchmark/sts-test.csv"]

FILES: list[tuple[Any, list[str]]] = [
    (SentEvalSTS(tasks=("STSB",)), STSB),
    (
        SentEvalSTS(tasks=("STSB-dev", "STS13")),
        [
            "senteval/downstream/STS/STSBenchmark/sts-dev.csv",
            *(
                f"senteval/downstream/STS/STS13-en-test/STS.{kind}.{name}.txt"
                for name in ("FNWN", "headlines", "OnWN")
                for kind in ("input", "gs")
            ),
        ],
    ),
    (
        SentEvalTransfer(tasks=("TREC", "MR")),
        [
            "senteval/downstream/TREC/train_5500.label",
            "senteval/downstream/TREC/TREC_10.label",
            "senteval/downstream/MR/rt-polarity.pos",
            "senteval/downstream/MR/rt-polarity.neg",
        ],
    ),
    (
        SentEvalProbing(tasks=("Depth", "Tense")),
        [f"senteval/probing/{n}.txt" for n in ("tree_depth", "past_present")],
    ),
    # The two share their training set; STS-B trains nothing.
    (
        SentGLUE(tasks=("MNLI-m", "MNLI-mm", "STS-B")),
        [
            "glue/MNLI/train.tsv",
            "glue/MNLI/dev_matched.tsv",
            "glue/MNLI/dev_mismatched.tsv",
            "glue/STS-B/dev.tsv",
        ],
    ),
    (Geometry(), STSB),
    (Geometry(task="SICKR-dev"), ["senteval/downstream/SICK/SICK_trial.txt"]),
    (
        SentBench(tasks=("MPQA", "CQA")),
        [
            "senteval/downstream/MPQA/mpqa.pos",
            "senteval/downstream/MPQA/mpqa.neg",
            "commonsenseqa/train_rand_split.jsonl",
            "commonsenseqa/dev_rand_split.jsonl",
        ],
    ),
    (
        SentBench(paradigms=("contrast",), tasks=("SWAG",)),
        ["swag/train.csv", "swag/val.csv"],
    ),
]


def named(case):
    return getattr(case, "name", None)


@pytest.mark.parametrize(("evaluator", "expected"), FILES, ids=named)
def test_an_evaluator_says_which_files_its_tasks_are_read_from(
    evaluator,
    expected,
    write,
    tmp_path,
    monkeypatch,
):
    for _, names in FILES:
        for name in names:
            write(name, "x")

    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert [
        file.relative_to(tmp_path).as_posix() for file in evaluator.files()
    ] == expected


@pytest.mark.parametrize(("evaluator", "expected"), FILES, ids=named)
def test_a_missing_file_that_is_said_to_be_read_is_a_problem(
    evaluator,
    expected,
    write,
    tmp_path,
    monkeypatch,
):
    for name in expected:
        write(name, "x")

    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert list(evaluator.check()) == []
    for name in expected:
        (tmp_path / name).unlink()
        assert list(evaluator.check()) != []
        write(name, "x")


@pytest.mark.parametrize(
    ("evaluator", "there", "expected"),
    [
        (SentEvalSTS(tasks=("STSB", "STSB-dev"), skip_missing=True), STSB, STSB),
        (
            SentEvalTransfer(tasks=("TREC", "MR"), skip_missing=True),
            FILES[2][1][1:],
            FILES[2][1][2:],
        ),
        (
            SentEvalProbing(tasks=("Depth", "Tense"), skip_missing=True),
            FILES[3][1][:1],
            FILES[3][1][:1],
        ),
        (
            SentGLUE(tasks=("MNLI-m", "STS-B"), skip_missing=True),
            FILES[4][1][1:],
            FILES[4][1][3:],
        ),
    ],
    ids=named,
)
def test_a_skipped_task_has_no_files(
    evaluator,
    there,
    expected,
    write,
    tmp_path,
    monkeypatch,
):
    for name in there:
        write(name, "x")

    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert [
        file.relative_to(tmp_path).as_posix() for file in evaluator.files()
    ] == expected


@pytest.mark.parametrize(
    ("evaluator", "place", "files", "expected"),
    [
        (FILES[1][0], "senteval/downstream", FILES[1][1], ["sts-dev.csv"]),
        (FILES[2][0], "senteval/downstream", FILES[2][1], ["train_5500.label"]),
        (FILES[4][0], "glue", FILES[4][1], ["train.tsv"]),
    ],
    ids=named,
)
def test_training_and_development_sets_are_no_test_data(
    evaluator, place, files, expected, write, tmp_path
):
    for name in files:
        write(name, "x")

    suite = attrs.evolve(evaluator, data_dir=str(tmp_path / place))
    assert [file.name for file in suite.development_files()] == expected


def test_sentences_that_sentbench_trains_its_classifier_on_are_no_test_data(
    write, tmp_path
):
    for name in FILES[2][1]:
        write(name, "x")

    suite = SentBench(
        paradigms=("single",), tasks=("TREC",), data_dir=str(tmp_path / "senteval")
    )

    files = [file.name for file in suite.development_files()]
    assert files == ["train_5500.label"]


def test_pairs_that_a_field_names_need_no_directory(tmp_path):
    assert list(Geometry(path=str(tmp_path / "pairs.tsv")).files()) == []


SUITES = [
    (senteval_sts_files, "STS/STS15-en-test/STS.gs.belief.txt", "senteval"),
    (senteval_sts_files, "STS/STSBenchmark/sts-dev.csv", "senteval"),
    (senteval_sts_files, "SICK/SICK_trial.txt", "senteval"),
    (transfer_files, "MR/rt-polarity.pos", "senteval"),
    (glue_files, "MNLI/train.tsv", "glue"),
    (probing_files, "sentence_length.txt", "senteval-probing"),
    (probing_files, "odd_man_out.txt", "senteval-probing"),
]


@pytest.mark.parametrize(("module", "file", "collection"), SUITES)
def test_each_layout_is_found(
    module,
    file,
    collection,
    tmp_path,
    monkeypatch,
):
    for number, place in enumerate(known_collection(collection).places):
        directory = tmp_path / str(number)
        (directory / place / file).parent.mkdir(parents=True)
        (directory / place / file).touch()
        files = module.find_files(str(directory))
        assert files.root.samefile(directory / place)
        assert files.collection == collection
        monkeypatch.setenv("SENTBED_DATA", str(directory))
        assert module.find_files(None) == files


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize(
    ("module", "entry", "collection"),
    [
        (senteval_sts_files, "STS/STS12-en-test", "senteval"),
        (transfer_files, "MR", "senteval"),
        (glue_files, "CoLA", "glue"),
        (probing_files, "sentence_length.txt", "senteval-probing"),
    ],
)
def test_no_directory_says_what_to_set_and_what_downloads_it(
    module, entry, collection, tmp_path
):
    with pytest.raises(DataError, match="set `data_dir`, or set `SENTBED_DATA`"):
        module.find_files(None)

    message = f"no data of `{collection}`: `{entry}` .*get {collection}` downloads it"
    with pytest.raises(DataError, match=message):
        module.find_files(str(tmp_path))


def test_missing_files_are_named_with_the_tasks_that_are_complete(write, tmp_path):
    write("QNLI/dev.tsv", "")
    for name in ("train", "dev"):
        write(f"RTE/{name}.tsv", "")

    files = glue_files.find_files(str(tmp_path))
    assert files.missing(["RTE", "unknown"]) == {}
    messages = files.missing(["QNLI", "MNLI-mm"])
    assert messages["QNLI"] == (
        f"task `QNLI` needs `QNLI/train.tsv`, missing in `{tmp_path}`; add what is missing (`sentbed data "
        "get glue` downloads it), or leave the task out (`skip_missing = true`); tasks present: `RTE`"
    )

    assert messages["MNLI-mm"].startswith(
        "task `MNLI-mm` needs `MNLI/train.tsv` and `MNLI/dev_mismatched.tsv`, missing in"
    )

    with pytest.raises(DataError, match="task `QNLI` needs"):
        files["QNLI"]

    paths = tuple(tmp_path / name for name in "xyz")
    messages = TaskFiles("senteval", tmp_path, {"A": paths}).missing(["A"])
    assert messages["A"].startswith("task `A` needs `x` and 2 more, missing in")
