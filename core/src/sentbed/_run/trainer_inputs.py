"""Conversion of batches of texts into a trainer's inputs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from sentbed._component_faults import fault, returned
from sentbed._document.structuring import unstructure
from sentbed._encoder.batching import WINDOW
from sentbed._encoder.encoder import Encoder
from sentbed._files import cannot_write
from sentbed._recipe.recipe import Stage
from sentbed._run.batch_sampling import Batch, Sampler
from sentbed._run.context import RunContext
from sentbed.errors import DataError, RunError, suggest
from sentbed.protocols import PROGRESS, Columns, Dataset, TokenIds, Tokenizer

VECTORS = "vectors"
"""Directory of cached vectors of frozen encoders, in the directory of the run."""
LARGEST = float(np.finfo(np.float32).max)
"""Largest number that a column of numbers may have."""


class Feed:
    """Converts a batch of texts into the columns that a trainer takes."""

    def __init__(
        self,
        context: RunContext,
        stage: Stage,
        encoders: Mapping[str, Encoder],
        dataset: Dataset,
    ) -> None:
        self.stage = stage
        self.trained: dict[str, tuple[list[Tokenizer], int]] = {}
        self.frozen: dict[str, FrozenColumn] = {}
        for column, tower in context.recipe.towers(stage).items():
            encoder = encoders[tower]
            length = length_of(stage, encoder)
            if tower not in stage.freeze:
                self.trained[column] = encoder.tokenizers(stage.normalize_text), length
                continue
            path = None
            if stage.cache_frozen:
                path = _cache_file(context, stage, column, encoder, dataset)
            self.frozen[column] = FrozenColumn.of(
                encoder, length, stage.normalize_text, dataset, path
            )

    def __call__(self, batch: Batch, progress: float) -> Columns:
        """Return tokens, vectors of frozen encoders, class indices and numbers, by column.

        `progress` is the share of the stage's steps that are done.
        """
        columns: dict[str, Any] = {}
        if self.stage.loss.traits.scheduled:
            columns[PROGRESS] = np.array(progress, np.float32)
        for name, texts in batch.columns.items():
            if name not in self.stage.texts:
                columns[name] = values_of(self.stage, name, texts, batch.rows)
                continue
            for text, row in zip(texts, batch.rows.tolist(), strict=True):
                if not isinstance(text, str):
                    wrong = f"opened data that gives {text!r:.80} as `{name}` of row {row}, expected a string"
                    raise fault(self.stage.data, "open", wrong)
            if name in self.frozen:
                columns[name] = self.frozen[name].vectors(batch.rows, texts)
            else:
                tokenizers, max_length = self.trained[name]
                columns[name] = TokenIds.join(
                    tokenizer.encode(texts, max_length) for tokenizer in tokenizers
                )
            if self.stage.loss.traits.compares_texts:
                columns[f"{name}.id"] = text_numbers(texts)
        return columns


def _cache_file(
    context: RunContext, stage: Stage, column: str, encoder: Encoder, dataset: Dataset
) -> Path:
    """Return the file for a column's vectors; its name has a hash of everything that determines them."""
    tower = context.recipe.towers(stage)[column]
    # The settings are part of the key, since a resumed run may have been allowed a changed recipe.
    parts = (encoder.recipe, context.recipe.runtime, context.recipe.run)
    key = [
        dataset.fingerprint,
        context.source(tower),
        [unstructure(part) for part in parts],
        column,
        length_of(stage, encoder),
        stage.normalize_text,
    ]
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    return context.directory / VECTORS / f"{stage.name}-{column}-{digest}.records"


def require_data(stage: Stage) -> None:
    """Raise `DataError` or `RunError` if a stage's data lacks rows or columns, or has an unusable value."""
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
    """Open the data of a stage. Raises `RunError` if it has too few rows for a loss."""
    dataset = returned(stage.data.open(), Dataset, stage.data, "open")
    if (rows := len(dataset)) < 2:
        count = "1 row" if rows == 1 else f"{rows} rows"
        raise RunError(
            f"the data of stage `{stage.name}` has {count}, a loss over a batch needs at least 2"
        )
    return dataset


def sampler_of(stage: Stage, dataset: Dataset, key: Sequence[int]) -> Sampler:
    """Return the sampler of a stage. Raises `DataError` if the data lacks a column, or gives no batch."""
    options: dict[str, Any] = {
        "distinct": stage.distinct,
        "shuffle_buffer": stage.shuffle_buffer,
    }
    return Sampler(dataset, stage.columns_used, stage.batch_size, key, **options)


