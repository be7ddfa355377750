"""Training losses for sentbed."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def losses() -> Mapping[str, str]:
    """Return the losses of this distribution."""
    return {
        "info-nce": "sentbed_losses.info_nce:InfoNCE",
        "queue": "sentbed_losses.queue:Queue",
        "momentum": "sentbed_losses.momentum:Momentum",
        "classification": "sentbed_losses.pair_classification:PairClassification",
        "nli-softmax": "sentbed_losses.nli_softmax:NLISoftmax",
        "cosent": "sentbed_losses.cosent:CoSENT",
        "angle": "sentbed_losses.angle:Angle",
        "cosine-mse": "sentbed_losses.cosine_mse:CosineMSE",
        "pearson": "sentbed_losses.pearson:Pearson",
        "matryoshka": "sentbed_losses.matryoshka:Matryoshka",
        "sum": "sentbed_losses.weighted_sum:WeightedSum",
        "spread-out": "sentbed_losses.spread_out:SpreadOut",
        "flops": "sentbed_losses.flops:Flops",
        "distill": "sentbed_losses.distill:Distill",
        "similarity-kl": "sentbed_losses.similarity_kl:SimilarityKL",
        "gist": "sentbed_losses.gist:Gist",
        "margin-mse": "sentbed_losses.margin_mse:MarginMSE",
    }
