"""Checks of an engine's encoding against the reference."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sentbed import Encoder
from sentbed.helpers import pad
from sentbed.protocols import TokenIds

from sentbed_testing.comparisons import Comparison
from sentbed_testing.engine_cases import MAX_LENGTH, Case
from sentbed_testing.engine_pair import EnginePair
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS = 8
"""Number of sentences per batch, of 2 to 19 words."""


def check_encode(pair: EnginePair, case: Case, tolerance: float = 1e-5) -> None:
    """Vectors are the reference's, and each depends only on its own text.

    Compared are batches with and without padding, single rows, the rows in reverse order, a short text beside
    long ones, and `Encoder.encode`, which forms batches and shares prefixes. `tolerance` is relative to the
    largest value of the reference's vectors.
    """
    import numpy as np

    compare = Comparison("encode", case.id)
    mine, theirs = pair.shared(case, pair.engine), pair.shared(case, pair.reference)
    tokens = theirs.tokenizer().encode(SENTENCES, MAX_LENGTH)
    mixed = np.arange(ROWS)
    shortest = int(tokens.lengths[mixed].argmin())
    (usual, _), *_ = Counter(tokens.lengths.tolist()).most_common()
    even = np.flatnonzero(tokens.lengths == usual)[:ROWS]

    layouts = {
        "a batch with padding": mixed,
        "a batch without padding": even,
        "one row": mixed[:1],
        "one short row": mixed[[shortest]],
    }
    vectors = {}
    for what, rows in layouts.items():
        actual = _encode(mine, tokens, rows)
        expected = _encode(theirs, tokens, rows)
        shape = (len(rows), theirs.width)
        compare.require(
            actual.shape == shape and actual.dtype == np.float32,
            f"the vectors of {what} are {actual.dtype} {actual.shape}, expected float32 {shape}",
        )
        advice = "compare masks, positions, and eval mode of backbone, pooler and head"
        what_differs = f"{what} differs from the reference"
        compare.same_vectors(what_differs, actual, expected, tolerance, advice)
        vectors[what] = actual

    whole = vectors["a batch with padding"]
    turned = _encode(mine, tokens, mixed[::-1].copy())[::-1]
    beside_longer = np.array([even[0], int(tokens.lengths.argmax()), shortest])
    differences = {
        "the rows in another order differ": turned - whole,
        "a row alone differs from itself in a batch": vectors["one row"] - whole[:1],
        "a short row alone differs from itself beside longer ones": (
            vectors["one short row"] - whole[[shortest]]
        ),
        "a row without padding differs from itself beside longer ones": (
            vectors["a batch without padding"][:1]
            - _encode(mine, tokens, beside_longer)[:1]
        ),
    }
    largest = np.abs(whole).max()
    for what, difference in differences.items():
        figure = float(np.abs(difference).max() / largest)
        advice = "a vector may not depend on padding or on other rows of the batch"
        compare.at_most(what, figure, tolerance, advice)

    what = "`Encoder.encode` differs from the reference"
    advice = "see `shares_prefix`, and batches of many rows"
    expected = theirs.encode(SENTENCES)
    compare.same_vectors(what, mine.encode(SENTENCES), expected, tolerance, advice)


def _encode(
    encoder: Encoder, tokens: TokenIds, rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the vectors of these rows, encoded as one batch."""
    batch = pad(tokens, rows, encoder.backbone.tokenizer.pad_id)
    return encoder.placed.encode(batch)


def check_saved(pair: EnginePair, case: Case, tolerance: float = 1e-5) -> None:
    """A saved encoder gives the same vectors on either engine, and its protocol can be written as JSON.

    Vectors of the two engines are compared as in `check_encode`, those of the same engine to the bit.
    """
    import numpy as np

    compare = Comparison("saved", case.id)
    mine = pair.shared(case, pair.engine)
    vectors = mine.encode(SENTENCES)
    with TemporaryDirectory() as directory:
        place = Path(directory) / "encoder"
        mine.save(place)
        again = Encoder.build(case.recipe, pair.engine, saved=place)
        theirs = Encoder.build(case.recipe, pair.reference, saved=place)
        again_vectors, their_vectors = again.encode(SENTENCES), theirs.encode(SENTENCES)

    compare.require(
        np.array_equal(again_vectors, vectors),
        "loaded on the same engine, its vectors differ; save the weights as they are",
    )
    compare.same_vectors(
        "loaded on the reference, its vectors differ",
        their_vectors,
        vectors,
        tolerance,
        "write backbone, pooler and head as any other engine reads them",
    )
    before, after = _protocol(mine), _protocol(again)
    compare.require(
        before == after, f"`protocol` is {after} after loading, and was {before}"
    )
    compare.require(
        again.placed.fingerprint() == mine.placed.fingerprint(),
        "`fingerprint` differs after loading; hash what determines a vector",
    )


def _protocol(encoder: Encoder) -> Any:
    """Return the protocol of an encoder as it is read from JSON."""
    return json.loads(json.dumps(dict(encoder.placed.protocol)))
