"""Texts of a given length in tokens, for measurements of speed."""

from __future__ import annotations

_LIST = (
    "the and that was for with his her not you have this from they she had each one were all "
    "been year said when who will more if out so up what them can some time such into him "
    "then two its now only like over new man our may come down know day made work back here "
    "life much old way well long"
)
WORDS = _LIST.split()
"""Short and common words. In most vocabularies, each is a single token."""

SHORTEST = 16
"""Smallest length of texts in tokens. Texts differ only in their first three words, which must not be cut off:
they have at most 14 bytes, and so at most 14 tokens."""

MOST = len(WORDS) ** 3
"""Largest number of different texts of a length."""


def texts_of(count: int, length: int) -> list[str]:
    """Return `count` different texts of `length` words each, which have at least `length` tokens.

    Texts differ from the first word on, since an engine may compute a prefix only once if all texts share it.
    """
    words = len(WORDS)
    rest = [WORDS[place % words] for place in range(3, length)]
    texts = []
    for row in range(count):
        # The first three words are the digits of the row's number in base `words`, the last digit first.
        first_three = [WORDS[row // words**place % words] for place in range(3)]
        texts.append(" ".join(first_three + rest))
    return texts
