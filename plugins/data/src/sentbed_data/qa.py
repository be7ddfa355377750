"""Questions and their answers."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
from sentbed import DataError
from sentbed_common import InMemoryDataset

from sentbed_data.csv_tsv_jsonl import listed
from sentbed_data.labelled_files import ColumnToFind, LabelledFiles, Row
from sentbed_data.readers import collect


@attrs.frozen(kw_only=True)
class Qa(LabelledFiles):
    """Questions and answers: every row, or, in a file with labels, those with a right answer."""

    name: ClassVar[str] = "qa"

    question: str | None = None
    """Column of the question; if not given, `question`, `qtext` or `query`, in any case."""
    answer: str | None = None
    """Column of the answer; if not given, `answer`, `atext` or `response`."""
    label: str | None = None
    """Column of the label of an answer; if not given, `label` if the file has it, and otherwise all
    answers are right."""
    positive: str = "1"
    """Label of right answers; any other label marks a wrong one."""
    negatives: bool = False
    """Whether rows also have a `negative`: a wrong answer to the same question, chosen by `seed`. Questions
    without one are left out. Needs labels."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` (the question) and `positive` (the answer), and `negative` with `negatives = true`."""
        if self.negatives:
            return ("anchor", "positive", "negative")
        return ("anchor", "positive")

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError` with file and line."""
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

        rows: list[tuple[str, ...]] = list(pairs)
        reason, missing = "wrong answers", sum(map(len, wrong.values()))
        if self.negatives:
            rows = self._with_negatives(pairs, wrong)
            reason, missing = (
                "right answers to questions without a wrong one",
                len(pairs) - len(rows),
            )
        if not rows:
            raise DataError(
                f"there is no row left: {len(pairs)} answers have the label {self.positive!r}, "
                f"and the labels are {listed(sorted(labels))}; correct `positive` or `label`",
                ", ".join(map(str, self._files())),
            )
        left_out = {}
        if missing:
            left_out = {reason: missing}

        columns = collect(rows[: self.limit], len(self.columns))
        texts = dict(zip(self.columns, columns, strict=True))
        return InMemoryDataset(texts, left_out)

    def _columns(self) -> tuple[ColumnToFind, ...]:
        return (
            ColumnToFind("question", self.question, ("question", "qtext", "query")),
            ColumnToFind("answer", self.answer, ("answer", "atext", "response")),
            ColumnToFind(
                "label", self.label, ("label",), required=self.negatives, label=True
            ),
        )

    def _texts(self, row: Row) -> tuple[str, str, str]:
        """Return question, answer and label; without a column of labels, every answer is right."""
        question, answer, label = row.values
        if label is None:
            label = self.positive
        return str(question), str(answer), label

    def _with_negatives(
        self, pairs: list[tuple[str, str]], wrong: dict[str, list[str]]
    ) -> list[tuple[str, ...]]:
        """Return the right answers to questions that have a wrong one, each with one of these."""
        right = set(pairs)
        rows: list[tuple[str, ...]] = []
        for question, answer in pairs:
            choice = [
                other
                for other in wrong.get(question, ())
                if (question, other) not in right
            ]
            if choice:
                rows.append(
                    (
                        question,
                        answer,
                        Random(f"{self.seed} {question} {answer}").choice(choice),
                    )
                )
        return rows
