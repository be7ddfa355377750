"""The intervention `token-prepending`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Literal

import attrs
from attrs.validators import ge, min_len
from sentbed.protocols import BlockStates, Intervention, InterventionTraits, Tensor


@attrs.frozen(kw_only=True)
class TokenPrepending(Intervention):
    """Put the last token's state in a placeholder's place before the sentence, block after block.

    So tokens of the sentence attend to what the model has made of it so far (Fu et al., 2025,
    arXiv 2412.11556). Where a template does not hold the placeholder, it is put before the sentence's
    quotation mark.
    """

    name = "token-prepending"

    first: int = attrs.field(default=1, validator=ge(0))
    """First block, numbered from 0, whose input gets the last token's state."""
    exit: int = attrs.field(default=7, validator=ge(1))
    """Block, from 0, before which it ends; that block reads its input unchanged. The released code has 7 for
    the 32 blocks of LLaMA2-7B, and 3 to 7 for other models; the paper's text gives one more."""
    placeholder: str = attrs.field(default="<PST>", validator=min_len(1))
    """The placeholder, a token of its own that is added to the tokenizer."""
    placeholder_spacing: Literal["stripped", "kept"] | None = None
    """Whether the space before the placeholder goes with it, or stays a token or part of one. Default: as in
    transformers 4.46, with which the released code ran: `stripped` for LLaMA and LLaMA 2, whose normaliser
    puts a space before a text, `kept` for others (LLaMA 3, Qwen2, Gemma 2). One case differs: of a model with
    `tokenizer.model` and no `tokenizer.json`, whose `tokenizer_config.json` says `legacy = false`, 4.46 would
    keep the space, and the default is `stripped`; set `kept` to have that."""

    @property
    def traits(self) -> InterventionTraits:
        """The placeholder; states before it stay as they are."""
        cites = ("fu2025tokenprepending",)
        return InterventionTraits(
            cites=cites,
            placeholder=self.placeholder,
            placeholder_spacing=self.placeholder_spacing,
            shares_prefix=True,
        )

    @property
    def places(self) -> Collection[tuple[str, int]]:
        """The input of each block from `first` to before `exit`."""
        return [("block-input", block) for block in range(self.first, self.exit)]

    def check(self) -> Iterator[str]:
        """Yield the problem of a range without a block, or of a placeholder with white space."""
        if self.exit <= self.first:
            yield (
                f"`exit` is {self.exit} and `first` is {self.first}, between which there is no block; "
                f"set `exit` to {self.first + 1} or more"
            )
        if any(map(str.isspace, self.placeholder)):
            yield f"the placeholder {self.placeholder!r} has white space; take one such as `<PST>`"

    def build(self) -> Callable[[BlockStates], Tensor]:
        """Return the replacement of the placeholder's state."""
        from sentbed_backbones._torch.token_prepending import prepend

        return prepend
