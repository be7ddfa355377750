"""Readers of the six sources of SentBench's pair and contrast sets, in the formats of their authors.

Every reader yields one row at a time, so that large sources need little memory. For a malformed line it raises
`DataError` with file and line. Texts are as in the file; only the quoting of CSV is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from sentbed import DataError
from sentbed_common import (
    csv_rows,
    decoded_lines,
    find_columns,
    json_object,
    text_lines,
)

from sentbed_evaluators.sentbench_sets.rows import Choice, Labelled

_EMOTIONS = 28
_DBPEDIA_CLASSES = 14

_SWAG_ENDINGS = ("ending0", "ending1", "ending2", "ending3")

_STORY_SENTENCES = (
    "InputSentence1",
    "InputSentence2",
    "InputSentence3",
    "InputSentence4",
)
_STORY_ENDINGS = ("RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2")
_STORY_ANSWER = "AnswerRightEnding"


def read_swag(path: Path) -> Iterator[Choice]:
    """Yield the rows of SWAG's `train.csv` or `val.csv`: a beginning, the right ending and three wrong endings.

    The beginning is the column `startphrase`: a sentence (`sent1`) and the first words of the next one (`sent2`).
    """
    for line, row in _named_rows(path, ["startphrase", *_SWAG_ENDINGS, "label"]):
        label = _whole_number(row["label"], 0, 3, "`label`", path, line)
        endings = [row[name] for name in _SWAG_ENDINGS]
        right = endings.pop(label)
        yield Choice(row["startphrase"], right, tuple(endings))


def read_rocstories(path: Path) -> Iterator[Choice]:
    """Yield the rows of a Story Cloze Test: four sentences joined by spaces, the right and the wrong ending."""
    names = [*_STORY_SENTENCES, *_STORY_ENDINGS, _STORY_ANSWER]
    for line, row in _named_rows(path, names):
        place = f"`{_STORY_ANSWER}`"
        answer = _whole_number(row[_STORY_ANSWER], 1, 2, place, path, line)
        endings = [row[name] for name in _STORY_ENDINGS]
        right = endings.pop(answer - 1)
        story = " ".join(row[name] for name in _STORY_SENTENCES)
        yield Choice(story, right, tuple(endings))


def read_commonsenseqa(path: Path) -> Iterator[Choice]:
    """Yield the rows of a CommonsenseQA file: a question, the right answer and the other answers."""
    for line, content in text_lines(path):
        entry = json_object(content, path, line)
        stem, choices = _question(entry, path, line)
        key = entry.get("answerKey")
        if not isinstance(key, str) or key not in choices:
            raise DataError(
                f"`answerKey` is {key!r}, but one of {', '.join(sorted(choices))} was expected; "
                f"the test file has none, take `train_rand_split.jsonl` and `dev_rand_split.jsonl`",
                path,
                line,
            )

        right = choices.pop(key)
        yield Choice(stem, right, tuple(choices.values()))


def _question(
    entry: Mapping[str, Any],
    path: Path,
    line: int,
) -> tuple[str, dict[str, str]]:
    """Return the question of an entry, and its answers by label."""
    choices: dict[str, str] = {}
    try:
        stem = entry["question"]["stem"]
        listed = entry["question"]["choices"]
        for choice in listed:
            choices[choice["label"]] = choice["text"]
    except (KeyError, TypeError) as error:
        raise DataError(
            f"the line is no question of CommonsenseQA ({type(error).__name__}: {error}): an object with "
            f"`question.stem` and `question.choices` was expected; download the file again",
            path,
            line,
        ) from error
    texts = (stem, *choices, *choices.values())
    if not all(isinstance(text, str) for text in texts):
        raise DataError(
            "question or answers are not texts; download the file again", path, line
        )
    if len(choices) != len(listed):
        raise DataError("two choices have the same label; repair the line", path, line)
    return stem, choices


def read_styletransfer(path: Path) -> Iterator[Choice]:
    """Yield modern lines with their originals; `path` is the modern file, and the original file is beside it."""
    other = path.with_name(path.name.replace(".modern.", ".original."))
    for modern, original in zip_longest(text_lines(path), text_lines(other)):
        if modern is None or original is None:
            short, long, line = path, other, original
            if original is None:
                short, long, line = other, path, modern

            raise DataError(
                f"the file has {line[0] - 1} lines, but `{long.name}` has more; "
                f"lines must be aligned, download both files again",
                short,
            )
        yield Choice(modern[1], original[1])


def read_goemotions(path: Path) -> Iterator[Labelled]:
    """Yield the rows of a GoEmotions file that have exactly one emotion."""
    for line, row in csv_rows(decoded_lines(path), path, "\t"):
        if len(row) != 3:
            raise DataError(
                f"the row has {len(row)} columns, but text, label ids and comment id were expected with tabs "
                f"between; download the file again",
                path,
                line,
            )

        labels = []
        for label in row[1].split(","):
            labels.append(
                _whole_number(label, 0, _EMOTIONS - 1, "the label id", path, line)
            )

        if len(labels) == 1:
            yield Labelled(row[0], labels[0])


def read_dbpedia(path: Path) -> Iterator[Labelled]:
    """Yield the texts of a DBpedia file with their classes.

    A file in the native format has three columns: class (1 to 14), title and content. The content is the text.
    Some copies have two columns, class and text, and number the classes in different ways, from 0 or from 1.
    Each such copy therefore has a numbering of its own, while all native files have the same numbering.
    """
    columns = 0
    for line, row in csv_rows(decoded_lines(path), path):
        if not columns:
            columns = len(row)
        if len(row) not in (2, 3) or len(row) != columns:
            raise DataError(
                f"the row has {len(row)} columns, but class, title and content were expected (or class and "
                f"text, the same number in all rows); download the file again",
                path,
                line,
            )

        lowest, numbering = 0, path.name
        if columns == 3:
            lowest, numbering = 1, "native"

        label = _whole_number(row[0], lowest, _DBPEDIA_CLASSES, "the class", path, line)
        yield Labelled(row[-1], label, numbering)


def _named_rows(
    path: Path, names: list[str]
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the line number and the fields, by column, of each row of a CSV file with a header."""
    rows = csv_rows(decoded_lines(path), path)
    header: Sequence[str] = next(rows, (1, []))[1]
    find_columns(names, header, path, 1)
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(
                f"the row has {len(row)} columns, but the header has {len(header)}; download the file again",
                path,
                line,
            )
        yield line, dict(zip(header, row, strict=True))


def _whole_number(
    text: str,
    low: int,
    high: int,
    what: str,
    path: Path,
    line: int,
) -> int:
    """Return a text as a number from `low` to `high`; raises `DataError`, which calls the text `what`."""
    if text not in map(str, range(low, high + 1)):
        raise DataError(
            f"{what} is {text!r:.40}, but a number from {low} to {high} was expected; download the file again",
            path,
            line,
        )
    return int(text)
