"""Damage to files: what disks, editors and strangers do to them, chosen by a generator with a seed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

EXTREMES = (
    b"0", b"-1", b"1e308", b"-1e400", b"nan", b"inf", b"1000000000", b"9223372036854775808", b"9" * 5000,
    b"0x" + b"f" * 400, b"true", b"null", b'""', b"[]", b"{}", b"''", b"\"\\u0000\"", b'"../../etc/passwd"',
    b'"pkg:"', b'"data:"', b'"hub:x"', b'"/dev/zero"', b'"\\u001b[2J"', b"[" * 200 + b"]" * 200,
)  # fmt: skip
"""Values in place of others."""

PIECES = (
    b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\x1b[31m", b"\r", b"\n\n\n", b"\t", b'"', b"'", b'"""',
    b"[[", b"]]", b"{", b"}", b"=", b"#", b",", b".", b"\xc2\x85", b"\xe2\x80\xa8", b"\xed\xa0\x80",
    b"\\", b" " * 70_000, b"a" * 300, b"x" * 1_200_000, b"a." * 300, b"-",
)  # fmt: skip
"""Bytes to insert."""

TOKEN = re.compile(rb"[A-Za-z0-9_.+-]+|\"[^\"\n]*\"|'[^'\n]*'")

Mutation = Callable[[bytes, Random], bytes]


def _range(content, random):
    start = random.randrange(len(content) + 1)
    return start, min(len(content), start + int(random.expovariate(1 / 20)) + 1)


def flip_a_bit(content, random):
    place = random.randrange(max(len(content), 1))
    return (
        content[:place]
        + bytes(
            byte ^ (1 << random.randrange(8)) for byte in content[place : place + 1]
        )
        + content[place + 1 :]
    )


def zero(content, random):
    start, end = _range(content, random)
    return content[:start] + bytes(end - start) + content[end:]


def delete(content, random):
    start, end = _range(content, random)
    return content[:start] + content[end:]


def cut(content, random):
    return content[: random.randrange(len(content) + 1)]


def repeat(content, random):
    start, end = _range(content, random)
    return (
        content[:end] + content[start:end] * random.choice((1, 2, 500)) + content[end:]
    )


def insert(content, random):
    place = random.randrange(len(content) + 1)
    return content[:place] + random.choice(PIECES) + content[place:]


def swap(content, random):
    a, b, c = sorted(random.randrange(len(content) + 1) for _ in range(3))
    return content[:a] + content[b:c] + content[a:b] + content[c:]


def replace_token(content, random):
    tokens = [*TOKEN.finditer(content[:100_000])]
    if not tokens:
        return insert(content, random)
    token = random.choice(tokens)
    new = random.choice((*EXTREMES, random.choice(tokens)[0]))
    return content[: token.start()] + new + content[token.end() :]


def move_a_line(content, random):
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    line = lines.pop(random.randrange(len(lines)))
    for _ in range(random.randrange(3)):
        lines.insert(random.randrange(len(lines) + 1), line)
    return b"".join(lines)


BYTES: Sequence[Mutation] = (flip_a_bit, zero, delete, cut, repeat, insert, swap)
TEXT: Sequence[Mutation] = (
    *BYTES,
    replace_token,
    replace_token,
    replace_token,
    move_a_line,
)


def damaged(content, random, mutations=TEXT):
    """Return the content after one to four mutations; it differs."""
    while True:
        mutated = content
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            mutated = random.choice(mutations)(mutated, random)
        if mutated != content:
            return mutated


def damage(file, random):
    """Damage a file, and return what it was."""
    before = file.read_bytes()
    text = file.suffix in (".json", ".toml", ".txt", ".csv", ".tsv", ".jsonl")
    file.write_bytes(damaged(before, random, TEXT if text else BYTES))
    return before
