"""Converts batches of texts into the inputs of a trainer: tokens, class indices, numbers and frozen vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentbed._component_names import full_name
from sentbed._encoder.batching import WINDOW
from sentbed._encoder.encoder import Encoder
from sentbed._recipe.recipe import Stage
from sentbed._run.batch_sampling import Batch, Sampler
from sentbed._run.context import RunContext
from sentbed.errors import DataError, PluginError, RunError, suggest
from sentbed.protocols import PROGRESS, Columns, Dataset, Tokenizer

LARGEST = float(np.finfo(np.float32).max)
"""Largest absolute value that a number in a column may have: the largest float32."""


class Feed:
    """Converts batches of texts into the columns that the trainer of a stage takes."""

    def __init__(
        self,
        context: RunContext,
        stage: Stage,
        encoders: Mapping[str, Encoder],
    ) -> None:
        self.stage = stage
        # For each column of a trained encoder: the tokenizer, and the maximum length.
        self.trained: dict[str, tuple[Tokenizer, int]] = {}
        # For each column of a frozen encoder: the encoder, and the maximum length.
        self.frozen: dict[str, tuple[Encoder, int]] = {}
        for column, name in context.recipe.towers(stage).items():
            encoder = encoders[name]
            length = length_of(stage, encoder)
            if name in stage.freeze:
                self.frozen[column] = encoder, length
            else:
                self.trained[column] = encoder.tokenizer(stage.normalize_text), length

    def __call__(self, batch: Batch, progress: float) -> Columns:
        """Return the inputs of the trainer for a batch, by column; see `sentbed.protocols.Columns`.

        `progress` is the share of the stage's steps that is done.
        """
        columns: dict[str, Any] = {}
        if self.stage.loss.scheduled:
            columns[PROGRESS] = np.array(progress, np.float32)
        for name, texts in batch.columns.items():
            if name not in self.stage.texts:
                columns[name] = values_of(self.stage, name, texts, batch.rows)
                continue

            for text, row in zip(texts, batch.rows.tolist(), strict=True):
                if not isinstance(text, str):
                    raise PluginError(
                        f"{full_name(self.stage.data)} gives {text!r:.80} as `{name}` of row {row}, expected "
                        "a string"
                    )

            if name in self.frozen:
                encoder, max_length = self.frozen[name]
                columns[name] = encoder.encode(
                    texts,
                    max_length=max_length,
                    normalize=self.stage.normalize_text,
                )
            else:
                tokenizer, max_length = self.trained[name]
                columns[name] = tokenizer.encode(texts, max_length)
            if self.stage.loss.compares_texts:
                columns[f"{name}.id"] = text_numbers(texts)
        return columns


def require_data(stage: Stage) -> None:
    """Raise `DataError` or `RunError` if a stage's data has too few rows, a missing column, or a wrong value."""
    dataset = open_data(stage)
    sampler = sampler_of(stage, dataset, (0, 0))
    value_columns = set(stage.columns_used) - set(stage.texts)
    if not value_columns:
        return
    for start in range(0, len(dataset), WINDOW):
        rows = np.arange(start, min(start + WINDOW, len(dataset)))
        for column, values in sampler.fetch(rows).items():
            if column in value_columns:
                values_of(stage, column, values, rows)


def open_data(stage: Stage) -> Dataset:
    """Open the data of a stage. Raises `RunError` if it has fewer than two rows."""
    dataset = stage.data.open()
    rows = len(dataset)
    if rows < 2:
        count = "1 row" if rows == 1 else f"{rows} rows"
        raise RunError(
            f"the data of stage `{stage.name}` has {count}, a loss over a batch needs at least 2"
        )
    return dataset


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
    loss, classes = stage.loss, list(stage.loss.classes)
    for value, row in zip(values, rows, strict=True):
        if column in loss.numbers:
            if not _is_finite(value):
                raise DataError(
                    f"row {row} of stage `{stage.name}` has {value!r} in the column `{column}`, of which the "
                    f"loss `{loss.name}` takes finite numbers; mend the data, or leave the row out"
                )
        elif value not in classes:
            raise DataError(
                f"row {row} of stage `{stage.name}` has the label {value!r}, which the loss "
                f"`{loss.name}` does not have in `classes`.{suggest(str(value), classes)}"
            )
    if column in loss.numbers:
        return np.array(values, np.float32)
    return np.array([classes.index(name) for name in values], np.int64)


def _is_finite(value: object) -> bool:
    """Whether a value is a number that is finite as float32."""
    if not isinstance(value, Real):
        return False

    try:
        return abs(float(value)) <= LARGEST
    except OverflowError:
        # JSON may have an integer that is larger than any float.
        return False


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
