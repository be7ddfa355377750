"""Training losses for sentbed: sentence vectors -> a scalar to minimise."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy

sentbed_api = "2.0"


@hookimpl
def losses() -> Mapping[str, Lazy]:
    """Return the losses of this distribution."""
    return {
        "info-nce": Lazy(
            "sentbed_losses.info_nce:InfoNCE",
            "In-batch softmax over similarities, with hard negatives if the data has them.",
        ),
        "queue": Lazy(
            "sentbed_losses.queue:Queue",
            "`info-nce` with a memory: past positives of a frozen tower are negatives too.",
        ),
        "momentum": Lazy(
            "sentbed_losses.momentum:Momentum",
            "`queue` with positives from a moving average of the trained encoder (MoCo).",
        ),
        "classification": Lazy(
            "sentbed_losses.pair_classification:PairClassification",
            "A linear classifier that tells true pairs from all other pairs of the batch (SentBench's CLS).",
        ),
        "nli-softmax": Lazy(
            "sentbed_losses.nli_softmax:NLISoftmax",
            "A linear classifier of labelled sentence pairs (InferSent, SBERT).",
        ),
    }
