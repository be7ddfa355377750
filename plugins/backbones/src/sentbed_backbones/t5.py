"""The backbone `t5`."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import ge
from sentbed.protocols import BuildContext, BuiltBackbone
from sentbed_common import import_heavy

from sentbed_backbones.transformer_base import Transformer


@attrs.frozen(kw_only=True)
class T5(Transformer):
    """T5, T5 1.1 and their relatives (Raffel et al., 2020), as Sentence-T5 reads them.

    Token states are the encoder's. The decoder is loaded only for the pooler `decoder`, which reads its first
    output, with the start token as the only decoder input (EncDec-first).
    """

    name = "t5"
    papers = ("raffel2020t5",)
    offered = frozenset({"bidirectional", "decoder", "layers"})

    size: Literal["tiny", "mini", "small", "base", "large", "3b", "11b"] = "tiny"
    """Size of a random T5: small to 11b as published, tiny with 2 layers of width 128, mini with 4 of width
    256."""
    version: Literal["1.0", "1.1"] = "1.1"
    """Version of a random T5: feed-forward layers of 1.0 have a ReLU, those of 1.1 a gated GELU and other
    widths."""
    vocab_size: int = attrs.field(default=8192, validator=ge(300))
    """Largest vocabulary of a tokenizer trained on the recipe's texts (byte-level BPE, T5's special tokens)."""

    def most_tokens(self) -> int | None:
        """Return None: positions are relative, so that a text may have any length."""
        return None

    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise the backbone.

        Raises:
            ModelError: if weights are missing or incomplete, or need code that is not trusted.
        """
        import_heavy("transformers.modeling_utils")
        from sentbed_backbones._torch.build_backbone import build
        from sentbed_backbones._torch.t5 import T5Family

        return build(self, T5Family, context)
