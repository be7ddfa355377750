"""Estimates of a stage's workload before training: steps, rows, lengths of texts, passes."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import DataError, SentbedError
from sentbed.helpers import plan_batches, reason_of, returned
from sentbed.protocols import Dataset, Evaluator, Preparation, Prepared
from sentbed.tools import EncoderRecipe, PromptTokenizer, Recipe, Sampler, unstructure
from sentbed_common import Cost, Outline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLE = 2000
"""Number of rows whose texts are sampled."""
TRIED = 4
"""Number of batches drawn from the sample."""
TOKENS_A_WORD = 1.3
"""Approximate tokens per English word, used without a tokenizer."""
SPECIAL = 2
"""Approximate number of special tokens per text."""
FIRST_IDEOGRAM = 0x2E80
"""Code point from which each character counts as a token."""
NO_LIMIT = 2**31
LARGE = 500_000_000
"""Bytes of an evaluation's data beyond which a plan does not read it."""


@attrs.frozen(eq=False)
class Texts:
    """Lengths of a stage's texts."""

    rows: int | None
    """Number of rows in the data; None if unknown."""
    batches_an_epoch: int | None
    lengths: Mapping[str, NDArray[np.int64]]
    """Lengths in tokens of sampled texts, `(rows, prompts)`, by column; the same rows in all columns."""
    source: str
    """Source of the lengths."""
    problem: str = ""
    """Why the number of rows is unknown."""
    unusable: bool = False
    """Whether that is because the data cannot be used, which a run would find too."""


@attrs.frozen
class Work:
    """Work of one tower in a step."""

    tokens: float = 0.0
    """Number of tokens, without padding."""
    forward: float = 0.0
    """Floating-point operations of forward passes, including those of gradient caching."""
    backward: float = 0.0
    kept: float = 0.0
    """Maximum bytes kept for the backward pass."""


def sample_text_lengths(
    recipe: Recipe, index: int, outlines: Mapping[str, Outline | None]
) -> Texts:
    """Sample text lengths from a stage's data; assume `max_length` if it cannot be read."""
    import numpy as np

    stage = recipe.stage[index]
    towers = recipe.towers(stage)
    longest = {}
    for column, tower in towers.items():
        encoder = recipe.encoders[tower]
        longest[column] = np.full(
            (1, len(encoder.prompts)), stage.max_length or encoder.max_length
        )

    as_long = "taken to be as long as `max_length` allows"
    if stage.data.traits.fetches:
        return Texts(
            None,
            None,
            longest,
            as_long,
            "the data would have to be fetched from the hub",
        )
    try:
        data = returned(stage.data.open(), Dataset, stage.data, "open")
        sampler = Sampler(
            data,
            stage.columns_used,
            stage.batch_size,
            (recipe.run.seed, index),
            distinct=stage.distinct,
            shuffle_buffer=stage.shuffle_buffer,
        )
        numbers = (
            np.linspace(0, len(data) - 1, min(SAMPLE, len(data)))
            .astype(np.int64)
            .tolist()
        )
        texts = data.rows(numbers)
    except SentbedError as error:
        return Texts(
            None, None, longest, as_long, str(error), isinstance(error, DataError)
        )

    lengths, guessed = {}, False
    for column, tower in towers.items():
        by_prompt = []
        for encoder_pass in _passes_of(recipe.encoders[tower]):
            counted = _count(
                encoder_pass,
                outlines[tower],
                texts[column],
                stage.max_length,
                stage.normalize_text,
            )
            if counted is None:
                guessed = True
                counted = _guess(
                    encoder_pass, texts[column], stage.max_length, stage.normalize_text
                )
            by_prompt.append(counted)
        lengths[column] = np.stack(by_prompt, 1)

    source = f"tokenised, {len(numbers):,} rows"
    if guessed:
        source = f"guessed from {len(numbers):,} rows: {TOKENS_A_WORD} tokens a word"
    return Texts(len(data), sampler.batches_an_epoch, lengths, source)


