"""The source `qa`: questions and their right answers."""

from __future__ import annotations

from collections import Counter
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

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` (the question) and `positive` (the answer)."""
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
        left_out: Counter[str] = Counter()
        labels: set[str] = set()
        rows = []
        for file, number, (question, answer, label) in self._rows():
            require_text(question, "question", file, number)
            require_text(answer, "answer", file, number)
            labels.add(str(label))
            if str(label) == self.positive:
                rows.append((question, answer))
            else:
                left_out["wrong answers"] += 1

        if not rows:
            raise DataError(
                f"no answer has the label {self.positive!r}, and the labels are {listed(sorted(labels))}; "
                "correct `positive` or `label`",
                self.path,
            )

        rows = rows[: self.limit]
        questions, answers = columns_of_rows(rows, 2)
        return InMemoryDataset({"anchor": questions, "positive": answers}, left_out)
