"""Rules of a data source, tested on the data that its example names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

from sentbed.protocols import LABEL, Dataset

from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

ROWS = 20
"""Maximum number of rows that are read by index."""


def columns(subject: Subject) -> Findings:
    """The source names its columns before it is opened, and the opened data set has the same."""
    column_names = subject.ready.columns
    names_are_text = isinstance(column_names, tuple) and all(
        isinstance(name, str) and name for name in column_names
    )
    if (
        not names_are_text
        or not column_names
        or len(set(column_names)) < len(column_names)
    ):
        yield (
            f"`columns` is {column_names!r}",
            'return a tuple of names, each once, such as `("anchor", "positive")`',
        )
        return

    if unknown := sorted(subject.part.traits.numbers - set(column_names)):
        yield (
            f"its traits say `numbers` of `{unknown[0]}`, which is no column",
            f"name some of {column_names!r}",
        )

    opened = tuple(_open(subject).columns)
    if opened != column_names:
        yield (
            f"`columns` of the source is {column_names!r}, of what `open` returns {opened!r}",
            "let both say the same, in the same order",
        )


def _open(subject: Subject) -> Dataset:
    dataset: Dataset = subject.ready.open()
    return dataset


def _row_indices(dataset: Dataset) -> list[int]:
    """Return row indices that are not sorted, with a repetition."""
    last = len(dataset) - 1
    spread = [place * last // ROWS for place in range(ROWS)]
    return [last, *dict.fromkeys(spread), 0]


def _one_by_one(
    dataset: Dataset, indices: Sequence[int], epoch: int
) -> dict[str, list[Any]]:
    """Return the columns of some rows, read with one call per row."""
    columns: dict[str, list[Any]] = {name: [] for name in dataset.columns}
    for index in indices:
        for name, values in dataset.rows([index], epoch).items():
            columns[name].append(values[0])
    return columns


def _differing(
    actual: Mapping[str, Sequence[Any]], expected: Mapping[str, Sequence[Any]]
) -> str | None:
    for name, values in actual.items():
        if list(values) != list(expected.get(name, ())):
            return name
    return None


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def rows(subject: Subject) -> Findings:
    """`rows` returns a string or number per index, in the order of the indices, the same every time."""
    dataset = _open(subject)
    if not len(dataset):
        yield "it has no rows", "give an `example` that names data with some rows"
        return
    indices = _row_indices(dataset)
    for epoch in (0, 1):
        values = dataset.rows(indices, epoch)
        if set(values) != set(dataset.columns):
            yield (
                f"`rows` gives {sorted(values)}",
                f"give the columns {list(dataset.columns)}, and no other",
            )
            return
        for name, texts in values.items():
            if len(texts) != len(indices):
                yield (
                    f"for {len(indices)} rows `{name}` has {len(texts)} values",
                    "give one value for each index, also where an index comes twice",
                )
                return
            is_number = name in subject.part.traits.numbers
            if is_number:
                wrong = [number for number in texts if not _is_finite(number)]
            else:
                wrong = [text for text in texts if not isinstance(text, str)]
            if wrong and is_number:
                yield (
                    f"`{name}` is a column of numbers and has {wrong[0]!r}",
                    "give finite floats",
                )
                return
            if wrong:
                yield (
                    f"`{name}` has {wrong[0]!r}, which is no string",
                    f'give strings, or say `DataTraits(numbers=frozenset({{"{name}"}}))`, and give floats',
                )
                return
        if column := _differing(dataset.rows(indices, epoch), values):
            yield (
                f"`{column}` of the same rows in epoch {epoch} is another at the second call",
                "draw from (seed, epoch, row) only",
            )
        if column := _differing(_one_by_one(dataset, indices, epoch), values):
            yield (
                f"`{column}` of rows that are asked for one by one is another than of all together",
                "give row i for index i, whatever else is asked for, in the order of the indices",
            )

    if not dataset.varies and (
        column := _differing(dataset.rows(indices, 1), dataset.rows(indices, 0))
    ):
        yield (
            f"`{column}` changes from epoch to epoch",
            "say so: `varies = True` on what `open` returns",
        )


def texts(subject: Subject) -> Findings:
    """`texts` yields every text of the columns that are asked for, and no other."""
    dataset = _open(subject)
    for text in dataset.texts():
        if not isinstance(text, str):
            yield (
                f"`texts` gives {text!r}, which is no string",
                "leave out columns of numbers",
            )
            return

    if dataset.varies or not len(dataset):
        if not any(True for _ in dataset.texts()):
            yield "`texts` gives nothing", "yield the texts that the rows are made of"
        return
    every = set(dataset.texts())
    for name in dataset.columns:
        if name == LABEL or name in subject.part.traits.numbers:
            continue
        row_texts = set(dataset.rows(range(len(dataset)))[name])
        if not all(isinstance(text, str) for text in row_texts):
            continue  # See the rule `rows`.
        for what, listed in (
            (f"`texts([{name!r}])`", set(dataset.texts([name]))),
            ("`texts()`", every),
        ):
            if missing := row_texts - listed:
                yield (
                    f"{what} leaves out {len(missing)} texts of `{name}`, such as {min(missing)[:40]!r}",
                    "yield every text of the columns that are asked for; of all where it is None",
                )
        if more := set(dataset.texts([name])) - row_texts:
            yield (
                f"`texts([{name!r}])` gives {len(more)} texts that no row has there",
                "yield the texts of these columns only",
            )


def fingerprint(subject: Subject) -> Findings:
    """Two data sets that are opened from the same source have the same fingerprint."""
    dataset, other = _open(subject), _open(subject)
    if not isinstance(dataset.fingerprint, str) or not dataset.fingerprint:
        yield (
            f"`fingerprint` is {dataset.fingerprint!r}",
            "return a hash of the content, in hexadecimal",
        )
    elif dataset.fingerprint != other.fingerprint or len(dataset) != len(other):
        yield (
            "opened twice, the same data has two fingerprints or lengths",
            "hash the content and what decides the rows; no time, no `hash()` of Python, no address",
        )


def bad_index(subject: Subject) -> Findings:
    """Reading a row beyond the last one is an error."""
    dataset = _open(subject)
    try:
        dataset.rows([len(dataset)])
    except Exception:  # noqa: BLE001 - which error it is does not matter
        return
    yield f"row {len(dataset)} of {len(dataset)} is given", "raise IndexError"


RULES = {
    "columns": columns,
    "rows": rows,
    "texts": texts,
    "fingerprint": fingerprint,
    "bad-index": bad_index,
}
