"""Base class of tokenizers, and the data that tokenizer, backbone and pooler pass to each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor as Tensor
else:
    Tensor: TypeAlias = Any
    """A tensor of the engine. Only type checkers import `torch.Tensor` for it; a running program does not."""

Module: TypeAlias = Any
"""A `torch.nn.Module`.

It is `Any`, since a type checker takes each attribute of a module for `Tensor | Module`.
"""


@attrs.frozen(eq=False)
class TokenIds:
    """The tokens of `n` texts, concatenated: text `i` has the ids `ids[offsets[i]:offsets[i + 1]]`.

    Everything else that a backbone must know about a token or a text is in another field, which is None if it is
    not used. `join`, `share_prefix`, `sentbed.helpers.pad`, `TokenBatch.select` and `TokenBatch.widened` keep
    all fields aligned with the tokens. No other code cuts, joins or pads texts.
    """

    ids: NDArray[np.int32]
    """Token ids of all texts, `(total,)`."""
    offsets: NDArray[np.int64]
    """Position in `ids` where each text begins, and the total: `(n + 1,)`."""
    hidden: NDArray[np.bool_] | None = None
    """`(total,)`: whether a token is hidden from the pooler; see `Tokenizer.encode_from`."""
    prefix: TokenIds | None = None
    """A single text whose tokens precede the tokens of every text; see `share_prefix`."""
    auxiliary: TokenIds | None = None
    """The same texts in the second prompt (template `Backbone.auxiliary`); None if there is none."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def join(cls, parts: Collection[TokenIds]) -> TokenIds:
        """Return the texts of all parts, at least one, as one object.

        No part has a `prefix`. Either all parts have auxiliary prompts, or none has.

        If only some parts have `hidden`, none of the other parts' tokens is hidden.
        """
        import numpy as np

        lengths = np.concatenate([part.lengths for part in parts])
        joined = cls(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]),
            hidden=_hidden_in(parts),
        )
        auxiliary = [part.auxiliary for part in parts if part.auxiliary is not None]
        if not auxiliary:
            return joined
        return attrs.evolve(joined, auxiliary=cls.join(auxiliary))

    def share_prefix(self, count: int) -> TokenIds:
        """Return the texts with their first `count` tokens, which must be the same in all texts, in `prefix`.

        The auxiliary prompts do not change.
        """
        import numpy as np

        is_kept = np.ones(len(self.ids), bool)
        for position in range(count):
            is_kept[self.offsets[:-1] + position] = False

        hidden = self.hidden
        hidden_in_prefix = None
        if hidden is not None:
            hidden_in_prefix = hidden[:count]
            hidden = hidden[is_kept]
        return attrs.evolve(
            self,
            ids=self.ids[is_kept],
            offsets=self.offsets - count * np.arange(len(self.offsets)),
            hidden=hidden,
            prefix=TokenIds(self.ids[:count], np.array([0, count]), hidden_in_prefix),
        )

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text, including special tokens: `(n,)`."""
        result: NDArray[np.int64] = self.offsets[1:] - self.offsets[:-1]
        return result


def _hidden_in(parts: Collection[TokenIds]) -> NDArray[np.bool_] | None:
    """Return which tokens of all parts are hidden; None if no part says it."""
    import numpy as np

    if all(part.hidden is None for part in parts):
        return None
    hidden = []
    for part in parts:
        if part.hidden is None:
            hidden.append(np.zeros(len(part.ids), bool))
        else:
            hidden.append(part.hidden)
    return np.concatenate(hidden)


@attrs.frozen(eq=False)
class TokenBatch:
    """A batch of texts, padded to one length."""

    input_ids: NDArray[np.int64]
    """`(batch, length)`."""
    attention_mask: NDArray[np.int64] | None
    """`(batch, length)`: 1 for a token and 0 for padding; None if there is no padding."""
    prefix: NDArray[np.int64] | None = None
    """`(shared,)`: ids that precede every row, for an encoder with `shares_prefix`; None if there are none."""
    auxiliary: TokenBatch | None = None
    """The same texts in the second prompt (template `Backbone.auxiliary`); None if there is none.

    The backbone's inference module takes its `input_ids` and `attention_mask` as a pair, the keyword `auxiliary`.
    """
    keywords: Mapping[str, NDArray[Any]] = attrs.field(factory=dict)
    """Further arguments of the backbone's module, by name, which engines pass on as they are; often none.

    `hidden`, `(batch, shared + length)`, says whether a token of the prefix or of the row is hidden from the
    pooler; see `TokenIds`.
    """

    def select(self, rows: NDArray[np.int64] | slice) -> TokenBatch:
        """Return a batch of these rows (indices or a slice), with the same prefix."""
        mask, auxiliary = self.attention_mask, self.auxiliary
        if mask is not None:
            mask = mask[rows]
        if auxiliary is not None:
            auxiliary = auxiliary.select(rows)
        keywords = {name: values[rows] for name, values in self.keywords.items()}
        return TokenBatch(self.input_ids[rows], mask, self.prefix, auxiliary, keywords)

    def widened(self, rows: int, length: int, pad_id: int) -> TokenBatch:
        """Return the batch padded to the shape `(rows, length)`, with a mask.

        This is for devices that compile code for each shape. An added row has one token, since the mean and the
        attention of an empty row are undefined; the caller drops its vector. The auxiliary prompts get the same
        number of rows, but keep their length.
        """
        import numpy as np

        rows_before, length_before = self.input_ids.shape
        more = ((0, rows - rows_before), (0, length - length_before))
        mask = self.attention_mask
        if mask is None:
            mask = np.ones_like(self.input_ids)
        mask = np.pad(mask, more)
        mask[rows_before:, 0] = 1

        auxiliary = self.auxiliary
        if auxiliary is not None:
            auxiliary = auxiliary.widened(rows, auxiliary.input_ids.shape[1], pad_id)
        keywords = {}
        for name, values in self.keywords.items():
            keywords[name] = np.pad(values, more[: values.ndim])
        ids = np.pad(self.input_ids, more, constant_values=pad_id)
        return TokenBatch(ids, mask, self.prefix, auxiliary, keywords)


def pad(
    tokens: TokenIds,
    rows: NDArray[np.int64],
    pad_id: int,
) -> TokenBatch:
    """Return the texts with the indices `rows` as a batch. It has no mask if all of them have the same length."""
    import numpy as np

    lengths = tokens.lengths[rows]
    length = int(lengths.max())
    columns = np.arange(length)
    positions = tokens.offsets[rows][:, None] + columns

    mask = None
    if int(lengths.min()) == length:
        ids = tokens.ids[positions]
    else:
        mask = columns < lengths[:, None]
        # A padded position has no token. It takes token 0, which is then replaced by `pad_id`.
        positions = np.where(mask, positions, 0)
        ids = np.where(mask, tokens.ids[positions], pad_id)

    keywords: dict[str, NDArray[Any]] = {}
    prefix = None
    if tokens.prefix is not None:
        prefix = tokens.prefix.ids.astype(np.int64)
    if tokens.hidden is not None:
        hidden = tokens.hidden[positions]
        if mask is not None:
            hidden &= mask
        if tokens.prefix is not None and tokens.prefix.hidden is not None:
            hidden_in_prefix = np.tile(tokens.prefix.hidden, (len(rows), 1))
            hidden = np.concatenate([hidden_in_prefix, hidden], axis=1)
        keywords["hidden"] = hidden
    auxiliary = None
    if tokens.auxiliary is not None:
        auxiliary = pad(tokens.auxiliary, rows, pad_id)

    attention_mask = None if mask is None else mask.astype(np.int64)
    return TokenBatch(ids.astype(np.int64), attention_mask, prefix, auxiliary, keywords)


class Tokenizer:
    """Computes the token ids of many texts at once. A subclass must have `pad_id` and `encode`.

    Prompts need `truncate` besides; some need `encode_from`.
    """

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str | None:
        """Hash of everything that determines the ids of a text; None if it is unknown.

        The vector store needs it.
        """
        return None

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise texts, with special tokens, and truncate them to `max_length` tokens."""
        raise NotImplementedError

    @property
    def mask_token(self) -> str | None:
        """The mask token as a string, or None if the vocabulary has no mask token."""
        return None

    def shareable(self, ids: NDArray[np.int32]) -> int:
        """Return how many leading ids of a text may be in a shared prefix; by default all.

        A tokenizer with a placeholder (`Backbone.placeholder`) returns the number of ids before it.
        """
        return len(ids)

    def auxiliary(self, texts: Sequence[str], max_length: int) -> TokenIds | None:
        """Tokenise the texts in the second prompt (template `Backbone.auxiliary`).

        Return None if there is no second prompt.
        """
        return None

    def encode_from(self, texts: Sequence[str], starts: Sequence[int]) -> TokenIds:
        """Tokenise without truncation, and hide what comes before the start of each text (`TokenIds.hidden`).

        The tokens of text `i` that end before character `starts[i]` are hidden, except the text's last token: the
        backbone's module sets their `TokenStates.attention_mask` to 0.
        """
        raise NotImplementedError

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Return the beginning of each text that has at most `max_length` tokens, not counting special tokens.

        No character is split.
        """
        raise NotImplementedError


class TokenStates(NamedTuple):
    """Output of a backbone's module, and input of a pooler's module.

    It is a named tuple, because compilers can trace tuples but no other classes.
    """

    last_hidden_state: Tensor
    """`(batch, length, width)`: states of the last layer, or the mean over layers that the backbone selects."""
    attention_mask: Tensor | None
    """`(batch, length)`: 0 for padding (on either side) and for hidden tokens, otherwise 1; None if all are 1."""
    layers: tuple[Tensor, ...] | None = None
    """The embeddings and every layer's states, each `(batch, length, width)`, if the pooler needs `layers`."""
    decoder_state: Tensor | None = None
    """`(batch, width)`: the first output of the decoder, if the pooler needs `decoder`."""
    mask_state: Tensor | None = None
    """`(batch, width)`: the state of the last mask token, if the pooler needs `mask-token`.

    If the pooler also needs `template-alone`, the state of the mask token in the template without a sentence is
    subtracted. In that template, the part after the sentence has the same positions as with the sentence. With
    `template-alone-from-0`, its positions follow those of the part before the sentence without a gap.
    """


