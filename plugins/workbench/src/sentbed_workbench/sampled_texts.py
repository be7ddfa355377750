"""Lengths of the texts that a stage encodes, determined from a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import SentbedError
from sentbed.protocols import EncoderRecipe, Recipe
from sentbed.tools import PromptTokenizer, Sampler

from sentbed_workbench.plan_records import EncoderPlan

if TYPE_CHECKING:
    from sentbed_workbench._torch.fake_modules import FakeBackbone

SAMPLE = 2000
"""Largest number of rows in a sample."""
AS_LONG_AS_ALLOWED = "taken to be as long as `max_length` allows"


@attrs.frozen
class SampledTexts:
    """What is known about the texts of a stage."""

    lengths: Mapping[str, Sequence[float]]
    """Column of a stage -> the mean length of its text in tokens, for each prompt of the column's encoder."""
    source: str = AS_LONG_AS_ALLOWED
    """How the lengths were determined."""
    rows: int | None = None
    """Number of rows of a stage's data; None if it is unknown."""
    batches_an_epoch: int | None = None
    """Number of batches per epoch; None if it is unknown."""
    problem: str = ""
    """Reason why the texts are unknown; empty if they are known."""


def sampled_texts(
    recipe: Recipe,
    index: int,
    encoders: Mapping[str, EncoderPlan],
) -> SampledTexts:
    """Return what is known about the texts of a stage.

    Without data, or without a tokenizer, each text is assumed to have `max_length` tokens.
    """
    import numpy as np

    stage = recipe.stage[index]
    towers = recipe.towers(stage)
    lengths: dict[str, Sequence[float]] = {}
    longest: dict[str, int] = {}
    for column, name in towers.items():
        encoder = recipe.encoders[name]
        longest[column] = stage.max_length or encoder.max_length
        lengths[column] = [longest[column]] * len(encoder.prompts)
    unread = SampledTexts(lengths)
    if stage.data.fetches:
        problem = "the data would have to be fetched from the hub"
        return attrs.evolve(unread, problem=problem)

    try:
        data = stage.data.open()
        sampler = Sampler(
            data,
            stage.columns_used,
            stage.batch_size,
            (recipe.run.seed, index),
            distinct=stage.distinct,
        )
        numbers = np.linspace(0, len(data) - 1, min(SAMPLE, len(data)))
        texts = data.rows(numbers.astype(np.int64).tolist())
        source = f"tokenised, {len(numbers):,} rows"
        for column, name in towers.items():
            fake = encoders[name].fake
            if fake is None or fake.built.tokenizer is None:
                source = f"{AS_LONG_AS_ALLOWED}, as the tokenizer is not here"
                continue
            lengths[column] = _mean_lengths(
                recipe.encoders[name],
                fake,
                texts[column],
                longest[column],
                stage.normalize_text,
            )
    except SentbedError as error:
        return attrs.evolve(unread, problem=str(error))

    return SampledTexts(lengths, source, len(data), sampler.batches_an_epoch)


def training_texts(recipe: Recipe, name: str) -> Iterator[str]:
    """Yield the texts on which a recipe trains an encoder, except data that must be fetched from the hub."""
    for stage in recipe.stage:
        towers = recipe.towers(stage)
        columns = [column for column, tower in towers.items() if tower == name]
        if columns and not stage.data.fetches:
            yield from stage.data.open().texts(columns)


def _mean_lengths(
    encoder: EncoderRecipe,
    fake: FakeBackbone,
    texts: Sequence[str],
    max_length: int,
    normalize: bool,
) -> list[float]:
    """Return the mean length of these texts in tokens for each of an encoder's prompts.

    With `normalize`, texts are first changed by the rules that a prompt sets for them.
    """
    means = []
    for prompt in encoder.resolved_prompts:
        tokenizer = fake.built.tokenizer
        if prompt is not None:
            longest = fake.built.max_length
            tokenizer = PromptTokenizer(tokenizer, prompt, longest, normalize)
        means.append(float(tokenizer.encode(texts, max_length).lengths.mean()))
    return means
