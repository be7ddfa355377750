"""Remarks on recipes, from components and from core. `sentbed check` prints them in addition to problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from sentbed._document.structuring import parts_in
from sentbed._recipe.data_overlap import choosing_by_test_data
from sentbed._recipe.recipe import Recipe, written_path
from sentbed.errors import SentbedError
from sentbed.protocols import Component


def remarks_of(recipes: Iterable[Recipe]) -> tuple[list[str], list[str]]:
    """Return the remarks on recipes and their components, and the problems that components report as errors.

    Of several equal components, only one is asked. A problem names the file, the line and the key of its
    component.
    """
    remarks: list[str] = []
    problems: dict[str, str] = {}
    components: list[Component] = []
    for recipe in recipes:
        remarks += untrained_layers(recipe)
        remarks += choosing_by_test_data(recipe, Path.resolve)
        for path, component in parts_in(recipe):
            if not isinstance(component, Component) or component in components:
                continue
            components.append(component)
            try:
                remarks += list(component.remarks())
            except SentbedError as error:
                message = str(error)
                path_in_file = written_path(recipe.document.data, path)
                problem = recipe.document.problem(message, path_in_file)
                problems.setdefault(message, str(problem))

        if reason := recipe.runtime.unavailable():
            # This is not a problem, since the recipe may be meant for another machine.
            remarks.append(f"not on this machine: {reason}")
    # Several backbones with the same model have the same remarks.
    return list(dict.fromkeys(remarks)), list(problems.values())


def untrained_layers(recipe: Recipe) -> Iterator[str]:
    """Yield a warning for each encoder whose pooler has a layer with random weights that no stage trains."""
    trained = set(chain.from_iterable(map(recipe.trained, recipe.stage)))
    for name, encoder in recipe.encoders.items():
        pooler = encoder.pooler
        if pooler.traits.new_layer and name not in trained:
            yield (
                f"the pooler `{pooler.name}` of the encoder `{name}` begins with a new layer, and no stage "
                "trains it: its vectors are random; let it take trained weights, such as those of the model "
                f"(`sentbed show pooler {pooler.name}`), or choose a pooler without a layer"
            )
