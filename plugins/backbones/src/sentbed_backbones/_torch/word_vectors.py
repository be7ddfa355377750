"""Text files of word vectors, in the formats of GloVe and word2vec, and a tokenizer of their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from sentbed import DataError
from torch import Tensor

UNKNOWN = "[UNK]"
"""Token of words without a vector. Its row is zero, and it is left out of texts."""


def read_word_vectors(
    file: Path, most_words: int | None = None
) -> tuple[list[str], Tensor]:
    """Return the words in a file and their vectors, `(words, width)` in fp32.

    The first word is `UNKNOWN`, with a row of zeros. Each line of the file has a word and its numbers,
    separated by single spaces; the word may contain spaces. If a word occurs twice, its first vector is used. A
    first line of two whole numbers has the counts of words and of numbers, as in word2vec. At most `most_words`
    lines are read.

    Raises:
        DataError: if a line does not have a word and as many finite numbers as the first vector; the error
            names the line.
    """
    words: dict[str, int] = {UNKNOWN: 0}
    rows: list[np.ndarray[Any, Any]] = []
    width = 0
    lines = 0
    with file.open("rb") as stream:
        for number, content in enumerate(stream, 1):
            line = content.decode("utf-8", "replace").rstrip()
            if number == 1:
                # A byte order mark, as some programs on Windows write it.
                line = line.removeprefix("\ufeff")
            fields = line.split(" ")
            if number == 1 and len(fields) == 2 and all(map(str.isdecimal, fields)):
                width = int(fields[1])
                continue

            if most_words is not None and lines == most_words:
                break

            lines += 1
            width = width or len(fields) - 1
            word = ""
            if width:
                word = " ".join(fields[:-width])
            if not word:
                raise DataError(
                    f"found {line!r:.80}, expected a word and {width or 'its'} numbers; is this a "
                    "file of GloVe or word2vec in text format?",
                    file,
                    number,
                )

            if word in words:
                continue

            rows.append(_numbers(fields[-width:], file, number))
            words[word] = len(rows)

    if not rows:
        raise DataError("found no word vectors, expected one a line", file, 1)

    table = np.concatenate([np.zeros((1, width), np.float32), np.stack(rows)])
    return list(words), torch.from_numpy(table)


def _numbers(
    fields: list[str],
    file: Path,
    number: int,
) -> Any:
    try:
        values = np.array(fields, np.float32)
    except ValueError as error:
        raise DataError(
            f"found {' '.join(fields)!r:.80}, expected {len(fields)} numbers; every line must have as many",
            file,
            number,
        ) from error

    if not np.isfinite(values).all():
        raise DataError(
            "found NaN or an infinite number, expected finite ones; take the line out",
            file,
            number,
        )

    return values


def word_tokenizer(words: list[str], lowercase: bool) -> Any:
    """Return a tokenizer that splits texts at white space and punctuation, as BERT's does, into these words."""
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(vocabulary, unk_token=UNKNOWN)
    )
    if lowercase:
        tokenizer.normalizer = tokenizers.normalizers.Lowercase()

    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=UNKNOWN
    )
