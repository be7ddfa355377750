"""What can happen to a file on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hypothesis import strategies as st

Damage: TypeAlias = Callable[[bytes], bytes]
"""The content of a file -> what is left of it."""


def flip(path):
    """Turn one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path):
    """Take the last byte."""
    path.write_bytes(path.read_bytes()[:-1])


@st.composite
def damages(draw):
    """Draw what may happen to the content of a file: bits, holes, cuts, parts that change places."""
    kind = draw(st.sampled_from(["flip", "hole", "cut", "swap", "grow", "empty"]))
    share, size = draw(st.floats(0, 1, exclude_max=True)), draw(st.integers(1, 16))
    bit = draw(st.integers(0, 7))

    def damage(content):
        at = int(share * len(content))
        head, part, tail = content[:at], content[at : at + size], content[at + size :]
        match kind:
            case "flip":
                return (
                    head
                    + bytes([byte ^ 1 << bit for byte in part[:1]])
                    + part[1:]
                    + tail
                )
            case "hole":
                return head + bytes(len(part)) + tail
            case "cut":
                return head
            case "swap":
                return part + head + tail
            case "grow":
                return content + content[:size]
        return b""

    return damage
