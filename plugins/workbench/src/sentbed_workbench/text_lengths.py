"""Lengths of the texts that a stage encodes, determined from a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import attrs
from sentbed.errors import DataError, SentbedError
from sentbed.protocols import EncoderRecipe, Recipe
from sentbed.tools import PromptTokenizer, Sampler

from sentbed_workbench.module_sizes import BackboneSize, Lengths

SAMPLE = 2000
"""Largest number of texts, or of rows of texts, in a sample."""
TOKENS_PER_WORD = 1.3
"""Approximate number of tokens per English word, used if there is no tokenizer."""
SPECIAL_TOKENS = 2
"""Approximate number of special tokens per text."""
FIRST_IDEOGRAM = 0x2E80
"""First code point whose character counts as one token."""


@attrs.frozen
class Texts:
    """What is known about the texts of a stage."""

    lengths: Mapping[str, Lengths] = attrs.field(factory=dict)
    """Column of a stage -> `Lengths` of its text in a row: the sum over the encoder's prompts, as a mean over the
    sampled rows."""
    source: str = ""
    """How the lengths were determined."""
    rows: int | None = None
    """Number of rows of a stage's data; None if it is unknown."""
    batches_an_epoch: int | None = None
    """Number of batches per epoch; None if it is unknown."""
    problem: str = ""
    """Reason why the texts are unknown; empty if they are known."""
    unusable: bool = False
    """Whether the data has a fault with which a run would fail, too."""


def stage_texts(
    recipe: Recipe,
    index: int,
    sizes: Mapping[str, BackboneSize | None],
) -> Texts:
    """Return what is known about the texts of a stage.

    If its data cannot be read, each text is assumed to have `max_length` tokens.
    """
    import numpy as np

    stage = recipe.stage[index]
    towers = recipe.towers(stage)
    longest = {}
    for column, tower in towers.items():
        encoder = recipe.encoders[tower]
        length = stage.max_length or encoder.max_length
        longest[column] = Lengths(1, length, length**2) * len(encoder.prompts)
    unread = Texts(longest, source="taken to be as long as `max_length` allows")
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
    except SentbedError as error:
        is_unusable = isinstance(error, DataError)
        return attrs.evolve(unread, problem=str(error), unusable=is_unusable)

    lengths = {}
    for column, tower in towers.items():
        encoder = attrs.evolve(
            recipe.encoders[tower],
            max_length=stage.max_length or recipe.encoders[tower].max_length,
        )
        lengths[column] = _mean_lengths(
            encoder, sizes[tower], texts[column], stage.normalize_text
        )

    source = f"tokenised, {len(numbers):,} rows"
    if not all(_has_tokenizer(sizes[tower]) for tower in towers.values()):
        source = f"guessed from {len(numbers):,} rows: {TOKENS_PER_WORD} tokens a word"
    return Texts(
        lengths,
        source=source,
        rows=len(data),
        batches_an_epoch=sampler.batches_an_epoch,
    )


def training_texts(recipe: Recipe, name: str) -> Iterator[str]:
    """Yield the texts on which a recipe trains an encoder, except data that must be fetched from the hub."""
    for stage in recipe.stage:
        towers = recipe.towers(stage)
        columns = [column for column, tower in towers.items() if tower == name]
        if columns and not stage.data.fetches:
            yield from stage.data.open().texts(columns)


def _mean_lengths(
    encoder: EncoderRecipe,
    size: BackboneSize | None,
    texts: Sequence[str],
    normalize: bool = True,
) -> Lengths:
    """Return the `Lengths` of a mean text: the sum over the encoder's prompts, since each prompt needs a pass.

    With `normalize`, texts are first changed by the rules that a prompt sets for them.
    """
    total = Lengths()
    for prompt in encoder.prompts:
        encoder_pass = attrs.evolve(encoder, prompt=prompt)
        for length in _lengths(encoder_pass, size, texts, normalize):
            total += Lengths(1, float(length), float(length) ** 2)
    return total * (1 / len(texts))


def _has_tokenizer(size: BackboneSize | None) -> bool:
    return size is not None and size.tokenizer is not None


def _lengths(
    encoder: EncoderRecipe,
    size: BackboneSize | None,
    texts: Sequence[str],
    normalize: bool,
) -> list[int]:
    """Return the number of tokens of each text with its prompt, estimated from words if there is no tokenizer."""
    prompt = encoder.resolved_prompt
    tokenizer = None if size is None else size.tokenizer
    if size is not None and tokenizer is not None and prompt is not None:
        tokenizer = PromptTokenizer(tokenizer, prompt, size.max_length, normalize)
    if tokenizer is not None:
        # If a prompt is too long, the run reports it.
        with suppress(SentbedError):
            return list(tokenizer.encode(texts, encoder.max_length).lengths)
    template = SPECIAL_TOKENS
    if prompt is not None:
        template += _tokens(prompt.apply("", normalize))
    return [min(_tokens(text), encoder.max_length) + template for text in texts]


def _tokens(text: str) -> int:
    """Estimate the number of tokens of a text: one per ideogram, `TOKENS_PER_WORD` per word."""
    ideograms = sum(ord(character) >= FIRST_IDEOGRAM for character in text)
    words = text.split()
    if ideograms:
        words = [word for word in words if word.isascii()]
    return max(1, round(TOKENS_PER_WORD * len(words)) + ideograms)
