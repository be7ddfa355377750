"""Splitting of texts into words."""

from __future__ import annotations

import re

_WIDE = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"

WORD = re.compile(f"(?!\\s)[{_WIDE}]|[^\\s{_WIDE}]+")
"""A word: consecutive characters without white space, or one character of Chinese, Japanese or Korean script."""


def count_words(text: str) -> int:
    """Return the number of words of a text."""
    return len(WORD.findall(text))


def words_with_space(text: str) -> list[str]:
    """Return the words of a text, each with the white space before it; white space at the end is dropped."""
    words = []
    start = 0
    for match in WORD.finditer(text):
        words.append(text[start : match.end()])
        start = match.end()

    return words
