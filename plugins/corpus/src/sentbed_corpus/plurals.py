"""Amounts with their nouns, for messages."""

from __future__ import annotations


def count(amount: int, noun: str) -> str:
    """Return an amount with its noun in singular or plural, such as `1 shard` or `3 shards`."""
    if amount == 1:
        return f"1 {noun}"
    return f"{amount} {noun}s"