def values_of(
    stage: Stage, column: str, values: Sequence[Any], rows: Iterable[int]
) -> NDArray[Any]:
    """Return class indices, int64 `(rows,)`, or numbers, float32 `(rows,)`.

    Raises:
        DataError: if a value is not a class of the loss, or not a finite number.
    """
    loss, classes = stage.loss, list(stage.loss.traits.classes)
    for value, row in zip(values, rows, strict=True):
        if column in loss.traits.numbers:
            if not (isinstance(value, Real) and abs(float(value)) <= LARGEST):
                raise DataError(
                    f"row {row} of stage `{stage.name}` has {value!r} in the column `{column}`, of which the "
                    f"loss `{loss.name}` takes finite numbers; mend the data, or leave the row out"
                )
        elif value not in classes:
            raise DataError(
                f"row {row} of stage `{stage.name}` has the label {value!r}, which the loss "
                f"`{loss.name}` does not have in `classes`.{suggest(str(value), classes)}"
            )
    if column in loss.traits.numbers:
        return np.array(values, np.float32)
    return np.array([classes.index(name) for name in values], np.int64)


def length_of(stage: Stage, encoder: Encoder) -> int:
    """Return the maximum number of tokens per sentence of an encoder in a stage."""
    return stage.max_length or encoder.recipe.max_length


@attrs.frozen(eq=False)
class FrozenColumn:
    """Column of a data set encoded by a frozen encoder, without gradient."""

    encoder: Encoder
    max_length: int
    normalize: bool
    cache: Path | None = None
    """File with one record per row of the data: `vector`, and `sum`, a checksum of text and vector."""

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        max_length: int,
        normalize: bool,
        dataset: Dataset,
        path: Path | None,
    ) -> FrozenColumn:
        """Return the column; with `path`, vectors are cached in that file."""
        if path is not None:
            if dataset.varies:
                message = "`cache_frozen` is on, but the data gives other texts in every epoch; take it out"
                raise RunError(message)
            _allocate(path, len(dataset) * _record(encoder.width).itemsize)
        return cls(encoder, max_length, normalize, path)

    def vectors(
        self, rows: NDArray[np.int64], texts: Sequence[str]
    ) -> NDArray[np.float32]:
        """Return the vectors of these rows, whose texts are `texts`, `(batch, width)`."""
        if self.cache is None:
            return self._encode(texts)
        records = np.zeros(len(rows), _record(self.encoder.width))
        _transfer(self.cache, rows, records, "readinto")
        missing = records["sum"] != _sums(texts, records["vector"])
        if missing.any():
            # Encode the whole batch: the last bits of a vector may depend on the other texts, and a run that
            # was killed while writing must get the same vectors.
            records["vector"][missing] = self._encode(texts)[missing]
            records["sum"] = _sums(texts, records["vector"])
            _transfer(self.cache, rows[missing], records[missing], "write")
        return np.ascontiguousarray(records["vector"])

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode(
            texts, max_length=self.max_length, normalize=self.normalize
        )


def text_numbers(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return a positive hash of each text, `(texts,)`; equal texts have equal numbers."""
    digests = [_digest(text.encode(errors="surrogatepass")) for text in texts]
    hashes = np.frombuffer(b"".join(digests), "<i8")
    positive: NDArray[np.int64] = hashes & np.int64(2**63 - 1)
    return np.maximum(positive, 1)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()


def _record(width: int) -> np.dtype[Any]:
    return np.dtype([("sum", "<i8"), ("vector", "<f4", (width,))])


def _sums(texts: Sequence[str], vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return a checksum of each text and its vector, `(texts,)`."""
    digests = []
    for number, vector in zip(text_numbers(texts), vectors, strict=True):
        digests.append(_digest(number.tobytes() + vector.tobytes()))
    return np.frombuffer(b"".join(digests), "<i8")


def _transfer(
    path: Path, rows: NDArray[np.int64], records: NDArray[Any], how: str
) -> None:
    """Read or write the records of some rows. Raises `RunError` if the system refuses."""
    content = records.view(np.uint8).reshape(len(rows), -1)
    try:
        # Not a memory map: the process would end if another one cut the file.
        with path.open("r+b", buffering=0) as stream:
            for row, record in zip(rows.tolist(), content, strict=True):
                stream.seek(row * records.itemsize)
                getattr(stream, how)(record)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error


def _allocate(path: Path, size: int) -> None:
    """Create a file of zeros, unless it is there. Raises `RunError` if the disk is full."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as stream:
            stream.truncate(size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(stream.fileno(), 0, size)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
