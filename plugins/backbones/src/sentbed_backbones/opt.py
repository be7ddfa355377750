"""The backbone `opt`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs
from sentbed.protocols import BuildContext, BuiltBackbone
from sentbed_common import import_heavy

from sentbed_backbones.transformer_base import CausalTransformer

SIZES: Mapping[str, tuple[int, int, int]] = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "1.3b": (24, 2048, 32),
    "2.7b": (32, 2560, 32),
    "6.7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "66b": (64, 9216, 72),
}
"""Layers, width and heads of each size; the inner layer is four times as wide (Zhang et al., 2022, table 1)."""


@attrs.frozen(kw_only=True)
class Opt(CausalTransformer):
    """OPT (Zhang et al., 2022), the causal model of PromptEOL's main table.

    A token's state is the output of the last layer after the final norm and, in the 350m, after the projection
    to width 512.
    """

    name = "opt"
    papers = ("zhang2022opt",)
    random_positions = 2048
    head_in_files = False
    sizes = SIZES

    size: Literal[
        "tiny", "mini", "125m", "350m", "1.3b", "2.7b", "6.7b", "13b", "30b", "66b"
    ] = "tiny"
    """Size of a random OPT: 125m to 66b as published, tiny with 2 layers of width 128, mini with 4 of width
    256."""

    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise the backbone.

        Raises:
            ModelError: if weights are missing or incomplete, or need code that is not trusted.
        """
        import_heavy("transformers.modeling_utils")
        from sentbed_backbones._torch.build_backbone import build
        from sentbed_backbones._torch.opt import OptFamily

        return build(self, OptFamily, context)
