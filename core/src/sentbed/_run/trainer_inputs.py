"""Converts batches of texts into the inputs of a trainer: tokens, class indices, numbers and frozen vectors."""

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
"""Subdirectory of a run directory that has cached vectors of frozen encoders."""

LARGEST = float(np.finfo(np.float32).max)
"""Largest absolute value that a number in a column may have: the largest float32."""


class Feed:
    """Converts batches of texts into the columns that the trainer of a stage takes."""

    def __init__(
        self,
        context: RunContext,
        stage: Stage,
        encoders: Mapping[str, Encoder],
        dataset: Dataset,
    ) -> None:
        self.stage = stage
        # For each column of a trained encoder: the tokenizers of its prompts, and the maximum length.
        self.trained: dict[str, tuple[list[Tokenizer], int]] = {}
        self.frozen: dict[str, FrozenColumn] = {}
        for column, name in context.recipe.towers(stage).items():
            encoder = encoders[name]
            length = length_of(stage, encoder)
            if name not in stage.freeze:
                self.trained[column] = encoder.tokenizers(stage.normalize_text), length
                continue
            path = None
            if stage.cache_frozen:
                path = _cache_file(context, stage, column, encoder, dataset)
            self.frozen[column] = FrozenColumn.of(
                encoder, length, stage.normalize_text, dataset, path
            )

    def __call__(self, batch: Batch, progress: float) -> Columns:
        """Return the inputs of the trainer for a batch, by column; see `sentbed.protocols.Columns`.

        `progress` is the share of the stage's steps that is done.
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
                parts = [
                    tokenizer.encode(texts, max_length) for tokenizer in tokenizers
                ]
                columns[name] = TokenIds.join(parts)
            if self.stage.loss.traits.compares_texts:
                columns[f"{name}.id"] = text_numbers(texts)
        return columns


def _cache_file(
    context: RunContext,
    stage: Stage,
    column: str,
    encoder: Encoder,
    dataset: Dataset,
) -> Path:
    """Return the file for the vectors of a column. Its name has a hash of everything that determines them."""
    name = context.recipe.towers(stage)[column]
    # The key has the settings, since a resumed run may go on with a changed recipe.
    parts = (encoder.recipe, context.recipe.runtime, context.recipe.run)
    key = [
        dataset.fingerprint,
        context.source(name),
        [unstructure(part) for part in parts],
        column,
        length_of(stage, encoder),
        stage.normalize_text,
    ]
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    return context.directory / VECTORS / f"{stage.name}-{column}-{digest}.records"


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
    dataset = returned(stage.data.open(), Dataset, stage.data, "open")
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
        shuffle_buffer=stage.shuffle_buffer,
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
    loss, classes = stage.loss, list(stage.loss.traits.classes)
    for value, row in zip(values, rows, strict=True):
        if column in loss.traits.numbers:
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
    if column in loss.traits.numbers:
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


@attrs.frozen(eq=False)
class FrozenColumn:
    """A column of texts that a frozen encoder encodes. Its vectors have no gradient."""

    encoder: Encoder
    max_length: int
    normalize_text: bool
    """Whether the text rules of the encoder's prompt (`prompt.normalizer`) change each text before it is encoded.

    A rule may add a full stop at the end, for example. This has nothing to do with the length of vectors.
    """
    cache: Path | None = None
    """File with a record for each row of the data: its `vector`, and `sum`, a checksum of text and vector.

    None if vectors are not cached.
    """

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        max_length: int,
        normalize_text: bool,
        dataset: Dataset,
        path: Path | None,
    ) -> FrozenColumn:
        """Return a column. Its vectors are cached in the file `path`; if it is None, they are not cached.

        Raises:
            RunError: if the texts of the data vary from epoch to epoch, or the disk is full.
        """
        if path is not None:
            if dataset.varies:
                message = "`cache_frozen` is on, but the data gives other texts in every epoch; take it out"
                raise RunError(message)
            _allocate(path, len(dataset) * _record(encoder.width).itemsize)
        return cls(encoder, max_length, normalize_text, path)

    def vectors(
        self, rows: NDArray[np.int64], texts: Sequence[str]
    ) -> NDArray[np.float32]:
        """Return the vectors of rows, `(batch, width)`. `texts` has the text of each row."""
        if self.cache is None:
            return self._encode(texts)

        records = np.zeros(len(rows), _record(self.encoder.width))
        _transfer(self.cache, rows, records, "readinto")
        missing = records["sum"] != _sums(texts, records["vector"])
        if missing.any():
            # The whole batch is encoded, since the last bits of a vector may depend on the other texts, and a
            # run that was killed while it wrote must get the same vectors.
            records["vector"][missing] = self._encode(texts)[missing]
            records["sum"] = _sums(texts, records["vector"])
            _transfer(self.cache, rows[missing], records[missing], "write")
        return np.ascontiguousarray(records["vector"])

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode(
            texts, max_length=self.max_length, normalize=self.normalize_text
        )


def text_numbers(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return a positive hash of each text, `(texts,)`; equal texts have equal numbers."""
    digests = [_digest(text.encode(errors="surrogatepass")) for text in texts]
    hashes = np.frombuffer(b"".join(digests), "<i8")
    positive: NDArray[np.int64] = hashes & np.int64(2**63 - 1)
    return np.maximum(positive, 1)


def _digest(content: bytes) -> bytes:
    """Return a hash of 8 bytes."""
    return hashlib.blake2b(content, digest_size=8).digest()


def _record(width: int) -> np.dtype[Any]:
    """Return the type of a record in the cache file."""
    return np.dtype([("sum", "<i8"), ("vector", "<f4", (width,))])


def _sums(texts: Sequence[str], vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return a checksum of each text and its vector, `(texts,)`."""
    digests = []
    for number, vector in zip(text_numbers(texts), vectors, strict=True):
        digests.append(_digest(number.tobytes() + vector.tobytes()))
    return np.frombuffer(b"".join(digests), "<i8")


def _transfer(
    path: Path,
    rows: NDArray[np.int64],
    records: NDArray[Any],
    how: str,
) -> None:
    """Read or write the records of rows in a file; `how` is `readinto` or `write`.

    Raises:
        RunError: if the file cannot be read or written.
    """
    content = records.view(np.uint8).reshape(len(rows), -1)
    try:
        # The file is not mapped into memory: if another process cut it, this process would end.
        with path.open("r+b", buffering=0) as stream:
            for row, record in zip(rows.tolist(), content, strict=True):
                stream.seek(row * records.itemsize)
                getattr(stream, how)(record)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error


def _allocate(path: Path, size: int) -> None:
    """Create a file of zeros with this size, unless it exists. Raises `RunError` if the disk is full."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as stream:
            stream.truncate(size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(stream.fileno(), 0, size)
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
