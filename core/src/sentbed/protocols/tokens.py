"""Text and tokens: what passes between a tokenizer, a backbone and a pooler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tensor: TypeAlias = Any
"""A tensor of the engine that runs: `torch.Tensor`."""

Module: TypeAlias = Any
"""A `torch.nn.Module`."""


@attrs.frozen(eq=False)
class TokenIds:
    """Token ids of `n` texts, ragged: text `i` is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    """All ids in one row, `(total,)`."""
    offsets: NDArray[np.int64]
    """`(n + 1,)`, starting at 0."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def join(cls, parts: Iterable[TokenIds]) -> TokenIds:
        """Return the texts of all parts, one after the other."""
        import numpy as np

        parts = list(parts)
        lengths = np.concatenate([part.lengths for part in parts])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return cls(np.concatenate([part.ids for part in parts]), offsets)

    def without_first(self, count: int) -> TokenIds:
        """Return each text without its first `count` ids, of which it has at least so many."""
        import numpy as np

        kept = np.ones(len(self.ids), bool)
        for place in range(count):
            kept[self.offsets[:-1] + place] = False
        return TokenIds(self.ids[kept], self.offsets - count * np.arange(len(self.offsets)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens a text, special tokens included, `(n,)`."""
        result: NDArray[np.int64] = self.offsets[1:] - self.offsets[:-1]
        return result


@attrs.frozen(eq=False)
class TokenBatch:
    """Token ids padded to one length."""

    input_ids: NDArray[np.int64]
    """`(batch, length)`."""
    attention_mask: NDArray[np.int64] | None
    """`(batch, length)`, 1 for a token and 0 for padding; None where nothing is padded."""
    prefix: NDArray[np.int64] | None = None
    """`(shared,)`: ids that stand before every row and are not repeated in it; None where there are none.
    Only for an encoder that says `shares_prefix`."""


class Tokenizer:
    """Text -> token ids, in bulk."""

    @property
    def pad_id(self) -> int:
        """The id that fills a batch."""
        raise NotImplementedError

    @property
    def mask_token(self) -> str | None:
        """The mask token as it is written in a text; None where the vocabulary has none."""
        return None

    @property
    def fingerprint(self) -> str | None:
        """A hash of all that decides the ids of a text; None where it cannot tell. See `PlacedEncoder`."""
        return None

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise with special tokens, cut to `max_length` tokens."""
        raise NotImplementedError

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Cut each text to at most `max_length` tokens of its own, without special tokens.

        What is left is the beginning of the text, character by character; no character is cut in two.
        """
        raise NotImplementedError


class TokenStates(NamedTuple):
    """What a backbone's module returns and a pooler's module takes.

    A named tuple, because compilers trace tuples and refuse other classes.
    """

    last_hidden_state: Tensor
    """`(batch, length, width)`, the last layer, or the mean of the layers that the backbone is to read."""
    attention_mask: Tensor | None
    """`(batch, length)`, 1 for a token and 0 for padding, on either side; None where nothing is padded."""
    layers: tuple[Tensor, ...] | None = None
    """Embeddings, then every layer, each `(batch, length, width)`; for a pooler that needs `layers`."""
    decoder_state: Tensor | None = None
    """`(batch, width)`, the decoder's first output; for a pooler that needs `decoder`."""
    mask_state: Tensor | None = None
    """`(batch, width)`, the state of the last mask token; for a pooler that needs `mask-token`."""
