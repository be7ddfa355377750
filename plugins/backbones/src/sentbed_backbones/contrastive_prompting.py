"""The intervention `contrastive-prompting`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Literal

import attrs
from attrs.validators import ge, gt, min_len
from sentbed.protocols import BlockStates, Intervention, InterventionTraits, Tensor


@attrs.frozen(kw_only=True)
class ContrastivePrompting(Intervention):
    """Steer the last token away from an auxiliary prompt that asks for what does not matter.

    The joined outputs of one block's attention heads at the last token, before their projection, are replaced
    by their difference to those of the auxiliary prompt (Cheng et al., 2025, arXiv 2505.12831). The auxiliary
    prompt is run up to that block.
    """

    name = "contrastive-prompting"

    block: int = attrs.field(default=4, validator=ge(0))
    """The block, from 0; on LLaMA2-7B the paper's layer 5 for PromptEOL, so 4, and 7, so 6, for Pretended CoT
    and Knowledge."""
    scale: float = attrs.field(default=2.0, validator=gt(0))
    """Factor of the difference under `scaled`; on LLaMA2-7B the paper has 2 for PromptEOL (its released
    script 0.5), and 3 for Pretended CoT and Knowledge."""
    rule: Literal["scaled", "norm"] = "scaled"
    """`scaled` (NS): the difference times `scale`. `norm` (NR): the difference at the norm of what it
    replaces, with no factor."""
    template: str = attrs.field(default="contrastive-auxiliary", validator=min_len(1))
    """Template of the auxiliary prompt, or the name of one."""

    @property
    def traits(self) -> InterventionTraits:
        """The auxiliary prompt; states before the last token stay as they are."""
        cites = ("cheng2025contrastive",)
        return InterventionTraits(
            cites=cites, auxiliary=self.template, shares_prefix=True
        )

    @property
    def places(self) -> Collection[tuple[str, int]]:
        """The joined heads of one block."""
        return [("attention-heads", self.block)]

    def build(self) -> Callable[[BlockStates], Tensor]:
        """Return the replacement of the last token's heads."""
        from sentbed_backbones._torch.contrastive_prompting import contrast

        if self.rule == "norm":
            return partial(contrast, scale=None)

        return partial(contrast, scale=self.scale)
