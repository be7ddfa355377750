"""The six sources of SentBench in small, in their authors' forms."""

from __future__ import annotations

import csv
import io
import json

import pytest

CLOZE = "cloze_test_val__winter2018-cloze_test_ALL_val - 1 - 1.csv"


def csv_text(rows, quoting=csv.QUOTE_MINIMAL):
    stream = io.StringIO()
    csv.writer(stream, quoting=quoting, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def swag(name, count):
    header = [
        "",
        "video-id",
        "fold-ind",
        "startphrase",
        "sent1",
        "sent2",
        "gold-source",
    ]
    rows = [[*header, *(f"ending{i}" for i in range(4)), "label"]]
    for i in range(count):
        endings = [f'"{name}" {i}, ending {j}' for j in range(4)]
        rows.append(
            [
                i,
                "v",
                i,
                f"{name} {i} runs. He",
                f"{name} {i} runs.",
                "He",
                "gold",
                *endings,
                i % 4,
            ]
        )
    return csv_text(rows)


def cloze(count):
    header = ["InputStoryid", *(f"InputSentence{i}" for i in range(1, 5))]
    header += [
        "RandomFifthSentenceQuiz1",
        "RandomFifthSentenceQuiz2",
        "AnswerRightEnding",
    ]
    rows = [header]
    for i in range(count):
        endings = [f"ending {i} {'right' if j == i % 2 else 'wrong'}" for j in range(2)]
        rows.append(
            [
                f"id{i}",
                *(f"Story {i}, part {j}." for j in range(1, 5)),
                *endings,
                i % 2 + 1,
            ]
        )
    return csv_text(rows)


def questions(name, count):
    lines = []
    for i in range(count):
        choices = [
            {"label": label, "text": f"{name} {i} answer {label}"} for label in "ABCDE"
        ]
        question = {
            "question_concept": "c",
            "choices": choices,
            "stem": f"{name} question {i}?",
        }
        lines.append(
            json.dumps(
                {"answerKey": "ABCDE"[i % 5], "id": f"q{i}", "question": question}
            )
        )
    return "\n".join(lines) + "\n"


def dbpedia(name, a_class):
    return "".join(
        f'{label},"Title {i}"," The {name} ""{i}"", a thing of class {label}"\n'
        for label in range(1, 15)
        for i in range(a_class)
    )


def emotions(name, count):
    """Every fifth row has two emotions."""
    rows = []
    for i in range(count):
        labels = f"{i % 4},9" if i % 5 == 0 else str(i % 4)
        text = f'"{name} {i} ""quoted"""' if i % 7 == 0 else f"{name} {i} of {i % 4}"
        rows.append(f"{text}\t{labels}\tid{i}\n")
    return "".join(rows)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sentbench"


@pytest.fixture
def data(write, tmp_path):
    """A directory with all six sources."""
    for name, count in (("train", 40), ("val", 12)):
        write(f"d/swag/{name}.csv", swag(name, count))
    for name, count in (("train", 8), ("test", 4)):
        write(f"d/dbpedia/{name}.csv", dbpedia(name, count))
    for name, count in (("train", 60), ("dev", 20), ("test", 40)):
        write(f"d/goemotions/{name}.tsv", emotions(name, count))
    write(f"d/rocstories/{CLOZE}", cloze(20))
    for name, count in (("train", 30), ("valid", 8), ("test", 9)):
        write(
            f"d/styletransfer/{name}.modern.nltktok",
            "".join(f"you {name} {i} .\n" for i in range(count)),
        )
        write(
            f"d/styletransfer/{name}.original.nltktok",
            "".join(f"thou {name} {i} .\n" for i in range(count)),
        )
    for name, count in (("train", 30), ("dev", 11)):
        write(f"d/commonsenseqa/{name}_rand_split.jsonl", questions(name, count))
    return tmp_path / "d"