@attrs.frozen(eq=False)
class TokenVectors:
    """Token vectors of `n` texts, padded to one length: the output of a pooler with `output = "tokens"`."""

    vectors: Tensor
    """`(n, length, width)`; the values are arbitrary where `mask` is False."""
    mask: Tensor
    """`(n, length)`, bool: whether a token counts."""

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def device(self) -> Any:
        """Device of both tensors."""
        return self.vectors.device

    def detach(self) -> TokenVectors:
        """Return the same vectors without gradient."""
        return TokenVectors(self.vectors.detach(), self.mask)


class BlockStates(NamedTuple):
    """Input of an intervention: the states at one point of one block, except the states of a shared prefix."""

    point: str
    """Point in the block, such as `block-input`; see `Intervention.places`."""
    block: int
    """Number of the block, from 0."""
    states: Tensor
    """`(batch, length, width)`."""
    input_ids: Tensor
    """`(batch, length)`."""
    attention_mask: Tensor | None
    """`(batch, length)`: 1 for a token and 0 for padding (on either side); None if there is no padding."""
    last: Tensor
    """`(batch,)`: index of the last token of each row."""
    placeholder: Tensor | None = None
    """`(batch,)`: index of the first placeholder in each row, for an intervention with a placeholder."""
    auxiliary: Tensor | None = None
    """`(batch, width)`: state of the auxiliary prompt's last token, for an intervention with such a prompt.

    It is the state at the same point, computed without the intervention.
    """
