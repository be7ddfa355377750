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
"""Overhead of one batch, in tokens: 2 to 5 ms on two cores that encode 30,000 tokens per second."""

PREFIX_PAYS = 4
"""Fewest shared leading tokens for which computing them once outweighs the slower attention."""

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
        for rows, batch_vectors in zip(
            plan, encoder.encode_batches(batches), strict=True
        ):
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
    """Return the vectors of the tokens of each text, of this width, in the order of `texts`."""
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
        places = np.argsort(np.concatenate(plan))
        parts.append(RaggedVectors.join(vectors)[places[window.inverse]])
    return RaggedVectors.join(parts)


def _windows(
    texts: Sequence[str], tokenizer: Tokenizer, encoder: PlacedEncoder, max_length: int
) -> Iterator[_Window]:
    """Yield the texts in windows, for an encoder."""
    windows = (
        _Window.of(
            texts[start : start + WINDOW], tokenizer, max_length, encoder.shares_prefix
        )
        for start in range(0, len(texts), WINDOW)
    )
    return _made_ahead(windows) if encoder.asynchronous else windows


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
    """Tokenised distinct texts of a window; `inverse` maps texts to rows, `counts` has texts per row."""

    tokens: TokenIds
    inverse: NDArray[np.int64]
    counts: NDArray[np.int64]

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

    places = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    return list(places), np.fromiter(
        (places[text] for text in texts), np.int64, len(texts)
    )


def _made_ahead(windows: Iterator[_Window]) -> Iterator[_Window]:
    """Yield windows; a thread prepares the next one in the meantime."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "tokenise") as pool:
        coming = pool.submit(next, windows, None)
        while (window := coming.result()) is not None:
            coming = pool.submit(next, windows, None)
            yield window


def shared_prefix_length(
    tokens: TokenIds, shareable: Callable[[NDArray[np.int32]], int] = len
) -> int:
    """Return how many leading tokens all texts share, or 0 if they are too few to pay off.

    With a prompt this is the template before the sentence, including the demonstration; at least one token of
    each text is left. Ids are compared, not strings: a sentence may merge with the template's last character.
    A token that is hidden in one text is not the one that another shows. `shareable` limits the number, given
    the first text; see `Tokenizer`.
    """
    if len(tokens) < 2:
        return 0
    starts = tokens.offsets[:-1]
    longest = min(
        int(tokens.lengths.min()) - 1, shareable(tokens.ids[: tokens.offsets[1]])
    )
    shared = 0
    while shared < longest and _are_alike(tokens, starts + shared):
        shared += 1
    return shared if shared >= PREFIX_PAYS else 0


def _are_alike(tokens: TokenIds, places: NDArray[np.int64]) -> bool:
    """Whether the tokens at these places are one token, hidden in all texts or in none."""
    ids = tokens.ids[places]
    if not (ids == ids[0]).all():
        return False
    if tokens.hidden is None:
        return True
    hidden = tokens.hidden[places]
    return bool((hidden == hidden[0]).all())


def plan_batches(
    lengths: NDArray[np.int64], token_budget: int, batch_cost: int = BATCH_COST
) -> Iterator[NDArray[np.int64]]:
    """Yield the row indices of each batch, longest texts first.

    Neighbouring lengths share a batch only if the padding costs less than another batch: dynamic programming
    over the distinct lengths finds the exact cuts that minimise `padded tokens + batch_cost x batches`. A
    batch holds at most `token_budget` tokens, or one row.
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
