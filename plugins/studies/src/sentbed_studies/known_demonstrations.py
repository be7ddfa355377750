"""The demonstrations of PromptEOL's authors, which recipes name but which sentbed does not come with."""

from __future__ import annotations

from sentbed_common import KnownData, KnownFile

PUBLISHED = KnownData(
    name="prompteol-demonstrations",
    summary='PromptEOL\'s 300 demonstrations: prompt, file = "data:icl/demonstrations_300.txt"',
    places=("icl",),
    files=(
        KnownFile(
            "demonstrations_300.txt",
            rows=300,
            sha256=(
                "92c3a40dbd756c14abaf97266543843bb8bd1365ef21d020ccc48a40667d8777",
            ),
            url="https://raw.githubusercontent.com/kongds/scaling_sentemb/"
            "656ddec6641b8ea279f760ccbf711da9155a35e3/icl_examples.txt",
        ),
    ),
    source="https://github.com/kongds/scaling_sentemb",
    licence="not stated; 99 sentences of STS-B, 201 of a dictionary",
)
"""Demonstrations of PromptEOL's authors: the file `icl_examples.txt` of their code.

Each line is a template with a demonstration. They are those of the paper's table 5 in the same order, with three
differences: the last word that is defined has another definition, headlines do not end with a full stop, and one
sentence has another word.
"""
