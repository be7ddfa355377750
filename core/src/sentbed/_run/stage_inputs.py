"""A batch of texts -> what a trainer takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentbed._document.structure import unstructure
from sentbed._encoder.encoder import Encoder
from sentbed._recipe.recipe import Stage
from sentbed._run.context import RunContext
from sentbed._run.frozen_vectors import FrozenColumn, text_numbers
from sentbed._run.sampling import Batch
from sentbed.errors import DataError, suggest
from sentbed.protocols import LABEL, Columns, Dataset, Tokenizer

VECTORS = "vectors"


class Feed:
    """Turns a batch of texts into what a trainer takes."""

    def __init__(
        self, context: RunContext, stage: Stage, encoders: Mapping[str, Encoder], dataset: Dataset
    ) -> None:
        self.stage = stage
        self.trained: dict[str, tuple[Tokenizer, int]] = {}
        self.frozen: dict[str, FrozenColumn] = {}
        for column, tower in context.recipe.towers(stage).items():
            encoder = encoders[tower]
            length = length_of(stage, encoder)
            if tower not in stage.freeze:
                self.trained[column] = encoder.tokenizer(stage.normalize_text), length
                continue
            path = None
            if stage.cache_frozen:
                # Also what `run.source` does not say: a resumed run may have been allowed another recipe.
                parts = (encoder.recipe, context.recipe.runtime, context.recipe.run)
                how = [unstructure(part) for part in parts]
                source = context.source(tower)
                decides = [dataset.fingerprint, source, how, column, length, stage.normalize_text]
                name = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]
                path = context.directory / VECTORS / f"{stage.name}-{column}-{name}.npy"
            self.frozen[column] = FrozenColumn.of(encoder, length, stage.normalize_text, dataset, path)

    def __call__(self, batch: Batch) -> Columns:
        """Return tokens, vectors of frozen encoders and numbers of classes, by column."""
        columns: dict[str, Any] = {}
        for name, texts in batch.columns.items():
            if name == LABEL:
                columns[name] = self._classes(texts, batch)
            elif name in self.frozen:
                columns[name] = self.frozen[name].vectors(batch.rows, texts)
            else:
                tokenizer, max_length = self.trained[name]
                columns[name] = tokenizer.encode(texts, max_length)
            if name != LABEL and self.stage.loss.traits.compares_texts:
                columns[f"{name}.id"] = text_numbers(texts)
        return columns

    def _classes(self, names: Sequence[str], batch: Batch) -> NDArray[np.int64]:
        classes = list(self.stage.loss.traits.classes)
        for name, row in zip(names, batch.rows.tolist(), strict=True):
            if name not in classes:
                raise DataError(
                    f"row {row} of stage `{self.stage.name}` has the label {name!r}, which the loss "
                    f"`{self.stage.loss.name}` does not have in `classes`.{suggest(name, classes)}"
                )
        return np.array([classes.index(name) for name in names], np.int64)


def length_of(stage: Stage, encoder: Encoder) -> int:
    """Return the tokens of a sentence that a stage gives an encoder."""
    return stage.max_length or encoder.recipe.max_length
