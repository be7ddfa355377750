"""Checks of an engine's vectors and saved encoders against the reference engine."""

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
"""Maximum number of sentences per batch."""


def check_encode(
    pair: EnginePair,
    case: Case,
    tolerance: float = 1e-5,
) -> None:
    """Vectors equal the reference's, and the vector of a text does not depend on other texts.

    The check compares batches with and without padding, single rows, the rows in reverse order, and a short text
    beside long texts. It also compares `Encoder.encode`, which forms batches and shares prefixes. `tolerance` is
    relative to the largest absolute value of the vectors.
    """
    import numpy as np

    compare = Comparison("encode", case.id)
    encoder = pair.shared(case, pair.engine)
    reference = pair.shared(case, pair.reference)
    tokens = reference.tokenizer().encode(SENTENCES, MAX_LENGTH)

    padded_rows = np.arange(ROWS)
    shortest = int(tokens.lengths[padded_rows].argmin())
    longest = int(tokens.lengths.argmax())
    (usual_length, _), *_ = Counter(tokens.lengths.tolist()).most_common()
    even_rows = np.flatnonzero(tokens.lengths == usual_length)[:ROWS]

    def vectors_as_reference(what: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        actual = _encode(encoder, tokens, rows)
        expected = _encode(reference, tokens, rows)
        shape = (len(rows), reference.width)
        _compare_with_reference(compare, what, actual, expected, shape, tolerance)
        return actual

    padded = vectors_as_reference("a batch with padding", padded_rows)
    even = vectors_as_reference("a batch without padding", even_rows)
    single = vectors_as_reference("one row", padded_rows[:1])
    short = vectors_as_reference("one short row", padded_rows[[shortest]])

    reordered = _encode(encoder, tokens, padded_rows[::-1].copy())[::-1]
    beside_longer = np.array([even_rows[0], longest, shortest])
    even_beside_longer = _encode(encoder, tokens, beside_longer)[:1]
    differences = {
        "the rows in another order differ": reordered - padded,
        "a row alone differs from itself in a batch": single - padded[:1],
        "a short row alone differs from itself beside longer ones": (
            short - padded[[shortest]]
        ),
        "a row without padding differs from itself beside longer ones": (
            even[:1] - even_beside_longer
        ),
    }
    advice = "a vector may not depend on padding or on other rows of the batch"
    largest = np.abs(padded).max()
    for what, difference in differences.items():
        figure = float(np.abs(difference).max() / largest)
        compare.at_most(what, figure, tolerance, advice)

    compare.same_vectors(
        "`Encoder.encode` differs from the reference",
        encoder.encode(SENTENCES),
        reference.encode(SENTENCES),
        tolerance,
        "see `shares_prefix`, and batches of many rows",
    )


def _compare_with_reference(
    compare: Comparison,
    what: str,
    actual: NDArray[np.float32],
    expected: NDArray[np.float32],
    shape: tuple[int, int],
    tolerance: float,
) -> None:
    """Require `shape` and the reference's vectors of a batch; `what` describes the batch."""
    compare.require(
        actual.shape == shape and actual.dtype == "float32",
        f"the vectors of {what} are {actual.dtype} {actual.shape}, expected float32 {shape}",
    )
    compare.same_vectors(
        f"{what} differs from the reference",
        actual,
        expected,
        tolerance,
        "compare masks, positions, and eval mode of backbone, pooler and head",
    )


def _encode(
    encoder: Encoder,
    tokens: TokenIds,
    rows: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Return the vectors of some rows of `tokens`, encoded as one batch."""
    batch = pad(tokens, rows, encoder.backbone.tokenizer.pad_id)
    vectors: NDArray[np.float32] = encoder.placed.encode(batch)
    return vectors


def check_saved(
    pair: EnginePair,
    case: Case,
    tolerance: float = 1e-5,
) -> None:
    """A saved encoder gives the same vectors on either engine, and JSON can hold its `PlacedEncoder.protocol`.

    If it is loaded on the same engine, its vectors are equal to the bit. If it is loaded on the reference engine,
    they are compared as in `check_encode`.
    """
    import numpy as np

    compare = Comparison("saved", case.id)
    encoder = pair.shared(case, pair.engine)
    vectors = encoder.encode(SENTENCES)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "encoder"
        encoder.save(path)
        loaded = Encoder.build(case.recipe, pair.engine, saved=path)
        on_reference = Encoder.build(case.recipe, pair.reference, saved=path)
        loaded_vectors = loaded.encode(SENTENCES)
        reference_vectors = on_reference.encode(SENTENCES)

    compare.require(
        np.array_equal(loaded_vectors, vectors),
        "loaded on the same engine, its vectors differ; save the weights as they are",
    )
    compare.same_vectors(
        "loaded on the reference, its vectors differ",
        reference_vectors,
        vectors,
        tolerance,
        "write backbone, pooler and head as any other engine reads them",
    )
    before, after = _protocol(encoder), _protocol(loaded)
    compare.require(
        before == after, f"`protocol` is {after} after loading, and was {before}"
    )
    compare.require(
        loaded.placed.fingerprint() == encoder.placed.fingerprint(),
        "`fingerprint` differs after loading; hash what determines a vector",
    )


def _protocol(encoder: Encoder) -> Any:
    """Return the protocol of an encoder after a round trip through JSON."""
    return json.loads(json.dumps(dict(encoder.placed.protocol)))
