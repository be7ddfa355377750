"""Text and tokens: what passes between a tokenizer, a backbone and a pooler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

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


class Tokenizer(Protocol):
    """Text -> token ids, in bulk."""

    pad_id: int

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise with special tokens, cut to `max_length` tokens."""


class TokenStates(NamedTuple):
    """What a backbone's module returns and a pooler's module takes.

    A named tuple, because compilers trace tuples and refuse other classes.
    """

    last_hidden_state: Tensor
    """`(batch, length, width)`, the last layer."""
    attention_mask: Tensor | None
    """`(batch, length)`, 1 for a token and 0 for padding; None where nothing is padded."""
