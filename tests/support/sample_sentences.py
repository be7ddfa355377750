"""Sentences of the bundled sample, and stand-ins for their translations."""

from __future__ import annotations

import csv

import sentbed

CHARACTERS = {ord("a") + i: ord("一") + 7 * i for i in range(26)}


def sample_sentences():
    """Read the anchors of the sample's triplets."""
    with sentbed.locate("pkg:sentbed_data/sample/triplets.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        return [row["sent0"] for row in csv.DictReader(file)]


def in_chinese_characters(sentence):
    """Replace each letter by a Chinese character, which suffices to train a tokenizer."""
    return sentence.lower().translate(CHARACTERS)
