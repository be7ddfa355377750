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
        remarks += untrained_layers(recipe)
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


def untrained_layers(recipe: Recipe) -> Iterator[str]:
    """Yield a warning for each encoder whose pooler has a new layer that no stage trains."""
    trained = {name for stage in recipe.stage for name in recipe.trained(stage)}
    for name, encoder in recipe.encoders.items():
        pooler = encoder.pooler
        if pooler.traits.new_layer and name not in trained:
            yield (
                f"the pooler `{pooler.name}` of the encoder `{name}` begins with a new layer, and no stage "
                "trains it: its vectors are random; let it take trained weights, such as those of the model "
                f"(`sentbed show pooler {pooler.name}`), or choose a pooler without a layer"
            )


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
