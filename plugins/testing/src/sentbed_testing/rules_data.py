"""Rules of a data source. They read the data that the tested example names."""

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
"""Number of rows, spread over the data set, that the rule `rows` reads in addition to the last row."""


def columns(subject: Subject) -> Findings:
    """The source knows its columns before it is opened, and the opened data set has the same columns."""
    column_names = subject.ready.columns
    if not _are_distinct_names(column_names):
        yield (
            f"`columns` is {column_names!r}",
            'return a tuple of names, each once, such as `("anchor", "positive")`',
        )
        return

    if unknown := sorted(subject.part.numbers - set(column_names)):
        yield (
            f"`numbers` of its traits has `{unknown[0]}`, which is no column",
            f"choose among {column_names!r}",
        )

    opened = tuple(_open(subject).columns)
    if opened != column_names:
        yield (
            f"`columns` of the source is {column_names!r}, but that of the opened data set is {opened!r}",
            "give both the same names in the same order",
        )


def _are_distinct_names(column_names: object) -> bool:
    """Whether an object is a tuple of distinct strings, at least one, none of them empty."""
    if not isinstance(column_names, tuple) or not column_names:
        return False
    if not all(isinstance(name, str) and name for name in column_names):
        return False
    return len(set(column_names)) == len(column_names)


def _open(subject: Subject) -> Dataset:
    dataset: Dataset = subject.ready.open()
    return dataset


def _row_indices(dataset: Dataset) -> list[int]:
    """Return some row indices. They are not sorted, and the first row occurs twice."""
    last = len(dataset) - 1
    spread = [number * last // ROWS for number in range(ROWS)]
    return [last, *dict.fromkeys(spread), 0]


def _one_by_one(
    dataset: Dataset,
    indices: Sequence[int],
    epoch: int,
) -> dict[str, list[Any]]:
    """Return the columns of some rows. Each row is read by a separate call."""
    columns: dict[str, list[Any]] = {name: [] for name in dataset.columns}
    for index in indices:
        for name, values in dataset.rows([index], epoch).items():
            columns[name].append(values[0])
    return columns


def _differing_column(
    actual: Mapping[str, Sequence[Any]], expected: Mapping[str, Sequence[Any]]
) -> str | None:
    """Return the name of a column whose values differ; None if the values of all columns are equal."""
    for name, values in actual.items():
        if list(values) != list(expected.get(name, ())):
            return name
    return None


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def rows(subject: Subject) -> Findings:
    """`rows` returns one string or number per index, in the order of the indices, and the same in every call."""
    dataset = _open(subject)
    if not len(dataset):
        yield "it has no rows", "give an `example` that names data with some rows"
        return
    indices = _row_indices(dataset)
    for epoch in (0, 1):
        values = dataset.rows(indices, epoch)
        if set(values) != set(dataset.columns):
            yield (
                f"`rows` gives the columns {sorted(values)}",
                f"give exactly the columns {list(dataset.columns)}",
            )
            return

        for name, column_values in values.items():
            faults = list(_value_faults(subject, name, column_values, len(indices)))
            if faults:
                yield from faults
                return

        if column := _differing_column(dataset.rows(indices, epoch), values):
            yield (
                f"a second call for the same rows in epoch {epoch} gives another `{column}`",
                "let random values depend on seed, epoch and row alone",
            )

        if column := _differing_column(_one_by_one(dataset, indices, epoch), values):
            yield (
                f"`{column}` differs between rows read one by one and the same rows read together",
                "give row i for index i, in the order of the indices, whatever the other indices are",
            )

    if not dataset.varies and (
        column := _differing_column(dataset.rows(indices, 1), dataset.rows(indices, 0))
    ):
        yield (
            f"`{column}` changes from epoch to epoch",
            "set `varies = True` on the data set that `open` returns",
        )


def _value_faults(
    subject: Subject,
    name: str,
    values: Sequence[Any],
    count: int,
) -> Findings:
    """Yield a finding if a column does not have `count` values, or has a value of a wrong type."""
    if len(values) != count:
        yield (
            f"for {count} rows `{name}` has {len(values)} values",
            "give one value for each index, also if an index occurs twice",
        )
        return

    is_number_column = name in subject.part.numbers
    for value in values:
        if is_number_column and not _is_finite(value):
            yield (
                f"`{name}` is a column of numbers and has {value!r}",
                "give finite floats",
            )
            return

        if not is_number_column and not isinstance(value, str):
            yield (
                f"`{name}` has {value!r}, which is no string",
                f'give strings, or say `numbers = frozenset({{"{name}"}})`, and give floats',
            )
            return


def texts(subject: Subject) -> Findings:
    """`texts` yields every text of the requested columns, and no other text."""
    dataset = _open(subject)
    for text in dataset.texts():
        if not isinstance(text, str):
            yield (
                f"`texts` gives {text!r}, which is no string",
                "leave out columns of numbers",
            )
            return

    if dataset.varies or not len(dataset):
        if next(iter(dataset.texts()), None) is None:
            yield (
                "`texts` gives nothing",
                "yield the texts of which the rows are made",
            )
        return

    all_texts = set(dataset.texts())
    for name in dataset.columns:
        if name == LABEL or name in subject.part.numbers:
            continue
        row_texts = set(dataset.rows(range(len(dataset)))[name])
        if not all(isinstance(text, str) for text in row_texts):
            # The rule `rows` reports it.
            continue

        column_texts = set(dataset.texts([name]))
        results = {f"`texts([{name!r}])`": column_texts, "`texts()`": all_texts}
        for call, call_texts in results.items():
            if missing := row_texts - call_texts:
                yield (
                    f"{call} leaves out {len(missing)} texts of `{name}`, such as {min(missing)[:40]!r}",
                    "yield every text of the requested columns; None requests all columns",
                )

        if more := column_texts - row_texts:
            yield (
                f"`texts([{name!r}])` gives {len(more)} texts that no row has in this column",
                "yield the texts of the requested columns only",
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
            "hash the content and all that decides the rows, but no time, no address and no Python `hash()`",
        )


def bad_index(subject: Subject) -> Findings:
    """Reading a row after the last one raises an exception."""
    dataset = _open(subject)
    try:
        dataset.rows([len(dataset)])
    except Exception:  # noqa: BLE001 - any exception will do
        return
    yield (
        f"it has {len(dataset)} rows, but index {len(dataset)} is accepted",
        "raise IndexError",
    )


RULES = {
    "columns": columns,
    "rows": rows,
    "texts": texts,
    "fingerprint": fingerprint,
    "bad-index": bad_index,
}
