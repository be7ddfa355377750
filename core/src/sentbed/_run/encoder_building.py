"""Building of the encoders of a recipe, with the texts on which their tokenizers are trained."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import attrs

from sentbed._encoder.encoder import Encoder, engine_of
from sentbed._recipe.recipe import evaluations_of
from sentbed._run.evaluations import Evaluations
from sentbed._seeds import derive
from sentbed.errors import ModelError, RunError, listed
from sentbed.protocols import DrivesEncoder, Engine, Recipe


def build_encoder(recipe: Recipe, name: str | None = None) -> Encoder:
    """Build an encoder of a recipe without training it, and fit its transform.

    `name` is needed if the recipe has several encoders.

    Raises:
        RunError: if the recipe has no encoder with this name.
    """
    name = name or recipe.main_encoder
    if name not in recipe.encoders:
        names = listed(recipe.encoders)
        raise RunError(
            f"the recipe has no encoder `{name}`, it has {names}; name one of them"
        )
    return build_on_engine(recipe, name, engine_of(recipe.runtime)).fit_transform()


def build_encoders(
    recipe: Recipe,
    engine: Engine,
    evaluations: Evaluations | None = None,
) -> dict[str, Encoder]:
    """Build all encoders of a recipe on one engine."""
    return {
        name: build_on_engine(recipe, name, engine, evaluations)
        for name in recipe.encoders
    }


def build_on_engine(
    recipe: Recipe,
    name: str,
    engine: Engine,
    evaluations: Evaluations | None = None,
) -> Encoder:
    """Build one encoder of a recipe.

    Its initial weights do not depend on the encoders that were built before it.
    """
    texts = partial(_tokenizer_texts, recipe, name, evaluations or Evaluations())
    seed = head_seed(recipe, name)
    engine.seed(derive(recipe.run.seed, "encoder", name))
    try:
        return Encoder.build(recipe.encoders[name], engine, texts, head_seed=seed)
    except ModelError as error:
        # The note says where the recipe has the backbone.
        place = recipe.problem("", ("encoders", name, "backbone"))
        if place.file is not None:
            error.add_note(f"that is the backbone{place}")
        raise


def _tokenizer_texts(
    recipe: Recipe,
    name: str,
    evaluations: Evaluations,
) -> Iterator[str]:
    """Yield the texts on which to train the tokenizer of an encoder.

    These are the texts of the columns that the encoder encodes in the stages. If no stage uses the encoder, they
    are the texts of its evaluations; if some of these call the encoder themselves (`DrivesEncoder`), only theirs.
    """
    has_training_texts = False
    for stage in recipe.stage:
        columns = []
        for column, encoder in recipe.towers(stage).items():
            if encoder == name:
                columns.append(column)
        if columns:
            has_training_texts = True
            data = stage.data.open()
            for text in data.texts(columns):
                yield text
    if has_training_texts:
        return

    has_texts = False
    for entry in recipe.evaluate:
        if (entry.encoder or recipe.main_encoder) != name:
            continue
        prepared = evaluations.prepared(entry.evaluator)
        if isinstance(prepared, DrivesEncoder):
            for text in prepared.texts():
                has_texts = True
                yield text
    if has_texts:
        return

    # The data of the other encoders' evaluations may be large, or missing.
    recipe_of_encoder = attrs.evolve(recipe, evaluate=evaluations_of(recipe, name))
    yield from evaluations.texts(recipe_of_encoder).get(name, ())


def head_seed(recipe: Recipe, name: str) -> int:
    """Return the seed with which pooler and head are initialised.

    It is set after the backbone is built, so that the weights of pooler and head do not depend on the random
    numbers that the backbone draws.
    """
    return derive(recipe.run.seed, "encoder", name, "head")
