"""Tokenizers, and the data passed between tokenizer, backbone and pooler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor as Tensor
else:
    Tensor: TypeAlias = Any
    """`torch.Tensor`, for type checkers: nothing is imported for it when a program runs."""

Module: TypeAlias = Any
"""A `torch.nn.Module`; untyped, since a type checker takes each attribute of one for `Tensor | Module`."""


@attrs.frozen(eq=False)
class TokenIds:
    """Ragged tokens of `n` texts: text `i` has the ids `ids[offsets[i]:offsets[i + 1]]`.

    Anything else that a backbone needs to know of a token or a text is in a field of its own, None if unused.
    `join`, `share_prefix`, `sentbed.helpers.pad`, `TokenBatch.select` and `TokenBatch.widened` keep all fields
    aligned with the tokens; no other code cuts, joins or pads texts.
    """

    ids: NDArray[np.int32]
    """Concatenated token ids, `(total,)`."""
    offsets: NDArray[np.int64]
    """Offsets into `ids`, `(n + 1,)`, starting at 0."""
    hidden: NDArray[np.bool_] | None = None
    """`(total,)`, whether a token is hidden from the pooler; see `Tokenizer.encode_marked`."""
    readings: NDArray[np.int32] | None = None
    """`(n,)`, the layers to read for a text: an index into `BuildContext.readings`, from 1, or 0 for the
    backbone's own layers."""
    prefix: TokenIds | None = None
    """A single text whose tokens precede those of every text; see `share_prefix`."""
    auxiliary: TokenIds | None = None
    """The same texts in the prompt of `BackboneTraits.auxiliary`."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def join(cls, parts: Iterable[TokenIds]) -> TokenIds:
        """Concatenate the texts of all parts.

        A field that only some parts have is filled with zeros for the others: no token is hidden, and the
        backbone's own layers are read.

        Raises:
            ValueError: if a part has a prefix, or only some have auxiliary prompts.
        """
        import numpy as np

        parts = list(parts)
        if any(part.prefix is not None for part in parts):
            raise ValueError(
                "texts whose prefix was taken out cannot be joined; join them before"
            )
        auxiliary = [part.auxiliary for part in parts if part.auxiliary is not None]
        if len(auxiliary) not in (0, len(parts)):
            raise ValueError(
                f"{len(auxiliary)} of {len(parts)} parts have auxiliary prompts; give all or none"
            )

        token_counts = [len(part.ids) for part in parts]
        text_counts = [len(part) for part in parts]
        lengths = np.concatenate([part.lengths for part in parts])
        joined = cls(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]),
            hidden=_concatenated([part.hidden for part in parts], token_counts),
            readings=_concatenated([part.readings for part in parts], text_counts),
        )
        if not auxiliary:
            return joined
        return attrs.evolve(joined, auxiliary=cls.join(auxiliary))

    def share_prefix(self, count: int) -> TokenIds:
        """Move the first `count` tokens, which must be equal in all texts, into `prefix`.

        The auxiliary prompts are not changed.
        """
        import numpy as np

        kept = np.ones(len(self.ids), bool)
        for position in range(count):
            kept[self.offsets[:-1] + position] = False
        hidden, prefix_hidden = self.hidden, None
        if hidden is not None:
            hidden, prefix_hidden = hidden[kept], hidden[:count]
        return attrs.evolve(
            self,
            ids=self.ids[kept],
            offsets=self.offsets - count * np.arange(len(self.offsets)),
            hidden=hidden,
            prefix=TokenIds(self.ids[:count], np.array([0, count]), prefix_hidden),
        )

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per text, including special tokens, `(n,)`."""
        result: NDArray[np.int64] = self.offsets[1:] - self.offsets[:-1]
        return result


def _concatenated(
    arrays: Sequence[NDArray[Any] | None], lengths: Sequence[int]
) -> NDArray[Any] | None:
    """Concatenate the arrays of a field; an array that is None becomes zeros of its length."""
    import numpy as np

    present = [array for array in arrays if array is not None]
    if not present:
        return None
    filled = []
    for array, length in zip(arrays, lengths, strict=True):
        if array is None:
            filled.append(np.zeros(length, present[0].dtype))
        else:
            filled.append(array)
    return np.concatenate(filled)


