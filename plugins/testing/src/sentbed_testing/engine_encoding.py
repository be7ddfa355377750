"""Checks of an engine's encoding against the reference."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sentbed import Encoder
from sentbed.helpers import pad

from sentbed_testing.comparisons import apart, at_most, holds
from sentbed_testing.engine_cases import MAX_LENGTH, Case
from sentbed_testing.engine_pair import EnginePair
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RULE = "encode"
SOME = 8
"""Number of sentences per batch, of 2 to 19 words."""


def check_encode(pair: EnginePair, case: Case, tolerance: float = 1e-5) -> None:
    """Vectors are the reference's, and depend on nothing but their own text.

    All are measured as the largest difference over the largest value of the reference's vectors: with padding
    and without, one row alone, the rows turned round, a short text beside short and beside long ones; and all
    sentences by `Encoder.encode`, which cuts batches and shares prefixes.
    """
    import numpy as np

    mine, theirs = pair.shared(case, pair.engine), pair.shared(case, pair.reference)
    tokens = theirs.tokenizer().encode(SENTENCES, MAX_LENGTH)
    mixed = np.arange(SOME)
    shortest = int(tokens.lengths[mixed].argmin())
    (usual, _), *_ = Counter(tokens.lengths.tolist()).most_common()
    even = np.flatnonzero(tokens.lengths == usual)[:SOME]

    def encode(encoder: Encoder, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return encoder.placed.encode(
            pad(tokens, rows, encoder.backbone.tokenizer.pad_id)
        )

    layouts = {
        "a batch with padding": mixed,
        "a batch without padding": even,
        "one row": mixed[:1],
        "one short row": mixed[[shortest]],
    }
    vectors = {}
    for what, rows in layouts.items():
        vectors[what], expected = encode(mine, rows), encode(theirs, rows)
        shape, kind = vectors[what].shape, vectors[what].dtype
        holds(
            RULE,
            case.id,
            shape == (len(rows), theirs.width) and kind == np.float32,
            f"the vectors of {what} are {kind} {shape}, expected float32 {(len(rows), theirs.width)}",
        )
        then = "compare masks, positions, and eval mode of backbone, pooler and head"
        at_most(
            RULE,
            case.id,
            f"{what} differs from the reference",
            apart(vectors[what], expected),
            tolerance,
            then,
        )

    whole = vectors["a batch with padding"]
    largest = np.abs(whole).max()
    apart_by = {
        "the rows in another order differ": encode(mine, mixed[::-1].copy())[::-1]
        - whole,
        "a row alone differs from itself in a batch": vectors["one row"] - whole[:1],
        "a short row alone differs from itself beside longer ones": vectors[
            "one short row"
        ]
        - whole[[shortest]],
        "a row without padding differs from itself beside longer ones": vectors[
            "a batch without padding"
        ][:1]
        - encode(mine, np.array([even[0], int(tokens.lengths.argmax()), shortest]))[:1],
    }
    for what, difference in apart_by.items():
        then = "a vector may not depend on padding or on other rows of the batch"
        at_most(
            RULE,
            case.id,
            what,
            float(np.abs(difference).max() / largest),
            tolerance,
            then,
        )
    bulk = apart(mine.encode(SENTENCES), theirs.encode(SENTENCES))
    then = "see `shares_prefix`, and batches of many rows"
    at_most(
        RULE,
        case.id,
        "`Encoder.encode` differs from the reference",
        bulk,
        tolerance,
        then,
    )


def check_saved(pair: EnginePair, case: Case, tolerance: float = 1e-5) -> None:
    """What the engine saves loads on either engine with the vectors it had, and its protocol is JSON.

    Vectors of two engines are compared as in `check_encode`, those of one engine to the bit.
    """
    import numpy as np

    rule = "saved"
    mine = pair.shared(case, pair.engine)
    vectors = mine.encode(SENTENCES)
    with TemporaryDirectory() as directory:
        place = Path(directory) / "encoder"
        mine.save(place)
        again = Encoder.build(case.recipe, pair.engine, saved=place)
        theirs = Encoder.build(case.recipe, pair.reference, saved=place)
        again_vectors, their_vectors = again.encode(SENTENCES), theirs.encode(SENTENCES)
    same = np.array_equal(again_vectors, vectors)
    holds(
        rule,
        case.id,
        same,
        "loaded on the same engine, its vectors differ; save the weights as they are",
    )
    then = "write backbone, pooler and head as any other engine reads them"
    what = "loaded on the reference, its vectors differ"
    at_most(rule, case.id, what, apart(their_vectors, vectors), tolerance, then)
    protocol = json.loads(json.dumps(dict(mine.placed.protocol)))
    holds(
        rule,
        case.id,
        protocol == json.loads(json.dumps(dict(again.placed.protocol))),
        f"`protocol` is {dict(again.placed.protocol)} after loading, and was {protocol}",
    )
    same_hash = again.placed.fingerprint() == mine.placed.fingerprint()
    holds(
        rule,
        case.id,
        same_hash,
        "`fingerprint` differs after loading; hash what determines a vector",
    )
