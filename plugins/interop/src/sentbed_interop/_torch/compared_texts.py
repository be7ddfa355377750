"""Texts that are encoded by an encoder and by another library, to compare the two."""

from __future__ import annotations

SENTENCES = (
    "A man is playing a guitar.",
    "Two dogs run; one barks - loudly!",
    'He said "no", didn\'t he?',
    "Größe und Maß: 3,5 m² für 20 €",
    "Line one\nline two",
    "  white space around  ",
    "http://example.org/a_b?c=d&e=1",
    "WORD word WoRd",
)

LONG = (" ".join(SENTENCES) + " ") * 40
"""A text longer than most `max_length`."""