@attrs.frozen(eq=False)
class TokenBatch:
    """Tokens padded to one length."""

    input_ids: NDArray[np.int64]
    """`(batch, length)`."""
    attention_mask: NDArray[np.int64] | None
    """`(batch, length)`, 1 for a token and 0 for padding; None if nothing is padded."""
    prefix: NDArray[np.int64] | None = None
    """`(shared,)`: ids that precede every row, or None. Only for an encoder with `shares_prefix`."""
    auxiliary: TokenBatch | None = None
    """The same texts in the prompt of `BackboneTraits.auxiliary`; the backbone's inference module takes its
    `input_ids` and `attention_mask` as the keyword `auxiliary`, a pair."""
    hidden: NDArray[np.bool_] | None = None
    """`(batch, shared + length)`, whether a token of the prefix or of the row is hidden from the pooler."""
    readings: NDArray[np.int64] | None = None
    """`(batch,)`, the layers to read for a row; see `TokenIds.readings`."""

    @property
    def keywords(self) -> dict[str, NDArray[Any]]:
        """Further keyword arguments for the backbone's module: the fields that are not None.

        Engines pass them all. They are set only if the backbone's own tokenizer fills them.
        """
        fields = {"hidden": self.hidden, "readings": self.readings}
        return {name: values for name, values in fields.items() if values is not None}

    def select(self, rows: NDArray[np.int64] | slice) -> TokenBatch:
        """Return the batch of some rows (a slice or indices), with the same prefix."""
        auxiliary = self.auxiliary
        if auxiliary is not None:
            auxiliary = auxiliary.select(rows)
        return TokenBatch(
            self.input_ids[rows],
            _rows_of(self.attention_mask, rows),
            prefix=self.prefix,
            auxiliary=auxiliary,
            hidden=_rows_of(self.hidden, rows),
            readings=_rows_of(self.readings, rows),
        )

    def widened(self, rows: int, length: int, pad_id: int) -> TokenBatch:
        """Return the batch with a mask, padded on the right to this shape, for a device that compiles shapes.

        An added row has one token, since mean and attention of an empty row are undefined; the caller drops
        its vector. Auxiliary prompts get as many rows, and keep their length.
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
        return TokenBatch(
            np.pad(self.input_ids, more, constant_values=pad_id),
            mask,
            prefix=self.prefix,
            auxiliary=auxiliary,
            hidden=_with_zeros(self.hidden, more),
            readings=_with_zeros(self.readings, more[:1]),
        )


def _rows_of(
    array: NDArray[Any] | None, rows: NDArray[np.int64] | slice
) -> NDArray[Any] | None:
    return None if array is None else array[rows]


def _with_zeros(
    array: NDArray[Any] | None, more: Sequence[tuple[int, int]]
) -> NDArray[Any] | None:
    """Pad an array with zeros; `more` is the width before and after it, for each axis."""
    import numpy as np

    return None if array is None else np.pad(array, more)


def pad(tokens: TokenIds, rows: NDArray[np.int64], pad_id: int) -> TokenBatch:
    """Return the texts `rows` as one batch, without a mask if they have equal lengths."""
    import numpy as np

    lengths = tokens.lengths[rows]
    length = int(lengths.max())
    columns = np.arange(length)
    positions = tokens.offsets[rows][:, None] + columns
    if int(lengths.min()) == length:
        batch = TokenBatch(tokens.ids[positions].astype(np.int64), None)
    else:
        mask = columns < lengths[:, None]
        # Padding reads the token at 0, which is then replaced.
        positions = np.where(mask, positions, 0)
        ids = np.where(mask, tokens.ids[positions], pad_id)
        batch = TokenBatch(ids.astype(np.int64), mask.astype(np.int64))
    fields = _padded_fields(tokens, rows, positions, batch.attention_mask)
    if tokens.auxiliary is not None:
        fields["auxiliary"] = pad(tokens.auxiliary, rows, pad_id)
    if not fields:
        return batch
    return attrs.evolve(batch, **fields)


def _padded_fields(
    tokens: TokenIds,
    rows: NDArray[np.int64],
    positions: NDArray[np.int64],
    mask: NDArray[np.int64] | None,
) -> dict[str, Any]:
    """Return the fields of a batch that are not None, besides ids, mask and auxiliary prompts.

    `rows` are the texts of the batch; `positions`, `(batch, length)`, are indices of their tokens in `tokens`.
    """
    import numpy as np

    fields: dict[str, Any] = {}
    if tokens.prefix is not None:
        fields["prefix"] = tokens.prefix.ids.astype(np.int64)
    if tokens.readings is not None:
        fields["readings"] = tokens.readings[rows].astype(np.int64)
    if tokens.hidden is not None:
        hidden = tokens.hidden[positions]
        if mask is not None:
            hidden &= mask == 1
        if tokens.prefix is not None and tokens.prefix.hidden is not None:
            of_prefix = np.tile(tokens.prefix.hidden, (len(rows), 1))
            hidden = np.concatenate([of_prefix, hidden], axis=1)
        fields["hidden"] = hidden
    return fields


class TokenizerForPrompts:
    """Methods of a tokenizer for prompts: `truncate`, and others that only some backbones need."""

    @property
    def mask_token(self) -> str | None:
        """The mask token as a string, or None if the vocabulary has none."""
        return None

    def shareable(self, ids: NDArray[np.int32]) -> int:
        """Return how many of a text's first ids may belong to a shared prefix: those before a placeholder."""
        return len(ids)

    def auxiliary(self, texts: Sequence[str], max_length: int) -> TokenIds | None:
        """Tokenise the texts in the prompt of `BackboneTraits.auxiliary`, or return None without one."""
        return None

    def encode_marked(
        self,
        texts: Sequence[str],
        starts: Sequence[int] | None,
        layers: tuple[int, ...] | None,
    ) -> TokenIds:
        """Tokenise without truncation, and set `TokenIds.hidden` and `TokenIds.readings`.

        Hidden are the tokens of text `i` that end before character `starts[i]`, but never its last token: the
        backbone's module sets their `TokenStates.attention_mask` to 0. `readings` is the index of `layers` in
        `BuildContext.readings`.
        """
        raise NotImplementedError

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Cut each text to at most `max_length` tokens, not counting special tokens.

        The result is a prefix of the text; no character is split.
        """
        raise NotImplementedError


class Tokenizer(TokenizerForPrompts):
    """Text -> token ids, for many texts at once. A subclass must have `pad_id` and `encode`.

    `TokenizerForPrompts` has further methods, which prompts need.
    """

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str | None:
        """Hash of everything that determines a text's ids; None if unknown. The vector store needs it."""
        return None

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise with special tokens, truncating to `max_length` tokens."""
        raise NotImplementedError


class TokenStates(NamedTuple):
    """Output of a backbone's module and input of a pooler's module.

    A named tuple, because compilers trace tuples but reject other classes.
    """

    last_hidden_state: Tensor
    """`(batch, length, width)`, the last layer, or the mean of the layers that the backbone selects."""
    attention_mask: Tensor | None
    """`(batch, length)`, 0 for padding (on either side) and hidden tokens, else 1; None if all are 1."""
    layers: tuple[Tensor, ...] | None = None
    """Embeddings, then every layer, each `(batch, length, width)`; for a pooler that needs `layers`."""
    decoder_state: Tensor | None = None
    """`(batch, width)`, the decoder's first output; for a pooler that needs `decoder`."""
    mask_state: Tensor | None = None
    """`(batch, width)`, the state of the last mask token; for a pooler that needs `mask-token`. If the pooler
    also needs `template-alone`, the state of the template without a sentence is subtracted; there the part
    after the sentence keeps its positions. With `template-alone-from-0`, positions run on without a gap."""


