"""The intervention `token-prepending`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Literal

import attrs
from attrs.validators import ge, min_len
from sentbed.protocols import BlockStates, Intervention, Tensor


@attrs.frozen(kw_only=True)
class TokenPrepending(Intervention):
    """Put the last token's state into a placeholder before the sentence, block after block.

    Tokens of the sentence can then attend to the model's summary of the whole sentence (Fu et al., 2025, arXiv
    2412.11556). In a template that lacks the placeholder, it is inserted before the sentence's quotation mark.
    """

    name = "token-prepending"

    first: int = attrs.field(default=1, validator=ge(0))
    """First block, numbered from 0, in whose input the placeholder gets the last token's state."""
    exit: int = attrs.field(default=7, validator=ge(1))
    """First block after `first`, numbered from 0, whose input is unchanged again. The released code uses 7 for
    LLaMA2-7B, which has 32 blocks, and 3 to 7 for other models; the numbers in the paper's text are higher by
    1."""
    placeholder: str = attrs.field(default="<PST>", validator=min_len(1))
    """Text of the placeholder, which is added to the tokenizer as a token."""
    placeholder_spacing: Literal["stripped", "kept"] | None = None
    """Whether the space before the placeholder is dropped (`stripped`), or remains a token or part of a token
    (`kept`). The default follows transformers 4.46, with which the released code ran: `stripped` for LLaMA and
    LLaMA 2, whose normaliser puts a space before a text, and `kept` for other models (LLaMA 3, Qwen2, Gemma 2).
    In one case the default differs from 4.46: if a model has `tokenizer.model` without `tokenizer.json`, and
    `legacy = false` in `tokenizer_config.json`, 4.46 keeps the space, and the default drops it; set `kept` for
    the behaviour of 4.46."""

    cites = ("fu2025tokenprepending",)
    shares_prefix = True

    @property
    def places(self) -> Collection[tuple[str, int]]:
        """The inputs of blocks `first` to `exit` - 1."""
        return [("block-input", block) for block in range(self.first, self.exit)]

    def check(self) -> Iterator[str]:
        """Yield a problem if there is no block from `first` to `exit`, or if the placeholder has white space."""
        if self.exit <= self.first:
            yield (
                f"`exit` is {self.exit} and `first` is {self.first}, between which there is no block; "
                f"set `exit` to {self.first + 1} or more"
            )

        if any(map(str.isspace, self.placeholder)):
            yield f"the placeholder {self.placeholder!r} has white space; take one such as `<PST>`"

    def build(self) -> Callable[[BlockStates], Tensor]:
        """Return the function that replaces the placeholder's state."""
        from sentbed_backbones._torch.token_prepending import prepend

        return prepend
