"""The source `nli`: premises, hypotheses and labels of natural language inference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import ClassVar, Literal

import attrs
from sentbed import DataError
from sentbed.errors import listed
from sentbed_common import Column, InMemoryDataset, require_text

from sentbed_data.columns_and_counts import counts_text
from sentbed_data.table_source_base import TableSource, columns_of_rows

_CLASSES = ("entailment", "neutral", "contradiction")
_NO_LABEL = "-"


@attrs.frozen(kw_only=True)
class Nli(TableSource):
    """Rows of labelled NLI files: SNLI, MultiNLI, OCNLI, XNLI and similar.

    Rows without a gold label (`-`) are skipped.
    """

    name: ClassVar[str] = "nli"
    cites = ("gao2021simcse",)

    build: Literal["triplets", "pairs", "labelled"] = "triplets"
    """Form of the rows.

    `triplets`: one row per premise, with an entailment and a contradiction of the premise, as in Gao et al.
    (2021, section 4). Rows are in the order in which premises first occur. If there are several entailments or
    contradictions, `seed` chooses one. Premises without an entailment or a contradiction are left out.

    `pairs`: each premise with each of its entailments. `labelled`: all rows with premise, hypothesis and label,
    for a loss that classifies.
    """

    premise: str | None = None
    """Column of the premise; default: `sentence1`, `premise`, `text_a` or `sent1`, in upper or lower case."""
    hypothesis: str | None = None
    """Column of the hypothesis; default: `sentence2`, `hypothesis`, `text_b` or `sent2`."""
    label: str | None = None
    """Column of the label; default: `gold_label` or `label`."""

    labels: Mapping[str, Literal["entailment", "neutral", "contradiction", "-"]] = (
        attrs.field(factory=dict)
    )
    """Meaning of the labels in the file, if they are not the words themselves: `{ 0 = "entailment", 1 =
    "neutral", 2 = "contradiction", -1 = "-" }`."""

    seed: int = 0
    """Seed of the choice among several suitable texts for a row; equal seeds give equal choices."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor`, `positive` and, with triplets, `negative`; or `premise`, `hypothesis` and `label`."""
        if self.build == "triplets":
            return ("anchor", "positive", "negative")

        if self.build == "pairs":
            return ("anchor", "positive")

        return ("premise", "hypothesis", "label")

    @property
    def _file_columns(self) -> tuple[Column, ...]:
        return (
            self.premise or ("sentence1", "premise", "text_a", "sent1"),
            self.hypothesis or ("sentence2", "hypothesis", "text_b", "sent2"),
            self.label or ("gold_label", "label"),
        )

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError`, with file and row, if a row is invalid."""
        left_out: Counter[str] = Counter()
        rows: list[tuple[str, ...]] = list(self._labelled(left_out))
        if self.build == "triplets":
            rows = self._triplets(rows, left_out)
        elif self.build == "pairs":
            entailed: list[tuple[str, ...]] = []
            for premise, hypothesis, label in rows:
                if label == "entailment":
                    entailed.append((premise, hypothesis))

            left_out["rows that are no entailment"] = len(rows) - len(entailed)
            rows = entailed

        # The unary plus drops counts of zero.
        left_out = +left_out
        if not rows:
            counts = counts_text(left_out) or "nothing"
            raise DataError(
                f"nothing is left for `build = {self.build!r}`; left out: {counts}; "
                f"expected labels {listed(_CLASSES)}",
                self.path,
            )

        rows = rows[: self.limit]
        texts = columns_of_rows(rows, len(self.columns))
        columns = dict(zip(self.columns, texts, strict=True))
        return InMemoryDataset(columns, left_out)

    def _labelled(self, left_out: Counter[str]) -> Iterator[tuple[str, str, str]]:
        """Yield premise, hypothesis and label of each row with a label, and count the other rows."""
        for file, number, (premise, hypothesis, spelt) in self._rows():
            require_text(premise, "premise", file, number)
            require_text(hypothesis, "hypothesis", file, number)
            label = self.labels.get(str(spelt), spelt)
            if label == _NO_LABEL:
                left_out["rows without gold label"] += 1
            elif label in _CLASSES:
                yield premise, hypothesis, label
            else:
                raise DataError(
                    f"found the label {spelt!r}; expected {listed((*_CLASSES, _NO_LABEL))}; "
                    f'say what it means: `labels = {{ {spelt} = "entailment" }}`',
                    file,
                    number,
                )

    def _triplets(
        self, rows: list[tuple[str, ...]], left_out: Counter[str]
    ) -> list[tuple[str, ...]]:
        """Return premises with an entailment and a contradiction, and count the premises that lack one."""
        premises: dict[str, dict[str, list[str]]] = {}
        for premise, hypothesis, label in rows:
            hypotheses = premises.setdefault(premise, {})
            hypotheses.setdefault(label, []).append(hypothesis)

        chosen: list[tuple[str, ...]] = []
        for premise, hypotheses in premises.items():
            if "entailment" in hypotheses and "contradiction" in hypotheses:
                # The choice for a premise does not depend on other premises and their order.
                random = Random(f"{self.seed} {premise}")
                entailment = random.choice(hypotheses["entailment"])
                contradiction = random.choice(hypotheses["contradiction"])
                chosen.append((premise, entailment, contradiction))

        reason = "premises without entailment or contradiction"
        left_out[reason] = len(premises) - len(chosen)
        return chosen