def _passes_of(encoder: EncoderRecipe) -> list[EncoderRecipe]:
    """Return the encoder under each of its prompts: each is a pass of its own."""
    return [
        attrs.evolve(encoder, prompt=prompt, ensemble="mean")
        for prompt in encoder.prompts
    ]


def _count(
    encoder: EncoderRecipe,
    outline: Outline | None,
    texts: Sequence[str],
    max_length: int | None,
    normalize: bool,
) -> NDArray[np.int64] | None:
    """Return the number of tokens of each text, or None without a tokenizer."""
    if outline is None or outline.tokenizer is None:
        return None
    tokenizer = outline.tokenizer
    prompt = encoder.resolved_prompt
    if prompt is not None:
        tokenizer = PromptTokenizer(tokenizer, prompt, outline.max_length, normalize)
    try:
        return tokenizer.encode(texts, max_length or encoder.max_length).lengths
    except SentbedError:
        # A prompt that is too long is reported by the run, not by the plan.
        return None


def _guess(
    encoder: EncoderRecipe,
    texts: Sequence[str],
    max_length: int | None,
    normalize: bool,
) -> NDArray[np.int64]:
    """Return about how many tokens each text has, by its words."""
    import numpy as np

    most = max_length or encoder.max_length
    tokens: NDArray[np.int64] = np.array(list(map(_tokens, texts)))
    prompt = encoder.resolved_prompt
    if prompt is None:
        return (SPECIAL + tokens).clip(max=most)
    lengths = tokens.clip(max=most)
    around = SPECIAL + _tokens(prompt.apply("", normalize))
    if prompt.template.between is not None:
        # The template has the sentence twice.
        return 2 * lengths + around
    return lengths + around


def _tokens(text: str) -> int:
    """Return about how many tokens a text has: each ideogram is one, a word is more than one."""
    ideograms = sum(ord(character) >= FIRST_IDEOGRAM for character in text)
    words = text.split()
    if ideograms:
        words = list(filter(str.isascii, words))
    return max(1, round(TOKENS_A_WORD * len(words)) + ideograms)


def draw(texts: Texts, rows: int) -> list[dict[str, NDArray[np.int64]]]:
    """Return the lengths in some batches of `rows` rows, by column."""
    import numpy as np

    row_count = len(next(iter(texts.lengths.values())))
    generator = np.random.default_rng(0)
    batches = []
    for _ in range(TRIED):
        chosen = generator.choice(row_count, rows, replace=rows > row_count)
        batches.append(
            {column: lengths[chosen] for column, lengths in texts.lengths.items()}
        )
    return batches


def train(
    outline: Outline,
    batches: Sequence[Mapping[str, NDArray[np.int64]]],
    columns: Sequence[str],
    keys: Sequence[str],
    micro_batch: int | None,
) -> Work:
    """Return the work of a tower in a step: `columns` with gradient, `keys` without."""
    tokens = forward = backward = most_kept = 0.0
    for batch in batches:
        if columns:
            lengths = _lengths(batch, columns)
            passes = _passes(lengths)
            kept = _sum(outline.activations, passes)
            forward_of_columns = _sum(outline.forward, passes)
            texts_in_chunk = math.ceil(
                len(lengths) * (micro_batch or 0) / len(batch[columns[0]])
            )
            if micro_batch is not None and texts_in_chunk < len(lengths):
                forward_of_columns *= 2
                kept = _largest_chunk(outline.activations, lengths, texts_in_chunk)
            tokens += float(lengths.sum())
            forward += forward_of_columns
            backward += _sum(outline.backward, passes)
            most_kept = max(most_kept, kept)
        if keys:
            lengths = _lengths(batch, keys)
            tokens += float(lengths.sum())
            forward += _sum(outline.forward, _passes(lengths))

    count = len(batches)
    return Work(tokens / count, forward / count, backward / count, most_kept)


def _lengths(
    batch: Mapping[str, NDArray[np.int64]], columns: Sequence[str]
) -> NDArray[np.int64]:
    """Return the lengths of all texts in these columns of a batch."""
    import numpy as np

    return np.concatenate([batch[column].ravel() for column in columns])


