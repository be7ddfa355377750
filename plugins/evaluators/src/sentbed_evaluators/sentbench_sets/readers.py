"""Readers of the six sources of SentBench's pair and contrast sets, in the formats of their authors.

Every reader yields one row at a time, so that large sources need little memory. For a malformed line it raises
`DataError` with file and line. Texts are as in the file; only the quoting of CSV is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from sentbed import DataError
from sentbed_common import (
    csv_rows,
    decoded_lines,
    json_object,
    require_string,
    table_rows,
    text_lines,
)

from sentbed_evaluators.sentbench_sets.rows import Choice, Labelled
from sentbed_evaluators.text_lines import class_number

_EMOTIONS = tuple(map(str, range(28)))
_DBPEDIA_CLASSES = tuple(map(str, range(1, 15)))

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
    columns = ("startphrase", *_SWAG_ENDINGS, "label")
    for line, (start, *endings, label) in table_rows(str(path), columns):
        right = endings.pop(class_number(label, ("0", "1", "2", "3"), path, line))
        yield Choice(start, right, tuple(endings))


def read_rocstories(path: Path) -> Iterator[Choice]:
    """Yield the rows of a Story Cloze Test: four sentences joined by spaces, the right and the wrong ending."""
    columns = (*_STORY_SENTENCES, *_STORY_ENDINGS, _STORY_ANSWER)
    for line, values in table_rows(str(path), columns):
        *story, first, second, answer = values
        endings = [first, second]
        right = endings.pop(class_number(answer, ("1", "2"), path, line))
        yield Choice(" ".join(story), right, tuple(endings))


def read_commonsenseqa(path: Path) -> Iterator[Choice]:
    """Yield the rows of a CommonsenseQA file: a question, the right answer and the other answers."""
    for line, content in text_lines(path):
        entry = json_object(content, path, line)
        try:
            stem = entry["question"]["stem"]
            choices = entry["question"]["choices"]
            answers = {}
            for choice in choices:
                answers[choice["label"]] = choice["text"]
            right = answers.pop(entry["answerKey"])
        except (KeyError, TypeError) as error:
            raise DataError(
                f"the line is no question of CommonsenseQA with its answer ({type(error).__name__}: {error}); "
                "take `train_rand_split.jsonl` and `dev_rand_split.jsonl`, since the test file has no answers",
                path,
                line,
            ) from error

        if 1 + len(answers) != len(choices):
            raise DataError(
                "two choices have the same label; repair the line", path, line
            )
        for text in (stem, right, *answers.values()):
            require_string(text, "question", path, line)
        yield Choice(stem, right, tuple(answers.values()))


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
            labels.append(class_number(label, _EMOTIONS, path, line))
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
        columns = columns or len(row)
        if len(row) not in (2, 3) or len(row) != columns:
            raise DataError(
                f"the row has {len(row)} columns, but class, title and content were expected (or class and "
                f"text, the same number in all rows); download the file again",
                path,
                line,
            )

        if columns == 3:
            label = 1 + class_number(row[0], _DBPEDIA_CLASSES, path, line)
            yield Labelled(row[-1], label, "native")
        else:
            label = class_number(row[0], ("0", *_DBPEDIA_CLASSES), path, line)
            yield Labelled(row[-1], label, path.name)
