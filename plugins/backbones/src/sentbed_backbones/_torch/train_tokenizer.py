"""Training of tokenizers on the texts of a recipe: WordPiece as in BERT, and byte-level BPE as in OPT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import tokenizers
import transformers
from sentbed import ModelError

SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}

LONGEST_WORD = 100
"""Largest number of characters of a word that is used in training: the time for a word is quadratic in its
length. WordPiece has no tokens for a longer word anyway: it is unknown as a whole."""

NO_TEXT = "there is no text to train a tokenizer on; give the recipe a stage or an evaluation, or name a `model`"


def train_wordpiece(texts: Iterable[str], vocab_size: int) -> Any:
    """Train a WordPiece tokenizer like that of BERT uncased and return it as a transformers tokenizer.

    The same texts give the same tokenizer in every process. At most half of the vocabulary are single
    characters, the most frequent ones; a word with any other character is unknown. Of words with more than
    `LONGEST_WORD` characters, only the characters are counted.
    """
    normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    splitter = tokenizers.pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        splits = splitter.pre_tokenize_str(normalizer.normalize_str(text))
        words.update(word for word, _ in splits)

    if not words:
        raise ModelError(NO_TEXT)

    special = list(SPECIAL_TOKENS.values())
    alphabet = _alphabet(words, (vocab_size - len(special)) // 4)

    def trained_words() -> Iterator[str]:
        for word, count in words.items():
            if len(word) <= LONGEST_WORD and alphabet.issuperset(word):
                yield from repeat(word, count)

    # The library numbers continuation characters (`##a`) in the order of a hash table. As special tokens of a
    # draft they get a fixed order; the final tokenizer has the draft's vocabulary, and they are not special.
    continued = [f"##{character}" for character in sorted(alphabet)]
    draft = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(unk_token=SPECIAL_TOKENS["unk_token"])
    )
    draft.pre_tokenizer = splitter

    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=special + continued,
        initial_alphabet=sorted(alphabet),
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    draft.train_from_iterator(trained_words(), trainer)

    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(
            vocab=draft.get_vocab(), unk_token=SPECIAL_TOKENS["unk_token"]
        )
    )
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = tokenizers.decoders.WordPiece()

    first, last = SPECIAL_TOKENS["cls_token"], SPECIAL_TOKENS["sep_token"]
    _put_around(tokenizer, f"{first} $A {last}", [first, last])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **SPECIAL_TOKENS
    )


def train_byte_bpe(
    texts: Iterable[str],
    vocab_size: int,
    specials: Mapping[str, str],
    template: str,
) -> Any:
    """Train a byte-level BPE like those of GPT-2 and OPT and return it as a transformers tokenizer.

    No text is unknown to it, since every byte is a token. `specials` are the special tokens by role, in the
    order of their ids; `template` places them around a text `$A`. Raises `ModelError` if there is no text.
    """
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())

    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()

    names = list(dict.fromkeys(specials.values()))
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=names,
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )

    training_texts = iter(texts)
    first = next(training_texts, None)
    if first is None:
        raise ModelError(NO_TEXT)

    tokenizer.train_from_iterator(chain([first], training_texts), trainer)
    _put_around(tokenizer, template, names)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials)


def _put_around(
    tokenizer: tokenizers.Tokenizer,
    template: str,
    names: Sequence[str],
) -> None:
    """Let a tokenizer put special tokens around each text, as in `template`, where `$A` is the text."""
    numbers = [(name, tokenizer.token_to_id(name)) for name in names]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=template, special_tokens=numbers
    )


def _alphabet(words: Counter[str], size: int) -> set[str]:
    """Return the `size` most frequent characters in words; of equally frequent ones, the lower code points."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count

    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return set(ranked[:size])
