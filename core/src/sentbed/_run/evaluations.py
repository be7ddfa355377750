"""Evaluations of a run; equal evaluators read their data once, and shared texts are encoded once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeAlias

import attrs

from sentbed._component_faults import returned
from sentbed._encoder.encoder import EncodeBar, Encoder, pair_name
from sentbed._recipe.recipe import Evaluate, Recipe, Validate, Watch
from sentbed._registry.registry import Plugins
from sentbed.protocols import Evaluation, Evaluator, PartProgress, Preparation, Prepared, VectorStore

Entry: TypeAlias = Evaluate | Validate | Watch


@attrs.define(eq=False)
class Evaluations:
    """Evaluates the encoders of a run."""

    plugins: Plugins | None = None
    store: VectorStore | None = None
    """Store for the vectors of the evaluations before and after training."""
    _prepared: list[tuple[Evaluator, Preparation]] = attrs.field(factory=list, init=False)

    def prepare(self, recipe: Recipe) -> None:
        """Read the data of all evaluations of a recipe. Raises `DataError` if any cannot be used."""
        looks = chain.from_iterable((stage.validate, *stage.watch) for stage in recipe.stage)
        for entry in (*recipe.evaluate, *looks):
            if entry is not None:
                self.prepared(entry.with_)

    def prepared(self, evaluator: Evaluator) -> Preparation:
        """Return the preparation of an evaluator, shared with equal evaluators."""
        for one, found in self._prepared:
            if type(one) is type(evaluator) and one == evaluator:
                return found
        found = returned(evaluator.prepare(), Preparation, evaluator, "prepare")
        self._prepared.append((evaluator, found))
        return found

    def bar(self, entries: Iterable[Entry]) -> EncodeBar:
        """Return one progress bar for several evaluations."""
        found = (self.prepared(entry.with_) for entry in entries)
        return EncodeBar(sum(one.size for one in found if isinstance(one, Prepared)))

    def look(self, encoders: Mapping[str, Encoder], entry: Validate | Watch, trained: str) -> Evaluation:
        """Evaluate during a stage, by default the encoder `trained`; no vectors are kept."""
        name = entry.encoder or trained
        return self.evaluate(encoders, entry, name, pair_name(name, entry.second), keep=False)

    def evaluate(
        self,
        encoders: Mapping[str, Encoder],
        entry: Entry,
        name: str,
        label: str,
        progress: PartProgress | None = None,
        bar: EncodeBar | None = None,
        keep: bool = True,
    ) -> Evaluation:
        """Evaluate the encoder `name`, with `entry.second` if given, and report scores as `label`.

        With `keep`, vectors are read from and written to the store.
        """
        second = None if entry.second is None else (entry.second, encoders[entry.second])
        store, prepared = self.store if keep else None, self.prepared(entry.with_)
        return encoders[name].evaluate(
            entry.with_, label, second, progress, store, self.plugins, prepared=prepared, bar=bar
        )
