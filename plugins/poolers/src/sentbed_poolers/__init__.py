"""Poolers and prompts for sentbed, similarities and transforms of the vectors of poolers."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def poolers() -> Mapping[str, Lazy]:
    """Return the poolers of this distribution."""
    return {
        "first": Lazy(
            "sentbed_poolers.first:First",
            "The state of the first token: BERT's [CLS] without MLP, Sentence-T5's Enc-first.",
        ),
        "cls-mlp": Lazy(
            "sentbed_poolers.cls_mlp:ClsMLP",
            "The state of the first token ([CLS]), then a dense layer, then tanh.",
        ),
        "mean": Lazy(
            "sentbed_poolers.mean:Mean",
            "The mean of the last layer's states over the real tokens, special tokens included.",
        ),
        "max": Lazy(
            "sentbed_poolers.max:Max",
            "The largest value of each dimension over the real tokens, special tokens included.",
        ),
        "mean-first-last": Lazy(
            "sentbed_poolers.mean_first_last:MeanFirstLast",
            "The mean of the first and last layer, averaged over the real tokens, special tokens included.",
        ),
        "weighted-mean": Lazy(
            "sentbed_poolers.weighted_mean:WeightedMean",
            "The mean of the last layer's states, weighted by position: later tokens have seen more.",
        ),
        "latent-attention": Lazy(
            "sentbed_poolers.latent_attention:LatentAttention",
            "The mean of token states that have attended to trained latent vectors.",
        ),
        "last": Lazy(
            "sentbed_poolers.last:Last",
            "The state of the last real token: in a causal model the only one that has seen the whole text.",
        ),
        "decoder": Lazy(
            "sentbed_poolers.decoder:Decoder",
            "The decoder's first output: the encoder reads the text, the decoder only the start token.",
        ),
        "mask": Lazy(
            "sentbed_poolers.mask:Mask",
            "The state of the mask token in a prompt that asks what the sentence means.",
        ),
        "mask-mlp": Lazy(
            "sentbed_poolers.mask_mlp:MaskMLP",
            "The state of the mask token in a prompt, then a dense layer of the same width, then tanh.",
        ),
        "prompt": Lazy(
            "sentbed_poolers.prompt:Prompt",
            "The state of the last token of a prompt that asks a causal model what the sentence means.",
        ),
        "prompt-eol": Lazy(
            "sentbed_poolers.prompt_eol:PromptEOL",
            "The state of the last token of a prompt that asks a causal model for the sentence in one word.",
        ),
        "splade": Lazy(
            "sentbed_poolers.splade:Splade",
            "One weight for each token of the vocabulary: how far the text speaks of it (SPLADE).",
        ),
        "tokens": Lazy(
            "sentbed_poolers.tokens:Tokens",
            "The last layer's state of each real token, special tokens included, for late interaction (ColBERT).",
        ),
    }


@hookimpl
def prompts() -> Mapping[str, Lazy]:
    """Return the prompts of this distribution."""
    return {
        "template": Lazy(
            "sentbed_poolers.template_prompt:TemplatePrompt",
            "Text around each sentence.",
        ),
    }


@hookimpl
def similarities() -> Mapping[str, Lazy]:
    """Return the similarities of this distribution."""
    return {
        "cosine": Lazy(
            "sentbed_poolers.cosine:Cosine",
            "The cosine of the angle between two vectors.",
        ),
        "dot": Lazy("sentbed_poolers.dot:Dot", "The dot product of two vectors."),
        "euclidean": Lazy(
            "sentbed_poolers.euclidean:Euclidean",
            "Minus the Euclidean distance of two vectors.",
        ),
        "manhattan": Lazy(
            "sentbed_poolers.manhattan:Manhattan",
            "Minus the sum of the absolute differences of two vectors.",
        ),
        "maxsim": Lazy(
            "sentbed_poolers.maxsim:MaxSim",
            "For each token of the first text its best dot product with one of the second, added up (ColBERT).",
        ),
    }


@hookimpl
def transforms() -> Mapping[str, Lazy]:
    """Return the transforms of this distribution."""
    return {
        "embed-filter": Lazy(
            "sentbed_poolers.embed_filter:EmbedFilter",
            "Vectors of a language model without the directions in which it writes frequent tokens.",
        ),
        "whitening": Lazy(
            "sentbed_poolers.whitening:Whitening",
            "Vectors with mean 0 and covariance 1 on the texts that it is fitted on.",
        ),
    }
