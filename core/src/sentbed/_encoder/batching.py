"""Batching of texts for encoding.

Texts are deduplicated, tokenised in bulk, sorted by length and cut into batches within a token budget such
that padding is low; vectors are returned in input order. Memory is bounded by a window of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import attrs

from sentbed.protocols import PlacedEncoder, RaggedVectors, TokenIds, Tokenizer
from sentbed.protocols.tokens import pad

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW = 65_536
"""Number of texts that are tokenised, sorted and held in memory together."""

BATCH_COST = 128
"""Overhead of a batch, in tokens: 2 to 5 ms on two cores that encode 30,000 tokens per second."""

PREFIX_PAYS = 4
"""Smallest number of shared leading tokens for which computing them once outweighs the slower attention."""

Progress: TypeAlias = Callable[[int], None]
"""Callback that receives the number of texts finished since its last call."""


def encode_into(
    output: NDArray[np.float32],
    texts: Sequence[str],
    tokenizer: Tokenizer,
    encoder: PlacedEncoder,
    max_length: int,
    token_budget: int,
    progress: Progress | None = None,
) -> None:
    """Write one vector per text into `output`, `(len(texts), width)`, in the order of `texts`.

    Repeated texts are encoded once per window of 65,536 texts. `output` may be a memory map.
    """
    import numpy as np

    start = 0
    for window in _windows(texts, tokenizer, encoder, max_length):
        vectors = np.empty((len(window.tokens), output.shape[1]), np.float32)
        plan = _plan(window, encoder, token_budget)
        batches = (pad(window.tokens, rows, tokenizer.pad_id) for rows in plan)
        results = encoder.encode_batches(batches)
        for rows, batch_vectors in zip(plan, results, strict=True):
            vectors[rows] = batch_vectors
            if progress is not None:
                progress(int(window.counts[rows].sum()))
        output[start : start + len(window.inverse)] = vectors[window.inverse]
        start += len(window.inverse)


def encode_tokens(
    width: int,
    texts: Sequence[str],
    tokenizer: Tokenizer,
    encoder: PlacedEncoder,
    max_length: int,
    token_budget: int,
    progress: Progress | None = None,
) -> RaggedVectors:
    """Return the token vectors of each text, with this width, in the order of `texts`."""
    import numpy as np

    parts = [RaggedVectors.of([], width)]
    for window in _windows(texts, tokenizer, encoder, max_length):
        vectors = []
        plan = _plan(window, encoder, token_budget)
        for rows in plan:
            batch = pad(window.tokens, rows, tokenizer.pad_id)
            vectors.append(encoder.encode_tokens(batch))
            if progress is not None:
                progress(int(window.counts[rows].sum()))
        position_of_row = np.argsort(np.concatenate(plan))
        parts.append(RaggedVectors.join(vectors)[position_of_row[window.inverse]])
    return RaggedVectors.join(parts)


def _windows(
    texts: Sequence[str], tokenizer: Tokenizer, encoder: PlacedEncoder, max_length: int
) -> Iterator[_Window]:
    """Return the texts in windows, tokenised for an encoder."""

    def windows() -> Iterator[_Window]:
        shares = encoder.shares_prefix
        for start in range(0, len(texts), WINDOW):
            part = texts[start : start + WINDOW]
            yield _Window.of(part, tokenizer, max_length, shares)

    if encoder.asynchronous:
        return _prepared_ahead(windows())
    return windows()


def _plan(
    window: _Window, encoder: PlacedEncoder, token_budget: int
) -> list[NDArray[np.int64]]:
    """Return the rows of each batch of a window."""
    lengths = window.tokens.lengths
    planned = encoder.plan(lengths)
    if planned is None:
        planned = plan_batches(lengths, token_budget)
    return list(planned)


@attrs.frozen(eq=False)
class _Window:
    """Tokenised distinct texts of a window."""

    tokens: TokenIds
    """One row per distinct text."""
    inverse: NDArray[np.int64]
    """Row of each text."""
    counts: NDArray[np.int64]
    """Number of texts of each row."""

    @classmethod
    def of(
        cls, texts: Sequence[str], tokenizer: Tokenizer, max_length: int, shares: bool
    ) -> _Window:
        import numpy as np

        unique, inverse = distinct_texts(texts)
        tokens = tokenizer.encode(unique, max_length)
        if shares and (shared := shared_prefix_length(tokens, tokenizer.shareable)):
            tokens = tokens.share_prefix(shared)
        tokens = attrs.evolve(tokens, auxiliary=tokenizer.auxiliary(unique, max_length))
        return cls(tokens, inverse, np.bincount(inverse, minlength=len(unique)))


def distinct_texts(texts: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct texts, and the index among them of each text, `(texts,)`."""
    import numpy as np

    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    inverse = np.fromiter(map(rows.__getitem__, texts), np.int64, len(texts))
    return list(rows), inverse


