"""Converts batches of texts into the inputs of a trainer: tokens, class indices, numbers and frozen vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentbed._encoder.batching import WINDOW
from sentbed._encoder.encoder import Encoder
from sentbed._run.batch_sampling import Batch, Sampler
from sentbed.errors import DataError, suggest
from sentbed.protocols import PROGRESS, Columns, Dataset, Recipe, Stage, Tokenizer

LARGEST = float(np.finfo(np.float32).max)
"""Largest absolute value that a number in a column may have: the largest float32."""


class Feed:
    """Converts batches of texts into the columns that the trainer of a stage takes."""

    def __init__(
        self,
        recipe: Recipe,
        stage: Stage,
        encoders: Mapping[str, Encoder],
    ) -> None:
        self.stage = stage
        self.towers: dict[str, str] = {}
        """Name of the encoder of each column of a trained encoder."""
        self._tokenizers: dict[str, Tokenizer] = {}
        self._frozen: dict[str, Encoder] = {}
        self._max_lengths: dict[str, int] = {}
        for column, name in recipe.towers(stage).items():
            encoder = encoders[name]
            self._max_lengths[column] = length_of(stage, encoder)
            if name in stage.freeze:
                self._frozen[column] = encoder
            else:
                self.towers[column] = name
                self._tokenizers[column] = encoder.tokenizer(stage.normalize_text)

    def __call__(self, batch: Batch, progress: float) -> Columns:
        """Return the inputs of the trainer for a batch, by column; see `sentbed.protocols.Columns`.

        `progress` is the share of the stage's steps that is done.
        """
        stage = self.stage
        columns: dict[str, Any] = {}
        if "progress" in stage.loss.needs:
            columns[PROGRESS] = np.array(progress, np.float32)
        for name, values in batch.columns.items():
            if name not in stage.texts:
                columns[name] = values_of(stage, name, values, batch.rows)
                continue

            max_length = self._max_lengths[name]
            if name in self._frozen:
                columns[name] = self._frozen[name].encode(
                    values,
                    max_length=max_length,
                    normalize=stage.normalize_text,
                )
            else:
                columns[name] = self._tokenizers[name].encode(values, max_length)
            if "text-ids" in stage.loss.needs:
                columns[f"{name}.id"] = text_numbers(values)
        return columns


def require_data(stage: Stage) -> None:
    """Raise `DataError` if a stage's data has too few rows, a missing column, or a wrong value."""
    dataset = stage.data.open()
    sampler = sampler_of(stage, dataset, (0, 0))
    value_columns = set(stage.columns_used) - set(stage.texts)
    if not value_columns:
        return
    for start in range(0, len(dataset), WINDOW):
        rows = np.arange(start, min(start + WINDOW, len(dataset)))
        values = sampler.fetch(rows)
        for column in value_columns:
            values_of(stage, column, values[column], rows)


def sampler_of(
    stage: Stage,
    dataset: Dataset,
    key: Sequence[int],
) -> Sampler:
    """Return the sampler of a stage. Raises `DataError` if a column is missing, or an epoch has no batch."""
    return Sampler(
        dataset,
        stage.columns_used,
        stage.batch_size,
        key,
        distinct=stage.distinct,
    )


def values_of(
    stage: Stage,
    column: str,
    values: Sequence[Any],
    rows: Iterable[int],
) -> NDArray[Any]:
    """Return the values of a column as an array `(rows,)`: numbers as float32, classes as int64 indices.

    Raises:
        DataError: if a number is not finite as float32, or a class is not one of the loss's `classes`.
    """
    loss = stage.loss
    if column in loss.numbers:
        for value, row in zip(values, rows, strict=True):
            is_number = isinstance(value, int | float | np.number)
            if not (is_number and abs(value) <= LARGEST):
                raise DataError(
                    f"row {row} of stage `{stage.name}` has {value!r} in the column `{column}`, of which the "
                    f"loss `{loss.name}` takes finite numbers; mend the data, or leave the row out"
                )
        return np.array(values, np.float32)

    classes = list(loss.classes)
    indices = []
    for value, row in zip(values, rows, strict=True):
        if value not in classes:
            raise DataError(
                f"row {row} of stage `{stage.name}` has the label {value!r}, which the loss "
                f"`{loss.name}` does not have in `classes`.{suggest(str(value), classes)}"
            )
        indices.append(classes.index(value))
    return np.array(indices, np.int64)


def length_of(stage: Stage, encoder: Encoder) -> int:
    """Return the maximum number of tokens of a sentence, for an encoder in a stage."""
    return stage.max_length or encoder.recipe.max_length


def text_numbers(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return a positive hash of each text, `(texts,)`; equal texts have equal numbers."""
    digests = []
    for text in texts:
        content = text.encode(errors="surrogatepass")
        digests.append(hashlib.blake2b(content, digest_size=8).digest())
    hashes = np.frombuffer(b"".join(digests), "<i8")
    positive: NDArray[np.int64] = hashes & np.int64(2**63 - 1)
    return np.maximum(positive, 1)
