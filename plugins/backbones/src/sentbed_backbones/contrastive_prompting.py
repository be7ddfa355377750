"""The intervention `contrastive-prompting`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Literal

import attrs
from attrs.validators import ge, gt, min_len
from sentbed.protocols import BlockStates, Intervention, Tensor

AUXILIARY = 'The irrelevant information of this sentence : "{text}" means in one word:"'
"""The auxiliary prompt of the authors' code, zifengcheng/CP, byte for byte."""


@attrs.frozen(kw_only=True)
class ContrastivePrompting(Intervention):
    """Steer the last token away from an auxiliary prompt, which asks for irrelevant information.

    In one block, the concatenated outputs of the attention heads at the last token are replaced, before the
    output projection, by their difference to the auxiliary prompt's outputs (Cheng et al., 2025, arXiv
    2505.12831). The auxiliary prompt is run only up to that block.
    """

    name = "contrastive-prompting"

    block: int = attrs.field(default=4, validator=ge(0))
    """Number of the block, from 0. For LLaMA2-7B, the paper chooses layer 5 (here 4) with PromptEOL, and layer
    7 (here 6) with Pretended CoT and Knowledge."""
    scale: float = attrs.field(default=2.0, validator=gt(0))
    """Factor of the difference, for `rule = "scaled"`. For LLaMA2-7B, the paper chooses 2 with PromptEOL (its
    released script 0.5), and 3 with Pretended CoT and Knowledge."""
    rule: Literal["scaled", "norm"] = "scaled"
    """`scaled` (NS): the difference is multiplied by `scale`. `norm` (NR): the difference is rescaled to the
    norm of the outputs that it replaces, and `scale` has no effect."""
    template: str = attrs.field(default=AUXILIARY, validator=min_len(1))
    """Template of the auxiliary prompt, with `{text}` for the sentence."""

    cites = ("cheng2025contrastive",)
    shares_prefix = True

    @property
    def auxiliary(self) -> str:
        """The second prompt."""
        return self.template

    @property
    def places(self) -> Collection[tuple[str, int]]:
        """The concatenated heads of one block."""
        return [("attention-heads", self.block)]

    def build(self) -> Callable[[BlockStates], Tensor]:
        """Return the function that replaces the outputs of the heads at the last token."""
        from sentbed_backbones._torch.contrastive_prompting import contrast

        if self.rule == "norm":
            return partial(contrast, scale=None)

        return partial(contrast, scale=self.scale)
