"""Tokenizers, and the data passed between tokenizer, backbone and pooler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tensor: TypeAlias = Any
"""Tensor type of the engine, such as `torch.Tensor`."""

Module: TypeAlias = Any
"""A `torch.nn.Module`."""


@attrs.frozen(eq=False)
class TokenIds:
    """Ragged token ids of `n` texts: text `i` has `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    """Concatenated ids, `(total,)`. What they are is between tokenizer and backbone: see `encode_marked`."""
    offsets: NDArray[np.int64]
    """Offsets into `ids`, `(n + 1,)`, starting at 0."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def join(cls, parts: Iterable[TokenIds]) -> TokenIds:
        """Concatenate the texts of all parts."""
        import numpy as np

        parts = list(parts)
        lengths = np.concatenate([part.lengths for part in parts])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return cls(np.concatenate([part.ids for part in parts]), offsets)

    def without_first(self, count: int) -> TokenIds:
        """Return each text without its first `count` ids; each must have at least that many."""
        import numpy as np

        kept = np.ones(len(self.ids), bool)
        for place in range(count):
            kept[self.offsets[:-1] + place] = False
        return TokenIds(self.ids[kept], self.offsets - count * np.arange(len(self.offsets)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per text, including special tokens, `(n,)`."""
        result: NDArray[np.int64] = self.offsets[1:] - self.offsets[:-1]
        return result


@attrs.frozen(eq=False)
class TokenBatch:
    """Token ids padded to one length."""

    input_ids: NDArray[np.int64]
    """`(batch, length)`."""
    attention_mask: NDArray[np.int64] | None
    """`(batch, length)`, 1 for a token and 0 for padding; None if nothing is padded."""
    prefix: NDArray[np.int64] | None = None
    """`(shared,)`: ids that precede every row and are not repeated in it, or None. Only for an encoder with
    `shares_prefix`."""
    auxiliary: TokenBatch | None = None
    """The same texts in the prompt of `BackboneTraits.auxiliary`; the backbone's inference module takes its
    `input_ids` and `attention_mask` as the keyword `auxiliary`, a pair."""


class Tokenizer:
    """Text -> token ids, in bulk."""

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        raise NotImplementedError

    @property
    def mask_token(self) -> str | None:
        """The mask token as a string, or None if the vocabulary has none."""
        return None

    @property
    def fingerprint(self) -> str | None:
        """Hash of everything that determines a text's ids, or None if unknown. See `PlacedEncoder`."""
        return None

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise with special tokens, truncating to `max_length` tokens."""
        raise NotImplementedError

    def shareable(self, ids: NDArray[np.int32]) -> int:
        """Return how many of a text's first ids may be a shared prefix: those before a placeholder."""
        return len(ids)

    def auxiliary(self, texts: Sequence[str], max_length: int) -> TokenIds | None:
        """Tokenise the texts in the prompt of `BackboneTraits.auxiliary`, or return None without one."""
        return None

    def encode_marked(
        self, texts: Sequence[str], starts: Sequence[int] | None, layers: tuple[int, ...] | None
    ) -> TokenIds:
        """Tokenise without limit, with ids that tell the backbone's module more than the token.

        They hide from the pooler the tokens of text `i` that end before character `starts[i]`, but never its
        last one (`TokenStates.attention_mask`), and choose `layers`, one of `BuildContext.readings`.
        """
        raise NotImplementedError

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Cut each text to at most `max_length` tokens, not counting special tokens.

        The result is a prefix of the text; no character is split.
        """
        raise NotImplementedError


class TokenStates(NamedTuple):
    """Output of a backbone's module and input of a pooler's module.

    A named tuple, because compilers trace tuples but reject other classes.
    """

    last_hidden_state: Tensor
    """`(batch, length, width)`, the last layer, or the mean of the layers that the backbone selects."""
    attention_mask: Tensor | None
    """`(batch, length)`, 0 for padding, on either side, and hidden tokens, else 1; None without them."""
    layers: tuple[Tensor, ...] | None = None
    """Embeddings, then every layer, each `(batch, length, width)`; for a pooler that needs `layers`."""
    decoder_state: Tensor | None = None
    """`(batch, width)`, the decoder's first output; for a pooler that needs `decoder`."""
    mask_state: Tensor | None = None
    """`(batch, width)`, the state of the last mask token; for a pooler that needs `mask-token`. If it also
    needs `template-alone`, less that of the template without a sentence, whose second part has the positions
    that it has behind the sentence; with `template-alone-from-0`, the template's positions start at 0."""


class BlockStates(NamedTuple):
    """Input of an intervention: states at one point of one block, without those of a shared prefix."""

    point: str
    block: int
    states: Tensor
    """`(batch, length, width)`."""
    input_ids: Tensor
    """`(batch, length)`."""
    attention_mask: Tensor | None
    """`(batch, length)`, 1 for a token and 0 for padding, on either side; None if nothing is padded."""
    last: Tensor
    """`(batch,)`, index of the last token of each row."""
    placeholder: Tensor | None = None
    """`(batch,)`, index of the first placeholder of each row; for an intervention that has one."""
    auxiliary: Tensor | None = None
    """`(batch, width)`, the state of the auxiliary prompt's last token at the same point, where the prompt
    runs without the intervention; for an intervention that has one."""
