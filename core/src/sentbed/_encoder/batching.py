"""Batching of texts for encoding.

Texts are processed in windows of 65,536, which limits the memory. In each window, texts that occur several times
are encoded once. The texts are tokenised together, sorted by length, and divided into batches with little
padding. Vectors are returned in the order of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

import attrs

from sentbed.errors import SentbedError
from sentbed.protocols import (
    Encoded,
    PlacedEncoder,
    TokenIds,
    Tokenizer,
)
from sentbed.protocols.tokens import pad

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW = 65_536
"""Number of texts that are tokenised, sorted and stored in memory together."""

BATCH_COST = 128
"""Fixed cost of a batch, as the number of tokens that could be encoded in the same time.

The time is about 4 ms if 30,000 tokens per second are encoded.
"""

PREFIX_PAYS = 4
"""Smallest number of tokens of a prefix that is computed only once for the texts that share it.

Sharing a shorter prefix does not save time.
"""

Progress: TypeAlias = Callable[[int], None]
"""Function to call with the number of texts that were encoded since its last call."""


def encode(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    encoder: PlacedEncoder,
    max_length: int,
    token_budget: int,
    progress: Progress | None = None,
    by_token: bool = False,
) -> Encoded:
    """Return the vectors of texts, in their order: float32 `(len(texts), width)`.

    With `by_token`, the encoder computes a vector of each token, and the result is a list of one
    `(tokens, width)` per text.
    """
    import numpy as np

    output: Encoded = []
    if not by_token:
        output = np.empty((len(texts), encoder.width), np.float32)

    start = 0
    for window in _windows(texts, tokenizer, encoder, max_length):
        vectors = _encode_window(
            window, tokenizer.pad_id, encoder, token_budget, progress
        )
        stop = start + len(window.inverse)
        output[start:stop] = vectors
        start = stop
    return output


def _encode_window(
    window: _Window,
    pad_id: int,
    encoder: PlacedEncoder,
    token_budget: int,
    progress: Progress | None,
) -> Encoded:
    """Return the vectors of the texts of a window, in their order."""
    import numpy as np

    lengths = window.tokens.lengths
    planned = encoder.plan(lengths)
    if planned is None:
        planned = plan_batches(lengths, token_budget)
    plan = list(planned)
    # A generator, so that only the batches that are being encoded are in memory.
    batches = (pad(window.tokens, rows, pad_id) for rows in plan)
    results = []
    for rows, vectors in zip(plan, encoder.encode_batches(batches), strict=True):
        results.append(vectors)
        if progress is not None:
            progress(int(window.counts[rows].sum()))

    position_of_row = np.argsort(np.concatenate(plan))
    position_of_text = position_of_row[window.inverse]
    if isinstance(results[0], list):
        by_row = list(chain.from_iterable(results))
        return [by_row[position] for position in position_of_text]
    return np.concatenate(results)[position_of_text]


def _windows(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    encoder: PlacedEncoder,
    max_length: int,
) -> Iterator[_Window]:
    """Yield the windows of the texts, tokenised.

    If the encoder is asynchronous, a thread tokenises each window while the window before it is encoded.
    """

    def windows() -> Iterator[_Window]:
        shares = encoder.shares_prefix
        for start in range(0, len(texts), WINDOW):
            part = texts[start : start + WINDOW]
            yield _Window.of(part, tokenizer, max_length, shares)

    if encoder.asynchronous:
        return _prepared_ahead(windows())
    return windows()


@attrs.frozen(eq=False)
class _Window:
    """The tokens of a window of texts. Each row is a distinct text."""

    tokens: TokenIds
    """Tokens of each row."""
    inverse: NDArray[np.int64]
    """`(texts,)`: row of each text of the window."""
    counts: NDArray[np.int64]
    """`(rows,)`: how often the text of each row occurs in the window."""

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        tokenizer: Tokenizer,
        max_length: int,
        shares: bool,
    ) -> _Window:
        """Tokenise the texts of a window; `shares` says whether the encoder accepts a shared prefix."""
        import numpy as np

        unique, inverse = distinct_texts(texts)
        tokens = tokenizer.encode(unique, max_length)
        if shares:
            length = shared_prefix_length(tokens, tokenizer.shareable)
            if length > 0:
                tokens = tokens.share_prefix(length)
        tokens = attrs.evolve(tokens, auxiliary=tokenizer.auxiliary(unique, max_length))
        return cls(tokens, inverse, np.bincount(inverse, minlength=len(unique)))


def distinct_texts(texts: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct texts, and for each text its index among them, `(texts,)`."""
    import numpy as np

    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    inverse = np.fromiter(map(rows.__getitem__, texts), np.int64, len(texts))
    return list(rows), inverse


