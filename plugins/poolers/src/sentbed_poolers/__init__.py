"""Poolers for sentbed: token states -> one vector per sentence."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Pooler

sentbed_api = "2.0"


@hookimpl
def poolers() -> list[type[Pooler]]:
    """Return the poolers of this distribution."""

    from sentbed_poolers.cls_mlp import ClsMLP
    from sentbed_poolers.decoder import Decoder
    from sentbed_poolers.first import First
    from sentbed_poolers.last import Last
    from sentbed_poolers.mask import Mask
    from sentbed_poolers.mean import Mean
    from sentbed_poolers.mean_first_last import MeanFirstLast
    from sentbed_poolers.prompt import Prompt
    from sentbed_poolers.prompt_eol import PromptEOL

    return [First, ClsMLP, Mean, MeanFirstLast, Last, Decoder, Mask, Prompt, PromptEOL]
