"""Backbones for sentbed: tokenizer + transformer, text -> token states."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def backbones() -> Mapping[str, Lazy]:
    """Return the backbones of this distribution."""
    return {
        "bert": Lazy(
            "sentbed_backbones.bert:Bert",
            "Any BERT-family encoder: BERT, RoBERTa, XLM-R, MiniLM, or a small BERT with random weights.",
        ),
        "t5": Lazy(
            "sentbed_backbones.t5:T5",
            "T5, T5 1.1 and their relatives (Raffel et al., 2020), as Sentence-T5 reads them.",
        ),
        "opt": Lazy(
            "sentbed_backbones.opt:Opt",
            "OPT (Zhang et al., 2022), the causal model of PromptEOL's main table.",
        ),
        "causal": Lazy(
            "sentbed_backbones.causal:Causal",
            "Any causal language model of transformers without its head: LLaMA, Mistral, Qwen, GPT-2, ...",
        ),
        "static": Lazy(
            "sentbed_backbones.static:Static",
            "A table of token vectors: a model's input embeddings, StaticEmbedding, model2vec or word vectors.",
        ),
    }


@hookimpl
def interventions() -> Mapping[str, Lazy]:
    """Return the interventions of this distribution."""
    return {
        "token-prepending": Lazy(
            "sentbed_backbones.token_prepending:TokenPrepending",
            "Put the last token's state into a placeholder before the sentence, block after block.",
        ),
        "contrastive-prompting": Lazy(
            "sentbed_backbones.contrastive_prompting:ContrastivePrompting",
            "Steer the last token away from an auxiliary prompt, which asks for irrelevant information.",
        ),
    }
