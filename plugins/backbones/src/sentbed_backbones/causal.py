"""The backbone `causal`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs
from sentbed.protocols import BuildContext, BuiltBackbone
from sentbed_common import import_heavy

from sentbed_backbones.transformer_base import CausalTransformer

SIZES: Mapping[str, tuple[int, int, int, int]] = {
    "tiny": (2, 128, 2, 352),
    "mini": (4, 256, 4, 704),
    "7b": (32, 4096, 32, 11008),
    "13b": (40, 5120, 40, 13824),
    "30b": (60, 6656, 52, 17920),
    "65b": (80, 8192, 64, 22016),
}
"""Layers, width, heads and inner width of each size; 7b to 65b as in Touvron et al. (2023)."""


@attrs.frozen(kw_only=True)
class Causal(CausalTransformer):
    """Any causal language model of transformers without its head: LLaMA, Mistral, Qwen, GPT-2, ...

    A token's state is the output of the last layer after the final norm. Attention is as the model was trained,
    unless `attention` is set.
    """

    name = "causal"
    random_positions = 2048
    head_in_files = True
    sizes = SIZES

    size: Literal["tiny", "mini", "7b", "13b", "30b", "65b"] = "tiny"
    """Size of a random LLaMA: 7b to 65b as published, tiny with 2 layers of width 128, mini with 4 of width
    256."""

    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise the backbone.

        Raises:
            ModelError: if weights are missing or incomplete, or need code that is not trusted.
        """
        import_heavy("transformers.modeling_utils")
        from sentbed_backbones._torch.build_backbone import build
        from sentbed_backbones._torch.causal import CausalFamily

        return build(self, CausalFamily, context)
