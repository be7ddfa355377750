"""Poolers and prompts for sentbed, similarities and transforms of the vectors of poolers."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def poolers() -> Mapping[str, str]:
    """Return the poolers of this distribution."""
    return {
        "first": "sentbed_poolers.first:First",
        "cls-mlp": "sentbed_poolers.cls_mlp:ClsMLP",
        "mean": "sentbed_poolers.mean:Mean",
        "max": "sentbed_poolers.max:Max",
        "mean-first-last": "sentbed_poolers.mean_first_last:MeanFirstLast",
        "weighted-mean": "sentbed_poolers.weighted_mean:WeightedMean",
        "last": "sentbed_poolers.last:Last",
        "decoder": "sentbed_poolers.decoder:Decoder",
        "mask": "sentbed_poolers.mask:Mask",
        "mask-mlp": "sentbed_poolers.mask_mlp:MaskMLP",
        "prompt": "sentbed_poolers.prompt:Prompt",
        "prompt-eol": "sentbed_poolers.prompt_eol:PromptEOL",
        "splade": "sentbed_poolers.splade:Splade",
        "tokens": "sentbed_poolers.tokens:Tokens",
    }


@hookimpl
def prompts() -> Mapping[str, str]:
    """Return the prompts of this distribution."""
    return {"template": "sentbed_poolers.template_prompt:TemplatePrompt"}


@hookimpl
def similarities() -> Mapping[str, str]:
    """Return the similarities of this distribution."""
    return {
        "cosine": "sentbed_poolers.cosine:Cosine",
        "dot": "sentbed_poolers.dot:Dot",
        "euclidean": "sentbed_poolers.euclidean:Euclidean",
        "manhattan": "sentbed_poolers.manhattan:Manhattan",
        "maxsim": "sentbed_poolers.maxsim:MaxSim",
    }


@hookimpl
def transforms() -> Mapping[str, str]:
    """Return the transforms of this distribution."""
    return {
        "embed-filter": "sentbed_poolers.embed_filter:EmbedFilter",
        "whitening": "sentbed_poolers.whitening:Whitening",
    }
