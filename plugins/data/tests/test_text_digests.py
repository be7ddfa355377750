from __future__ import annotations

import random

from sentbed_data.text_digests import first_of_equal, text_digest


def test_the_first_of_equal_texts_is_found_as_by_a_loop():
    draw = random.Random(0)
    texts = []
    first = []
    digests = bytearray()
    for _ in range(200):
        text = draw.choice(["", "a", "b", "ab", "ba", "x" * 99])
        text += draw.choice(["", "y"])
        texts.append(text)
        first.append(texts.index(text))
        digests += text_digest(text.encode())

    assert first_of_equal(digests).tolist() == first
    assert first_of_equal(bytearray()).tolist() == []
    digests += text_digest(b"more")  # no view of it is left, which would forbid this
