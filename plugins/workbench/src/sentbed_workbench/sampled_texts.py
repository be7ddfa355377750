"""Lengths of the texts that a stage encodes, determined from a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
from sentbed.errors import SentbedError
from sentbed.protocols import BuiltBackbone, Recipe
from sentbed.tools import PromptTokenizer, sampler_of

SAMPLE = 2000
"""Largest number of rows in a sample."""


@attrs.frozen
class SampledTexts:
    """What is known about the texts of a stage."""

    lengths: Mapping[str, list[float]]
    """Column of a stage -> the mean length of its text in tokens, for each prompt of the column's encoder."""
    rows: int | None = None
    """Number of rows of a stage's data; None if it is unknown."""
    batches_an_epoch: int | None = None
    """Number of batches per epoch; None if it is unknown."""
    problems: tuple[str, ...] = ()
    """Why texts are unknown."""


def sampled_texts(
    recipe: Recipe,
    index: int,
    backbones: Mapping[str, BuiltBackbone],
) -> SampledTexts:
    """Return what is known about the texts of a stage. `backbones` are those of its encoders that could be built.

    Without data, or without a tokenizer, each text is assumed to have `max_length` tokens.
    """
    import numpy as np

    stage = recipe.stage[index]
    towers = recipe.towers(stage)
    lengths: dict[str, list[float]] = {}
    for column, name in towers.items():
        encoder = recipe.encoders[name]
        longest = stage.max_length or encoder.max_length
        lengths[column] = [longest] * len(encoder.prompts)
    if stage.data.fetches:
        problem = "the data would have to be fetched from the hub"
        return SampledTexts(lengths, problems=(problem,))

    problems: tuple[str, ...] = ()
    try:
        data = stage.data.open()
        sampler = sampler_of(stage, data, (recipe.run.seed, index))
        numbers = np.linspace(0, len(data) - 1, min(SAMPLE, len(data)))
        texts = data.rows(numbers.astype(np.int64).tolist())
        for column, name in towers.items():
            if name not in backbones or backbones[name].tokenizer is None:
                problems = (
                    "texts are taken to have `max_length` tokens: a tokenizer is not here",
                )
                continue
            built = backbones[name]
            longest = stage.max_length or recipe.encoders[name].max_length
            for place, prompt in enumerate(recipe.encoders[name].resolved_prompts):
                tokenizer = built.tokenizer
                if prompt is not None:
                    tokenizer = PromptTokenizer(
                        tokenizer, prompt, built.max_length, stage.normalize_text
                    )
                tokens = tokenizer.encode(texts[column], longest)
                lengths[column][place] = float(tokens.lengths.mean())
    except SentbedError as error:
        return SampledTexts(lengths, problems=(str(error),))

    return SampledTexts(lengths, len(data), sampler.batches_an_epoch, problems)


def training_texts(recipe: Recipe, name: str) -> Iterator[str]:
    """Yield the texts on which a recipe trains an encoder, except data that must be fetched from the hub."""
    for stage in recipe.stage:
        towers = recipe.towers(stage)
        columns = [column for column, tower in towers.items() if tower == name]
        if columns and not stage.data.fetches:
            yield from stage.data.open().texts(columns)