@attrs.frozen(eq=False)
class TokenVectors:
    """Token vectors of `n` texts, padded to one length: the output of a pooler with `output = "tokens"`."""

    vectors: Tensor
    """`(n, length, width)`; arbitrary where `mask` is False."""
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


@attrs.frozen(eq=False)
class RaggedVectors:
    """Token vectors of `n` texts in NumPy: text `i` has `rows[offsets[i]:offsets[i + 1]]`.

    It behaves like a list of texts: it has a length, and can be iterated over and indexed, also with a slice or
    an array.
    """

    rows: NDArray[np.float32]
    """Concatenated vectors of all tokens, `(total, width)`."""
    offsets: NDArray[np.int64]
    """Offsets into `rows`, `(n + 1,)`, starting at 0."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def width(self) -> int:
        """Dimension of a vector."""
        width: int = self.rows.shape[1]
        return width

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Vectors per text, `(n,)`."""
        result: NDArray[np.int64] = self.offsets[1:] - self.offsets[:-1]
        return result

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        return (self[text] for text in range(len(self)))

    @overload
    def __getitem__(self, texts: int) -> NDArray[np.float32]: ...

    @overload
    def __getitem__(self, texts: slice | NDArray[np.int64]) -> RaggedVectors: ...

    def __getitem__(
        self, texts: int | slice | NDArray[np.int64]
    ) -> NDArray[np.float32] | RaggedVectors:
        """Return the vectors of a text, `(tokens, width)`, or of several texts."""
        import numpy as np

        if isinstance(texts, slice):
            texts = np.arange(len(self))[texts]
        if isinstance(texts, np.ndarray):
            return RaggedVectors.of([self[int(text)] for text in texts], self.width)
        if not -len(self) <= texts < len(self):
            raise IndexError(
                f"there are {len(self)} texts, and none has the index {texts}"
            )
        text = texts % len(self)
        return self.rows[self.offsets[text] : self.offsets[text + 1]]

    @classmethod
    def of(cls, texts: Sequence[NDArray[np.float32]], width: int) -> RaggedVectors:
        """Return the vectors of several texts, each `(tokens, width)`."""
        import numpy as np

        lengths = [len(text) for text in texts]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        empty = np.empty((0, width), np.float32)
        return cls(np.concatenate([empty, *texts]), offsets)

    @classmethod
    def join(cls, parts: Sequence[RaggedVectors]) -> RaggedVectors:
        """Concatenate the texts of all parts, at least one."""
        import numpy as np

        lengths = np.concatenate([part.lengths for part in parts])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return cls(np.concatenate([part.rows for part in parts]), offsets)

    def padded(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return zero-padded vectors `(n, longest, width)` and a mask `(n, longest)`; `longest` is at least 1."""
        import numpy as np

        mask = np.arange(self.lengths.max(initial=1)) < self.lengths[:, None]
        vectors = np.zeros((*mask.shape, self.width), self.rows.dtype)
        vectors[mask] = self.rows
        return vectors, mask


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
    """`(batch,)`, index of the first placeholder in each row; for an intervention with a placeholder."""
    auxiliary: Tensor | None = None
    """`(batch, width)`, state of the auxiliary prompt's last token at the same point, computed without the
    intervention; for an intervention with an auxiliary prompt."""
