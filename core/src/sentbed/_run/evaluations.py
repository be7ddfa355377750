"""The evaluations of a run. Evaluators that are equal read their data only once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import attrs

from sentbed._encoder.encoder import Encoder, pair_name
from sentbed._registry.registry import Plugins
from sentbed.protocols import (
    DrivesEncoder,
    Evaluate,
    Evaluation,
    Evaluator,
    PartProgress,
    Preparation,
    Prepared,
    Recipe,
    Validate,
    VectorStore,
    Watch,
)

Entry: TypeAlias = Evaluate | Validate | Watch
"""A part of a recipe that says what to evaluate: `[[evaluate]]`, or `validate` or `watch` of a stage."""


def _entries(recipe: Recipe) -> Iterator[Entry]:
    """Yield the entries of `[[evaluate]]`, then `validate` and `watch` of each stage."""
    yield from recipe.evaluate
    for stage in recipe.stage:
        if stage.validate is not None:
            yield stage.validate
        yield from stage.watch


@attrs.define(eq=False)
class Evaluations:
    """Evaluates the encoders of a run."""

    plugins: Plugins | None = None
    """Installed plugins, among which the plugin of each evaluator is found; None to load them when needed."""
    _prepared: list[tuple[Evaluator, Preparation]] = attrs.field(
        factory=list, init=False
    )

    def prepare(self, recipe: Recipe) -> list[str]:
        """Read the data of all evaluations of a recipe, and return what is doubtful about them.

        Raises:
            DataError: if the data of one cannot be used.
        """
        remarks: list[str] = []
        for entry in _entries(recipe):
            preparation = self.prepared(entry.evaluator)
            if isinstance(preparation, Prepared):
                remarks += list(preparation.remarks)
        return list(dict.fromkeys(remarks))

    def prepared(self, evaluator: Evaluator) -> Preparation:
        """Return the prepared evaluation of an evaluator; evaluators that are equal have the same one."""
        # A search, not a dictionary: an evaluator with a list or a table in a field has no hash.
        for earlier, preparation in self._prepared:
            if type(earlier) is type(evaluator) and earlier == evaluator:
                return preparation
        preparation = evaluator.prepare()
        self._prepared.append((evaluator, preparation))
        return preparation

    def texts(self, recipe: Recipe) -> dict[str, list[str]]:
        """Return the texts that each encoder of a recipe encodes in the evaluations."""
        texts: dict[str, list[str]] = {}
        for entry in recipe.evaluate:
            first = entry.encoder or recipe.main_encoder
            second = entry.second or first
            preparation = self.prepared(entry.evaluator)
            if isinstance(preparation, DrivesEncoder):
                texts.setdefault(first, []).extend(preparation.texts())
                continue
            for part in preparation.lists.values():
                texts.setdefault(first, []).extend(part.first)
                texts.setdefault(second, []).extend(part.second)
        return texts

    def observe(
        self,
        encoders: Mapping[str, Encoder],
        entry: Validate | Watch,
        trained: str,
    ) -> Evaluation:
        """Evaluate an encoder during a stage, without the vector store.

        It is the encoder that the entry names, or `trained` if it names none.
        """
        name = entry.encoder or trained
        label = pair_name(name, entry.second)
        return self.evaluate(encoders, entry, name, label)

    def evaluate(
        self,
        encoders: Mapping[str, Encoder],
        entry: Entry,
        name: str,
        label: str,
        progress: PartProgress | None = None,
        store: VectorStore | None = None,
    ) -> Evaluation:
        """Evaluate an encoder, or a pair of encoders.

        Args:
            encoders: The encoders of the run, by name.
            entry: Part of the recipe with the evaluator, and the name of the second encoder, if there is one.
            name: Name of the encoder.
            label: Name of the encoder or pair in the scores.
            progress: Called with the progress of the evaluation; None if nobody follows it.
            store: Vector store from which vectors are read, and to which they are written.
        """
        second = None
        if entry.second is not None:
            second = entry.second, encoders[entry.second]
        return encoders[name].evaluate(
            entry.evaluator,
            label,
            second,
            progress,
            store=store,
            plugins=self.plugins,
            prepared=self.prepared(entry.evaluator),
        )