def _prepared_ahead(windows: Iterator[_Window]) -> Iterator[_Window]:
    """Yield windows; while the caller uses one, a thread prepares the next."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "tokenise") as pool:
        next_window = pool.submit(next, windows, None)
        while (window := next_window.result()) is not None:
            next_window = pool.submit(next, windows, None)
            yield window


def shared_prefix_length(
    tokens: TokenIds, shareable: Callable[[NDArray[np.int32]], int] = len
) -> int:
    """Return how many leading tokens all texts have in common; 0 if there are fewer than `PREFIX_PAYS`.

    With a prompt, these are the tokens of the template before the sentence, including demonstrations. At least
    one token of each text is not shared. Ids are compared, not strings, since the tokenizer may merge the last
    character of the template with the sentence. A token is shared only if it is hidden from the pooler in all
    texts or in none. `shareable` returns the largest allowed length, given the ids of the first text; see
    `Tokenizer.shareable`.
    """
    if len(tokens) < 2:
        return 0
    starts = tokens.offsets[:-1]
    limit = shareable(tokens.ids[: tokens.offsets[1]])
    limit = min(limit, int(tokens.lengths.min()) - 1)

    length = 0
    while length < limit and _are_equal(tokens, starts + length):
        length += 1
    if length < PREFIX_PAYS:
        return 0
    return length


def _are_equal(tokens: TokenIds, positions: NDArray[np.int64]) -> bool:
    """Whether the tokens at these positions, one in each text, are equal, and hidden in all texts or in none."""
    ids = tokens.ids[positions]
    if not (ids == ids[0]).all():
        return False
    if tokens.hidden is None:
        return True
    hidden = tokens.hidden[positions]
    return bool((hidden == hidden[0]).all())


def plan_batches(
    lengths: NDArray[np.int64],
    token_budget: int,
    batch_cost: int = BATCH_COST,
) -> Iterator[NDArray[np.int64]]:
    """Yield the row indices of each batch; the longest texts come first.

    The sorted texts are cut into groups of similar lengths. Dynamic programming finds the cuts that minimise
    `padded tokens + batch_cost x batches`; a cut is only possible between two lengths. Each group is then
    divided into batches of at most `token_budget` tokens. A longer text is a batch of its own.
    """
    import numpy as np

    if len(lengths) == 0:
        return
    order = np.argsort(-lengths, kind="stable")
    distinct, counts = np.unique(lengths, return_counts=True)
    distinct, counts = distinct[::-1], counts[::-1]
    # The texts with the first i lengths, which are the longest, are rows 0 to ends[i] in `order`.
    ends = np.concatenate([[0], np.cumsum(counts)])

    # best_cost[i]: the smallest cost of the texts with the first i lengths; their last group begins at
    # last_cut[i].
    best_cost = np.zeros(len(distinct) + 1)
    last_cut = np.zeros(len(distinct) + 1, np.int64)
    for stop in range(1, len(distinct) + 1):
        rows = ends[stop] - ends[:stop]
        padded_tokens = rows * distinct[:stop]
        batches = np.ceil(rows / np.maximum(1, token_budget // distinct[:stop]))
        costs = best_cost[:stop] + padded_tokens + batch_cost * batches
        last_cut[stop] = int(np.argmin(costs))
        best_cost[stop] = costs[last_cut[stop]]

    cuts = [len(distinct)]
    while cuts[-1] > 0:
        cuts.append(int(last_cut[cuts[-1]]))
    for first, last in pairwise(reversed(cuts)):
        batch_size = max(1, token_budget // int(distinct[first]))
        rows = order[ends[first] : ends[last]]
        batch_count = -(-len(rows) // batch_size)
        yield from np.array_split(rows, batch_count)


def require_texts(texts: Sequence[object]) -> None:
    """Raise `SentbedError` if `texts` is a single string, or has something else than strings."""
    if isinstance(texts, str):
        raise SentbedError(
            "`encode` takes a list of texts, found one string; put it in a list"
        )
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise SentbedError(f"text {row} is {text!r}, expected a string")
