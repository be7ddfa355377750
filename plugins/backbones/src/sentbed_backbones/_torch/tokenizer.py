"""Tokenising in bulk, and training a tokenizer."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import tokenizers
import transformers
from sentbed import ModelError
from sentbed.protocols import (
    TokenIds,
    Tokenizer,
)

SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


NO_TEXT = "there is no training text to train a tokenizer on; give the recipe a stage, or name a `model`"


class BulkTokenizer(Tokenizer):
    """A fast tokenizer, called directly: all texts in one call, in threads, without padding."""

    def __init__(self, original: Any) -> None:
        if not original.is_fast:
            raise ModelError(
                f"the tokenizer `{type(original).__name__}` has no fast form (`tokenizer.json`); "
                "convert it with transformers and save it beside the weights"
            )
        self.original = original
        self._pad_id = int(original.pad_token_id or 0)
        self._mask_token: str | None = original.mask_token
        ends = (original.bos_token_id, original.eos_token_id, self.pad_id)
        self._nothing = [next(int(token) for token in ends if token is not None)]
        self._fast = original.backend_tokenizer
        self._fast.no_padding()
        self._fingerprint: str | None = None

    @property
    def pad_id(self) -> int:
        """The id that fills a batch."""
        return self._pad_id

    @property
    def mask_token(self) -> str | None:
        """The mask token as it is written."""
        return self._mask_token

    @property
    def fingerprint(self) -> str:
        """A hash of the definition, of the special tokens beside it, and of the library's version."""
        if self._fingerprint is None:
            # It is set anew for every call.
            self._fast.no_truncation()
            what = [self._fast.to_str(), self.pad_id, self.mask_token, self._nothing, tokenizers.__version__]
            self._fingerprint = hashlib.sha256(json.dumps(what).encode()).hexdigest()
        return self._fingerprint

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise with special tokens, cut to `max_length` tokens.

        An empty text is one token where the tokenizer adds none (GPT-2): its start or end token.
        """
        self._fast.enable_truncation(max_length)
        encodings = self._fast.encode_batch_fast(list(texts))
        offsets = np.zeros(len(encodings) + 1, np.int64)
        np.cumsum([len(encoding) or 1 for encoding in encodings], out=offsets[1:])
        rows = (encoding.ids or self._nothing for encoding in encodings)
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1]))
        return TokenIds(ids, offsets)

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Cut each text to at most `max_length` tokens of its own, without special tokens.

        What is left are the first tokens of the text, without the white space behind them.
        """
        self._fast.no_truncation()
        cut, rows = list(texts), list(range(len(texts)))
        while rows:
            encodings = self._fast.encode_batch([cut[row] for row in rows], add_special_tokens=False)
            long = {row: e.offsets for row, e in zip(rows, encodings, strict=True) if len(e) > max_length}
            for row, offsets in long.items():
                cut[row] = _beginning(cut[row], offsets, max_length)
            # What is left may split into more tokens than it did in the whole: a byte-level token can hold
            # one character and a piece of the next. So it is looked at again.
            rows = list(long)
        return cut


def _beginning(text: str, offsets: Sequence[tuple[int, int]], count: int) -> str:
    """Return the first `count` tokens of a text, of which it has more."""
    end, following = offsets[count - 1][1], offsets[count][0]
    # A character may be spread over several tokens: it is kept whole or not at all. One that the normalizer
    # has merged into the one before it, such as an accent, stands between two tokens.
    kept = max(min(end, following), len(text[:following].rstrip()))
    return text[: min(kept, len(text) - 1)]


def train_wordpiece(texts: Iterable[str], vocab_size: int, lowercase: bool) -> Any:
    """Train BERT's kind of tokenizer on these texts; returns a transformers tokenizer.

    The same texts give the same tokenizer in every process. Half of the vocabulary at most goes to single
    characters, the most frequent ones; a word with any other character is unknown.
    """
    normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    splitter = tokenizers.pre_tokenizers.BertPreTokenizer()
    words = Counter(
        word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))
    )
    if not words:
        raise ModelError(NO_TEXT)
    special = list(SPECIAL_TOKENS.values())
    alphabet = _alphabet(words, (vocab_size - len(special)) // 4)
    known = (word for word, count in words.items() if alphabet.issuperset(word) for _ in range(count))
    # The library numbers continuation characters in the order of a hash table: as special tokens they have an
    # order of ours. The draft's vocabulary then goes into a tokenizer to which they are not special.
    continued = [f"##{character}" for character in sorted(alphabet)]
    draft = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=SPECIAL_TOKENS["unk_token"]))
    draft.pre_tokenizer = splitter
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=special + continued,
        initial_alphabet=sorted(alphabet),
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    draft.train_from_iterator(known, trainer)
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocab=draft.get_vocab(), unk_token=SPECIAL_TOKENS["unk_token"])
    )
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    first, last = (SPECIAL_TOKENS[key] for key in ("cls_token", "sep_token"))
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{first} $A {last}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL_TOKENS)


def train_byte_bpe(texts: Iterable[str], vocab_size: int, specials: Mapping[str, str], template: str) -> Any:
    """Train a byte-level BPE as GPT-2 and OPT have, of which no text is unknown; returns a tokenizer.

    `specials` are the special tokens by their role, in the order of their ids; `template` says where they
    stand around a text `$A`.
    """
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    names = list(dict.fromkeys(specials.values()))
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=names,
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_required(texts), trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=template, special_tokens=[(name, tokenizer.token_to_id(name)) for name in names]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials)


def _required(texts: Iterable[str]) -> Iterator[str]:
    found = False
    for text in texts:
        found = True
        yield text
    if not found:
        raise ModelError(NO_TEXT)


def _alphabet(words: Counter[str], size: int) -> set[str]:
    """Return the most frequent characters; ties go by code point."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return set(ranked[:size])
