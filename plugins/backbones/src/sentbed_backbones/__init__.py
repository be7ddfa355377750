"""Backbones for sentbed: tokenizer + transformer, text -> token states."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def backbones() -> Mapping[str, str]:
    """Return the backbones of this distribution."""
    return {
        "bert": "sentbed_backbones.bert:Bert",
        "t5": "sentbed_backbones.t5:T5",
        "opt": "sentbed_backbones.opt:Opt",
        "causal": "sentbed_backbones.causal:Causal",
        "static": "sentbed_backbones.static:Static",
    }


@hookimpl
def interventions() -> Mapping[str, str]:
    """Return the interventions of this distribution."""
    return {
        "token-prepending": "sentbed_backbones.token_prepending:TokenPrepending",
        "contrastive-prompting": "sentbed_backbones.contrastive_prompting:ContrastivePrompting",
    }
