"""Training losses for sentbed."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


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
        "cosent": Lazy(
            "sentbed_losses.cosent:CoSENT",
            "Pairs of texts in the order of their scores: a softmax over all pairs of rows (CoSENT).",
        ),
        "angle": Lazy(
            "sentbed_losses.angle:Angle",
            "`cosent` with AnglE's similarity, for which vectors are read as complex numbers.",
        ),
        "cosine-mse": Lazy(
            "sentbed_losses.cosine_mse:CosineMSE",
            "Squared difference of a pair's cosine and its score, averaged over the rows.",
        ),
        "pearson": Lazy(
            "sentbed_losses.pearson:Pearson",
            "1 - Pearson's correlation of the cosines and scores of a batch (Pcc-tuning).",
        ),
        "matryoshka": Lazy(
            "sentbed_losses.matryoshka:Matryoshka",
            "Another loss on the first d components of every vector, summed over several d.",
        ),
        "sum": Lazy(
            "sentbed_losses.weighted_sum:WeightedSum",
            "A weighted sum of losses over the same batch.",
        ),
        "spread-out": Lazy(
            "sentbed_losses.spread_out:SpreadOut",
            "A regulariser that spreads the vectors of a batch over the sphere, for use in a `sum`.",
        ),
        "flops": Lazy(
            "sentbed_losses.flops:Flops",
            "Another loss, and a regulariser that makes vectors sparse: FLOPS of their dot products (SPLADE).",
        ),
        "distill": Lazy(
            "sentbed_losses.distill:Distill",
            "The distance of each vector from a teacher's vector of the same text.",
        ),
        "similarity-kl": Lazy(
            "sentbed_losses.similarity_kl:SimilarityKL",
            "The divergence of the similarities of a batch from a teacher's.",
        ),
        "margin-mse": Lazy(
            "sentbed_losses.margin_mse:MarginMSE",
            "The squared difference of a row's margin and the margin that a teacher gave it.",
        ),
        "gist": Lazy(
            "sentbed_losses.gist:Gist",
            "InfoNCE whose false negatives a teacher finds (GISTEmbed).",
        ),
    }
