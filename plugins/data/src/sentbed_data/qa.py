"""The source `qa`: questions and their answers."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
from sentbed import DataError
from sentbed_common import InMemoryDataset

from sentbed_data.csv_tsv_jsonl import shortened_list
from sentbed_data.labelled_files import ColumnToFind, LabelledFiles, Row
from sentbed_data.readers import columns_of_rows


@attrs.frozen(kw_only=True)
class Qa(LabelledFiles):
    """Questions and answers: all rows or, in a file with labels, the rows with a right answer."""

    name: ClassVar[str] = "qa"

    question: str | None = None
    """Column of the question; default: `question`, `qtext` or `query`, in upper or lower case."""
    answer: str | None = None
    """Column of the answer; default: `answer`, `atext` or `response`."""
    label: str | None = None
    """Column of the answer's label; default: `label`. If the file has no such column, all answers are right."""
    positive: str = "1"
    """Label of right answers; answers with other labels are wrong."""
    negatives: bool = False
    """Whether rows also have a `negative`: a wrong answer to the same question, chosen by `seed`. Questions
    without a wrong answer are left out. The file must have labels."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` (the question) and `positive` (the answer), and `negative` with `negatives = true`."""
        if self.negatives:
            return ("anchor", "positive", "negative")
        return ("anchor", "positive")

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError`, with file and line, if a row is invalid."""
        pairs: list[tuple[str, str]] = []
        wrong: dict[str, list[str]] = {}
        labels: set[str] = set()
        for row in self._rows(self._columns()):
            question, answer, label = self._texts(row)
            labels.add(label)
            if label == self.positive:
                pairs.append((question, answer))
            else:
                wrong.setdefault(question, []).append(answer)

        rows: list[tuple[str, ...]]
        if self.negatives:
            rows = self._with_negatives(pairs, wrong)
            reason = "right answers to questions without a wrong one"
            missing = len(pairs) - len(rows)
        else:
            rows = list(pairs)
            reason = "wrong answers"
            missing = sum(map(len, wrong.values()))

        if not rows:
            raise DataError(
                f"there is no row left: {len(pairs)} answers have the label {self.positive!r}, "
                f"and the labels are {shortened_list(sorted(labels))}; correct `positive` or `label`",
                ", ".join(map(str, self._files())),
            )

        left_out = {}
        if missing:
            left_out = {reason: missing}

        columns = columns_of_rows(rows[: self.limit], len(self.columns))
        texts = dict(zip(self.columns, columns, strict=True))
        return InMemoryDataset(texts, left_out)

    def _columns(self) -> tuple[ColumnToFind, ...]:
        """Return the columns to find: question, answer and label."""
        return (
            ColumnToFind("question", self.question, ("question", "qtext", "query")),
            ColumnToFind("answer", self.answer, ("answer", "atext", "response")),
            ColumnToFind(
                "label", self.label, ("label",), required=self.negatives, label=True
            ),
        )

    def _texts(self, row: Row) -> tuple[str, str, str]:
        """Return question, answer and label of a row; in a file without labels, the label `positive`."""
        question, answer, label = row.values
        if label is None:
            label = self.positive

        return str(question), str(answer), label

    def _with_negatives(
        self, pairs: list[tuple[str, str]], wrong: dict[str, list[str]]
    ) -> list[tuple[str, ...]]:
        """Return rows of question, right answer and wrong answer, for questions that have a wrong answer."""
        right = set(pairs)
        rows: list[tuple[str, ...]] = []
        for question, answer in pairs:
            negatives = []
            for other in wrong.get(question, ()):
                if (question, other) not in right:
                    negatives.append(other)

            if negatives:
                random = Random(f"{self.seed} {question} {answer}")
                rows.append((question, answer, random.choice(negatives)))

        return rows
