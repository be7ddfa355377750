"""Backbones for sentbed: tokenizer + transformer, text -> token states."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Backbone, Finding

sentbed_api = "2.0"


@hookimpl
def backbones() -> list[type[Backbone]]:
    """Return the backbones of this distribution."""

    from sentbed_backbones.bert import Bert
    from sentbed_backbones.causal import Causal
    from sentbed_backbones.opt import Opt
    from sentbed_backbones.t5 import T5

    return [Bert, T5, Opt, Causal]


@hookimpl
def findings() -> list[Finding]:
    """Return the support for pretrained models on this machine: libraries, adapters, 4 bits, the hub."""
    from sentbed_backbones.doctor import findings

    return list(findings())
