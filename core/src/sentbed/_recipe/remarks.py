"""Remarks on recipes, from components and from core. `sentbed check` prints them in addition to problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from sentbed._document.structuring import parts_in
from sentbed._recipe.component_notes import naming_components
from sentbed._recipe.data_overlap import choosing_on_test_data
from sentbed.errors import Problem, SentbedError
from sentbed.protocols import Component, Recipe


def remarks_of(recipes: Iterable[Recipe]) -> list[Problem]:
    """Return the remarks on recipes and their components, and the errors that a server reports.

    Of several equal components, only one is asked.
    """
    problems: list[Problem] = []
    components: list[Component] = []
    for recipe in recipes:
        remarks = [*untrained_layers(recipe), *choosing_on_test_data(recipe)]
        if reason := recipe.runtime.unavailable():
            # This is not an error, since the recipe may be meant for another machine.
            remarks.append(f"not on this machine: {reason}")
        for path, component in parts_in(recipe):
            if not isinstance(component, Component) or component in components:
                continue
            components.append(component)
            try:
                with naming_components(recipe):
                    remarks += component.remarks()
            except SentbedError as error:
                problems.append(recipe.problem(str(error), path))
        problems += [Problem(remark, level="remark") for remark in remarks]
    return list(dict.fromkeys(problems))


def untrained_layers(recipe: Recipe) -> Iterator[str]:
    """Yield a warning for each encoder whose pooler has a layer with random weights that no stage trains."""
    trained = set(chain.from_iterable(map(recipe.trained, recipe.stage)))
    for name, encoder in recipe.encoders.items():
        pooler = encoder.pooler
        if pooler.new_layer and name not in trained:
            yield (
                f"the pooler `{pooler.name}` of the encoder `{name}` begins with a new layer, and no stage "
                "trains it: its vectors are random; let it take trained weights, such as those of the model "
                f"(`sentbed show pooler {pooler.name}`), or choose a pooler without a layer"
            )
