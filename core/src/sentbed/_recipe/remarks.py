"""What the components of recipes say for `sentbed check`, besides problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sentbed._component_faults import sentences
from sentbed._recipe.recipe import Recipe
from sentbed.errors import SentbedError
from sentbed.protocols import Component


def remarks_of(recipes: Iterable[Recipe]) -> tuple[list[str], list[str]]:
    """Return the remarks of all components, and what they say cannot work; each component is asked once."""
    remarks: list[str] = []
    problems: list[str] = []
    asked: list[Component] = []
    for recipe in recipes:
        for component in _components(recipe):
            if component in asked:
                continue
            asked.append(component)
            try:
                remarks += sentences(component.remarks(), component, "remarks")
            except SentbedError as error:
                problems.append(str(error))
    # Backbones that differ in other fields say the same of one model.
    return list(dict.fromkeys(remarks)), list(dict.fromkeys(problems))


def _components(recipe: Recipe) -> Iterator[Component]:
    for encoder in recipe.encoders.values():
        yield encoder.backbone
        yield encoder.pooler
    for stage in recipe.stage:
        yield stage.data
        yield stage.loss
        if stage.validate is not None:
            yield stage.validate.with_
    for evaluate in recipe.evaluate:
        yield evaluate.with_
    yield recipe.runtime