def _prepared_ahead(windows: Iterator[_Window]) -> Iterator[_Window]:
    """Yield windows while a thread prepares the next one."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "tokenise") as pool:
        following = pool.submit(next, windows, None)
        while (window := following.result()) is not None:
            following = pool.submit(next, windows, None)
            yield window


def shared_prefix_length(
    tokens: TokenIds, shareable: Callable[[NDArray[np.int32]], int] = len
) -> int:
    """Return how many leading tokens all texts share, or 0 if they are too few to pay off.

    With a prompt this is the template before the sentence, including demonstrations; at least one token of
    each text is left. Ids are compared, not strings, since the tokenizer may merge the template's last
    character with the sentence. A token is shared only if it is hidden in all texts or in none. `shareable`
    returns an upper limit, given the first text; see `Tokenizer`.
    """
    if len(tokens) < 2:
        return 0
    starts = tokens.offsets[:-1]
    limit = shareable(tokens.ids[: tokens.offsets[1]])
    limit = min(limit, int(tokens.lengths.min()) - 1)
    shared = 0
    while shared < limit and _are_equal(tokens, starts + shared):
        shared += 1
    return shared if shared >= PREFIX_PAYS else 0


def _are_equal(tokens: TokenIds, positions: NDArray[np.int64]) -> bool:
    """Whether the tokens at these positions are equal, and hidden in all texts or in none."""
    ids = tokens.ids[positions]
    if not (ids == ids[0]).all():
        return False
    if tokens.hidden is None:
        return True
    hidden = tokens.hidden[positions]
    return bool((hidden == hidden[0]).all())


def plan_batches(
    lengths: NDArray[np.int64], token_budget: int, batch_cost: int = BATCH_COST
) -> Iterator[NDArray[np.int64]]:
    """Yield the row indices of each batch, longest texts first.

    Dynamic programming over the distinct lengths finds the cuts between batches that minimise
    `padded tokens + batch_cost x batches`. A batch holds at most `token_budget` tokens, or one row.
    """
    import numpy as np

    if len(lengths) == 0:
        return
    order = np.argsort(-lengths, kind="stable")
    distinct, counts = np.unique(lengths, return_counts=True)
    distinct, counts = distinct[::-1], counts[::-1]
    ends = np.concatenate([[0], np.cumsum(counts)])
    best = np.zeros(len(distinct) + 1)
    cut = np.zeros(len(distinct) + 1, np.int64)
    for stop in range(1, len(distinct) + 1):
        rows = ends[stop] - ends[:stop]
        padded = rows * distinct[:stop]
        batches = np.ceil(rows / np.maximum(1, token_budget // distinct[:stop]))
        costs = best[:stop] + padded + batch_cost * batches
        cut[stop] = int(np.argmin(costs))
        best[stop] = costs[cut[stop]]
    cuts = [len(distinct)]
    while cuts[-1] > 0:
        cuts.append(int(cut[cuts[-1]]))
    for first, last in pairwise(reversed(cuts)):
        size = max(1, token_budget // int(distinct[first]))
        rows = order[ends[first] : ends[last]]
        pieces = -(-len(rows) // size)
        yield from np.array_split(rows, pieces)
