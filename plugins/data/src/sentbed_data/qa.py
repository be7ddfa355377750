"""The source `qa`: questions and their right answers."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
from sentbed import DataError
from sentbed.errors import listed
from sentbed_common import Column, InMemoryDataset, require_text

from sentbed_data.table_source_base import TableSource, columns_of_rows


@attrs.frozen(kw_only=True)
class Qa(TableSource):
    """Questions with their right answers, from tables of answers with labels; for tables without, use `pairs`."""

    name: ClassVar[str] = "qa"

    question: str | None = None
    """Column of the question; default: `question`, `qtext` or `query`, in upper or lower case."""
    answer: str | None = None
    """Column of the answer; default: `answer`, `atext` or `response`."""
    label: str = "label"
    """Column of the answer's label."""
    positive: str = "1"
    """Label of right answers; answers with other labels are wrong."""
    negatives: bool = False
    """Whether rows also have a `negative`: a wrong answer to the same question, chosen by `seed`. Questions
    without a wrong answer are left out."""
    seed: int = 0
    """Seed of the choice among several wrong answers; equal seeds give equal choices."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` (the question) and `positive` (the answer), and `negative` with `negatives = true`."""
        if self.negatives:
            return ("anchor", "positive", "negative")

        return ("anchor", "positive")

    @property
    def _file_columns(self) -> tuple[Column, ...]:
        return (
            self.question or ("question", "qtext", "query"),
            self.answer or ("answer", "atext", "response"),
            self.label,
        )

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError`, with file and row, if a row is invalid."""
        rows: list[tuple[str, ...]] = []
        wrong: dict[str, list[str]] = {}
        labels: set[str] = set()
        for file, number, (question, answer, label) in self._rows():
            require_text(question, "question", file, number)
            require_text(answer, "answer", file, number)
            labels.add(str(label))
            if str(label) == self.positive:
                rows.append((question, answer))
            else:
                wrong.setdefault(question, []).append(answer)

        if not rows:
            raise DataError(
                f"no answer has the label {self.positive!r}, and the labels are {listed(sorted(labels))}; "
                "correct `positive` or `label`",
                self.path,
            )

        reason = "wrong answers"
        missing = sum(map(len, wrong.values()))
        if self.negatives:
            reason = "right answers to questions without a wrong one"
            missing = len(rows)
            rows = self._with_negatives(rows, wrong)
            missing -= len(rows)

        left_out = {}
        if missing:
            left_out = {reason: missing}

        texts = columns_of_rows(rows[: self.limit], len(self.columns))
        return InMemoryDataset(dict(zip(self.columns, texts, strict=True)), left_out)

    def _with_negatives(
        self, pairs: list[tuple[str, ...]], wrong: dict[str, list[str]]
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
