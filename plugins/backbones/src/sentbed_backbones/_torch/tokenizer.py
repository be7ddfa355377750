"""Tokenising in bulk, and training a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import tokenizers
import transformers
from sentbed import ModelError
from sentbed.protocols import TokenIds

SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


class BulkTokenizer:
    """A fast tokenizer, called directly: all texts in one call, in threads, without padding."""

    def __init__(self, original: Any) -> None:
        if not original.is_fast:
            raise ModelError(
                f"the tokenizer `{type(original).__name__}` has no fast form (`tokenizer.json`); "
                "convert it with transformers and save it beside the weights"
            )
        self.original = original
        self.pad_id = int(original.pad_token_id or 0)
        self._fast = original.backend_tokenizer
        self._fast.no_padding()

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise with special tokens, cut to `max_length` tokens."""
        self._fast.enable_truncation(max_length)
        encodings = self._fast.encode_batch_fast(list(texts))
        offsets = np.zeros(len(encodings) + 1, np.int64)
        np.cumsum([len(encoding) for encoding in encodings], out=offsets[1:])
        ids = np.fromiter(chain.from_iterable(e.ids for e in encodings), np.int32, int(offsets[-1]))
        return TokenIds(ids, offsets)


def train_wordpiece(texts: Iterable[str], vocab_size: int, lowercase: bool) -> Any:
    """Train BERT's kind of tokenizer on these texts; returns a transformers tokenizer."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=SPECIAL_TOKENS["unk_token"]))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS.values()), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise ModelError(
            "there is no training text to train a tokenizer on; give the recipe a stage, or name a `model`"
        )
    first, last = (SPECIAL_TOKENS[key] for key in ("cls_token", "sep_token"))
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{first} $A {last}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL_TOKENS)
