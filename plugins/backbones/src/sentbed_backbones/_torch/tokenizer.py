"""A tokenizer that passes many texts at once to a fast tokenizer of transformers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import tokenizers
from numpy.typing import NDArray
from sentbed import ModelError
from sentbed.protocols import TokenIds, Tokenizer

HOW_IT_WAS_LOADED = ("is_local", "local_files_only")
"""Settings that transformers adds when it loads a tokenizer; it would save them too."""

LARGEST_ID = (1 << 31) - 1
"""The largest id of a token that `TokenIds` can hold."""


class BulkTokenizer(Tokenizer):
    """A tokenizer that calls the library `tokenizers` directly: all texts in one call, in threads, not padded.

    `original` is the tokenizer of transformers. `hides` is whether tokens may be hidden from the pooler; if so,
    all `TokenIds` have the field `hidden`. See `encode_from`. `embeddings` is the number of tokens for which the
    model has embeddings. `special_tokens` is whether special tokens ([CLS], </s>) are put around a text.
    `empty_id` is the id of the token that a text without tokens gets; by default, it is the start token, else
    the end token, else padding.
    """

    pad_id: int = 0
    """Id of the padding token."""
    mask_token: str | None = None
    """Text of the mask token; None if there is none."""
    placeholder_id: int | None = None
    """Id of the intervention's placeholder; None if there is none."""

    def __init__(
        self,
        original: Any,
        placeholder: str | None = None,
        embeddings: int = LARGEST_ID + 1,
        hides: bool = False,
        special_tokens: bool = True,
        empty_id: int | None = None,
    ) -> None:
        if not original.is_fast:
            raise ModelError(
                f"the tokenizer `{type(original).__name__}` has no fast form (`tokenizer.json`); "
                "convert it with transformers and save it beside the weights"
            )

        self.original = original
        self.hides = hides
        self.special_tokens = special_tokens
        self._embedded_tokens = embeddings
        pad_id = int(original.pad_token_id or 0)
        if pad_id < self._embedded_tokens:
            # Otherwise the id remains 0: nothing attends to padding, so that any token with an embedding will
            # do.
            self.pad_id = pad_id

        self.mask_token = original.mask_token
        if placeholder is not None:
            self.placeholder_id = int(original.convert_tokens_to_ids(placeholder))

        self._empty_id = self.pad_id
        for token_id in (original.eos_token_id, original.bos_token_id, empty_id):
            if token_id is not None:
                self._empty_id = int(token_id)

        self._definition = original.backend_tokenizer
        self._loaded_truncation: dict[str, Any] | None = self._definition.truncation
        self._definition.no_padding()
        self._fingerprint: str | None = None

    def shareable(self, ids: NDArray[np.int32]) -> int:
        """Return the number of ids that a shared prefix may have: those before the placeholder, or all."""
        if self.placeholder_id is None:
            return len(ids)

        (places,) = np.nonzero(ids == self.placeholder_id)
        if not len(places):
            return len(ids)

        return int(places[0])

    @property
    def fingerprint(self) -> str:
        """A hash of the tokenizer's definition, its special ids and the library's version."""
        if self._fingerprint is None:
            # Truncation is part of the definition, but every call sets it again.
            self._definition.no_truncation()
            what = [
                self._definition.to_str(),
                self.pad_id,
                self.mask_token,
                [self._empty_id, self.special_tokens],
                tokenizers.__version__,
            ]
            self._fingerprint = hashlib.sha256(json.dumps(what).encode()).hexdigest()

        return self._fingerprint

    def save(self, directory: Path) -> None:
        """Write the tokenizer in the format of transformers, as it was loaded.

        The library keeps the truncation of the last call in the tokenizer's definition, and transformers would
        save it from there as a setting.
        """
        self._definition.no_padding()
        if self._loaded_truncation is None:
            self._definition.no_truncation()
        else:
            self._definition.enable_truncation(**self._loaded_truncation)

        for name in HOW_IT_WAS_LOADED:
            self.original.init_kwargs.pop(name, None)

        try:
            self.original.save_pretrained(directory)
        except Exception as error:
            # tokenizers turns a system error, such as a full disk, into a plain `Exception`.
            if type(error) is Exception:
                raise OSError(str(error)) from error

            raise

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise texts and truncate them to `max_length` tokens, special tokens included (if they are added).

        If the tokenizer adds no special tokens (GPT-2), an empty text becomes the start or end token.

        Raises:
            ModelError: if a text has a token for which the model has no embedding.
        """
        self._definition.enable_truncation(max_length)
        encodings = self._definition.encode_batch_fast(
            list(texts), add_special_tokens=self.special_tokens
        )
        return self._token_ids(encodings)

    def encode_from(self, texts: Sequence[str], starts: Sequence[int]) -> TokenIds:
        """Tokenise texts without truncation, with tokens hidden from the pooler.

        In text `i`, the tokens that end before character `starts[i]` are hidden.

        Raises:
            ModelError: if a text has a token for which the model has no embedding.
        """
        self._definition.no_truncation()
        encodings = self._definition.encode_batch(list(texts))
        tokens = self._token_ids(encodings)
        hidden = _tokens_before(tokens, encodings, starts)
        return attrs.evolve(tokens, hidden=hidden)

    def _token_ids(self, encodings: Sequence[tokenizers.Encoding]) -> TokenIds:
        """Return the ids of encoded texts, each with at least one token."""
        lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
        rows = (encoding.ids for encoding in encodings)
        # The library's ids are unsigned numbers of 32 bits.
        ids = np.fromiter(chain.from_iterable(rows), np.uint32, int(lengths.sum()))

        self._require_embeddings(ids)

        filled = ids.astype(np.int32)
        (empty,) = np.nonzero(lengths == 0)
        if len(empty):
            starts = np.cumsum(lengths) - lengths
            filled = np.insert(filled, starts[empty], self._empty_id)
            lengths[empty] = 1

        tokens = TokenIds(filled, np.concatenate([[0], np.cumsum(lengths)]))
        if self.hides:
            tokens = attrs.evolve(tokens, hidden=np.zeros(len(filled), bool))

        return tokens

    def _require_embeddings(self, ids: NDArray[np.uint32]) -> None:
        """Raise `ModelError` if the model has no embedding for one of the ids."""
        beyond = ids[ids >= self._embedded_tokens]
        if not len(beyond):
            return

        number = int(beyond[0])
        token = self._definition.id_to_token(number)
        raise ModelError(
            f"a text has the token {token!r:.80}, number {number}, and the model has embeddings for "
            f"{self._embedded_tokens} tokens; take it out of the texts or the template, or fetch the model "
            "again if its tokenizer should not have it"
        )

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Truncate each text to at most `max_length` tokens, special tokens not counted.

        A truncated text is the text of its first tokens, without trailing white space.
        """
        self._definition.no_truncation()
        cut = list(texts)
        rows = list(range(len(cut)))
        while rows:
            encodings = self._definition.encode_batch(
                [cut[row] for row in rows], add_special_tokens=False
            )

            longer = []
            for row, encoding in zip(rows, encodings, strict=True):
                if len(encoding) > max_length:
                    cut[row] = _beginning(cut[row], encoding.offsets, max_length)
                    longer.append(row)

            # A truncated text is checked again: alone, it may have more tokens than as a part of the longer
            # text, since a byte-level token can hold a character and a part of the next one.
            rows = longer

        return cut


def _tokens_before(
    tokens: TokenIds,
    encodings: Sequence[tokenizers.Encoding],
    starts: Sequence[int],
) -> NDArray[np.bool_]:
    """Return which tokens end before character `starts[i]` of their text `i`, except the text's last token."""
    before = np.zeros(len(tokens.ids), bool)
    for row, start in enumerate(starts):
        place, last = tokens.offsets[row], tokens.offsets[row + 1] - 1
        # Leading special tokens have the offsets (0, 0).
        for _, end in encodings[row].offsets:
            if end > start or place == last:
                break

            before[place] = True
            place += 1

    return before


def _beginning(
    text: str,
    offsets: Sequence[tuple[int, int]],
    count: int,
) -> str:
    """Return the text of the first `count` tokens of a longer text."""
    end, following = offsets[count - 1][1], offsets[count][0]
    # A character may be spread over several tokens: it is kept whole or not at all. A character that the
    # normaliser merged into the previous one, such as an accent, lies between the offsets of two tokens.
    kept = max(min(end, following), len(text[:following].rstrip()))
    # The result is always shorter than the text, so that `truncate` comes to an end.
    return text[: min(kept, len(text) - 1)]
