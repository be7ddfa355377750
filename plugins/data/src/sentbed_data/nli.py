"""The source `nli`: premises, hypotheses and labels of natural language inference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import ClassVar, Literal

import attrs
from sentbed import DataError
from sentbed_common import InMemoryDataset

from sentbed_data.columns_and_counts import counts_text
from sentbed_data.csv_tsv_jsonl import shortened_list
from sentbed_data.labelled_files import ColumnToFind, LabelledFiles

_CLASSES = ("entailment", "neutral", "contradiction")
_NO_LABEL = "-"


@attrs.frozen(kw_only=True)
class Nli(LabelledFiles):
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

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor`, `positive` and, with triplets, `negative`; or `premise`, `hypothesis` and `label`."""
        if self.build == "triplets":
            return ("anchor", "positive", "negative")

        if self.build == "pairs":
            return ("anchor", "positive")

        return ("premise", "hypothesis", "label")

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError`, with file and line, if a row is invalid."""
        left_out: Counter[str] = Counter()
        rows = list(self._labelled(left_out))
        if self.build == "triplets":
            rows = self._triplets(rows, left_out)
        elif self.build == "pairs":
            entailed = [row for row in rows if row[2] == "entailment"]
            left_out["rows that are no entailment"] = len(rows) - len(entailed)
            rows = entailed

        # The unary plus drops counts of zero.
        left_out = +left_out
        if not rows:
            counts = counts_text(left_out) or "nothing"
            raise DataError(
                f"nothing is left for `build = {self.build!r}`; left out: {counts}; "
                f"expected labels {shortened_list(_CLASSES)}",
                ", ".join(map(str, self._files())),
            )

        # Pairs have fewer columns than `rows`, which have the label too.
        texts = {}
        for number, column in enumerate(self.columns):
            texts[column] = [row[number] for row in rows[: self.limit]]

        return InMemoryDataset(texts, left_out)

    def _labelled(self, left_out: Counter[str]) -> Iterator[tuple[str, str, str]]:
        """Yield premise, hypothesis and label of each row with a label, and count the other rows."""
        premises = ("sentence1", "premise", "text_a", "sent1")
        hypotheses = ("sentence2", "hypothesis", "text_b", "sent2")
        columns = (
            ColumnToFind("premise", self.premise, premises),
            ColumnToFind("hypothesis", self.hypothesis, hypotheses),
            ColumnToFind("label", self.label, ("gold_label", "label"), label=True),
        )
        for row in self._rows(columns):
            premise, hypothesis, spelt = map(str, row.values)
            label = self.labels.get(spelt, spelt)
            if label == _NO_LABEL:
                left_out["rows without gold label"] += 1
            elif label in _CLASSES:
                yield premise, hypothesis, label
            else:
                raise DataError(
                    f"found the label {spelt!r}; expected {shortened_list((*_CLASSES, _NO_LABEL))}; "
                    f'say what it means: `labels = {{ {spelt} = "entailment" }}`',
                    row.file,
                    row.line,
                )

    def _triplets(
        self, rows: list[tuple[str, str, str]], left_out: Counter[str]
    ) -> list[tuple[str, str, str]]:
        """Return premises with an entailment and a contradiction, and count the premises that lack one."""
        premises: dict[str, dict[str, list[str]]] = {}
        for premise, hypothesis, label in rows:
            premises.setdefault(premise, {}).setdefault(label, []).append(hypothesis)

        chosen = []
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