def encode(
    outline: Outline,
    batches: Sequence[Mapping[str, NDArray[np.int64]]],
    columns: Sequence[str],
    token_budget: int,
) -> Work:
    """Return the work of a frozen tower in a step."""
    tokens = forward = 0.0
    for batch in batches:
        for column in columns:
            for lengths in batch[column].T:
                forward += _sum(outline.forward, _passes(lengths, token_budget))
            tokens += float(batch[column].sum())

    return Work(tokens / len(batches), forward / len(batches))


def _passes(
    lengths: NDArray[np.int64], budget: int = NO_LIMIT
) -> list[tuple[int, int]]:
    """Return (texts, length) of each pass, as batched by an engine."""
    passes = []
    for rows in plan_batches(lengths, budget):
        passes.append((len(rows), int(lengths[rows].max())))
    return passes


def _sum(cost: Cost, passes: Sequence[tuple[int, int]]) -> float:
    total = 0.0
    for texts, length in passes:
        total += cost.of(texts, length)
    return total


def _largest_chunk(cost: Cost, lengths: NDArray[np.int64], texts: int) -> float:
    """Return the cost of the most expensive chunk with up to `texts` texts and their average tokens."""
    budget = max(math.ceil(lengths.sum() * texts / len(lengths)), int(lengths.max()))
    largest = 0.0
    for length in set(lengths.tolist()):
        largest = max(largest, cost.of(min(texts, budget // length), length))
    return largest


@attrs.frozen
class Listed:
    """Texts of an evaluation."""

    lists: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Number of distinct texts of each list, and some of them."""
    problem: str = ""
    """Why the texts are unknown."""
    unusable: bool = False
    """Whether that is because the data cannot be used, which a run would find too."""


def listed(evaluator: Evaluator) -> Listed:
    """Read what an evaluator has encoded, unless it must be fetched."""
    for value in unstructure(evaluator).values():
        if isinstance(value, str) and value.startswith("hub:"):
            return Listed(problem="its data would have to be fetched from the hub")

    try:
        if (size := _size(evaluator)) > LARGE:
            return Listed(
                problem=f"its data of {size / 1e6:,.0f} MB is read when it runs"
            )
        prepared = returned(evaluator.prepare(), Preparation, evaluator, "prepare")
    except (SentbedError, OSError) as error:
        return Listed(problem=reason_of(error), unusable=isinstance(error, DataError))

    if not isinstance(prepared, Prepared):
        return Listed(problem="it drives the encoder itself")
    lists = []
    for texts in prepared.lists.values():
        distinct = sorted(set(texts.both))
        if distinct:
            step = math.ceil(len(distinct) / SAMPLE)
            lists.append((len(distinct), tuple(distinct[::step])))

    return Listed(tuple(lists))


def _size(evaluator: Evaluator) -> int:
    """Return the bytes of the files and directories that an evaluator names or reports to read."""
    places = set(map(str, evaluator.files()))
    for value in unstructure(evaluator).values():
        if isinstance(value, str) and os.path.exists(value):  # noqa: PTH110 - no error for a long text
            places.add(value)

    files: set[Path] = set()
    for path in map(Path, places):
        files.add(path)
        if path.is_dir():
            files.update(path.rglob("*"))

    size = 0
    for file in files:
        if file.is_file():
            size += file.stat().st_size

    return size


def encoded(
    evaluation_texts: Listed,
    encoder: EncoderRecipe,
    outline: Outline,
    token_budget: int,
) -> float:
    """Return the floating-point operations of encoding an evaluation's texts."""
    flops = 0.0
    for encoder_pass, (count, texts) in product(
        _passes_of(encoder), evaluation_texts.lists
    ):
        lengths = _count(encoder_pass, outline, texts, None, True)
        if lengths is None:
            lengths = _guess(encoder_pass, texts, None, True)
        flops += (
            _sum(outline.forward, _passes(lengths, token_budget)) * count / len(texts)
        )
    return flops
