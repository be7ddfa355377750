"""The contract of a data source, on the data that the tested component names."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest
from sentbed.protocols import LABEL, Dataset, DataSource

from sentbed_testing.component_contract import ComponentContract

ROWS = 20
"""Number of rows, spread over the data set, that are read in addition to the last row."""
BATCH_SIZE = 4
KEY = (3, 0)
"""Seed of a run and index of its stage."""


class DataContract(ComponentContract):
    """Tests of a data source. Its data must have at least one row."""

    component: ClassVar[DataSource]

    @pytest.fixture
    def dataset(self, component: DataSource) -> Dataset:
        """The opened data set."""
        return component.open()

    @pytest.fixture
    def indices(self, dataset: Dataset) -> list[int]:
        """Some row indices. They are not sorted, and the first row occurs twice."""
        assert len(dataset)

        last = len(dataset) - 1
        spread = [number * last // ROWS for number in range(ROWS)]
        return [last, *dict.fromkeys(spread), 0]

    def test_columns(
        self,
        component: DataSource,
        dataset: Dataset,
    ) -> None:
        """The source knows its columns before it is opened, and the opened data set has the same columns."""
        columns = component.columns

        assert isinstance(columns, tuple)
        assert columns
        assert all(isinstance(name, str) and name for name in columns)
        assert len(set(columns)) == len(columns)
        assert component.numbers <= set(columns)
        assert tuple(dataset.columns) == columns

    @pytest.mark.parametrize("epoch", [0, 1])
    def test_values(
        self,
        component: DataSource,
        dataset: Dataset,
        indices: list[int],
        epoch: int,
    ) -> None:
        """`rows` returns a string for each index, or a finite number in a column of numbers."""
        rows = dataset.rows(indices, epoch)

        assert set(rows) == set(dataset.columns)

        for name, values in rows.items():
            assert len(values) == len(indices)
            for value in values:
                if name in component.numbers:
                    assert math.isfinite(value)
                else:
                    assert isinstance(value, str)

    @pytest.mark.parametrize("epoch", [0, 1])
    def test_rows_are_the_same_in_every_call(
        self,
        dataset: Dataset,
        indices: list[int],
        epoch: int,
    ) -> None:
        """A row depends on its index and the epoch alone, not on the call or on other rows."""
        rows = dataset.rows(indices, epoch)

        assert dataset.rows(indices, epoch) == rows

        for place, index in enumerate(indices):
            for name, (value,) in dataset.rows([index], epoch).items():
                assert value == rows[name][place]

    def test_rows_of_another_epoch(
        self,
        dataset: Dataset,
        indices: list[int],
    ) -> None:
        """Rows change from epoch to epoch only if the data set `varies`."""
        if not dataset.varies:
            assert dataset.rows(indices, 1) == dataset.rows(indices, 0)

    def test_texts(
        self,
        component: DataSource,
        dataset: Dataset,
    ) -> None:
        """`texts` yields every text of the columns, and no other text."""
        texts = list(dataset.texts())

        assert texts
        assert all(isinstance(text, str) for text in texts)

        if dataset.varies:
            return

        rows = dataset.rows(range(len(dataset)))
        for name in set(dataset.columns) - component.numbers - {LABEL}:
            assert set(dataset.texts([name])) == set(rows[name])
            assert set(rows[name]) <= set(texts)

    @pytest.mark.parametrize("epoch", [0, 1])
    def test_order(self, dataset: Dataset, epoch: int) -> None:
        """`order` returns indices of rows, the same in every call, and as many in every epoch."""
        order = dataset.order(KEY, epoch)

        assert set(order) <= set(range(len(dataset)))
        assert len(order) == len(dataset.order(KEY, 0))

        np.testing.assert_array_equal(dataset.order(KEY, epoch), order)

    @pytest.mark.parametrize("epoch", [0, 1])
    def test_batches(self, dataset: Dataset, epoch: int) -> None:
        """`batches` returns indices of 1 to `batch_size` rows at a time, the same in every call."""
        batches = dataset.batches(BATCH_SIZE, KEY, epoch)
        again = dataset.batches(BATCH_SIZE, KEY, epoch)

        assert len(batches) == len(dataset.batches(BATCH_SIZE, KEY, 0))

        for batch, same_batch in zip(batches, again, strict=True):
            assert 1 <= len(batch) <= BATCH_SIZE
            assert set(batch) <= set(range(len(dataset)))
            np.testing.assert_array_equal(same_batch, batch)

    def test_fingerprint(
        self,
        component: DataSource,
        dataset: Dataset,
    ) -> None:
        """Data that is opened twice has the same fingerprint and length."""
        assert isinstance(dataset.fingerprint, str)
        assert dataset.fingerprint

        again = component.open()

        assert again.fingerprint == dataset.fingerprint
        assert len(again) == len(dataset)
