"""Sentences that the rooms encode and train on, written for this purpose."""

from __future__ import annotations

from collections.abc import Iterator

TEXTS = (
    "The gardener waters her tomatoes before breakfast.",
    'He asked: "Is the last ferry gone?"',
    "why did the clock stop",
    "It rained. Nobody minded, did they?",
    "Ein Café in Zürich 🍵 für zwei, 茶とケーキ; cafe\u0301!",
    "  two  spaces,\ta tab and\na line break ",
    "The gardener waters her tomatoes before breakfast.",
    "No.",
    "A caravan of eleven patient camels crossed the dry valley while the guides, who had walked since dawn, "
    "argued about the shortest way to the well and whether the water in it would be enough for all of them.",
)

PEOPLE = ("the baker", "a pilot", "our neighbour", "the old judge")
DEEDS = ("repairs", "paints", "sells", "hides")
THINGS = ("a red bicycle", "the broken piano", "two clay jars", "a map of the coast")
LABELS = ("entailment", "neutral", "contradiction")


def training_rows() -> Iterator[dict]:
    """Yield rows with all columns that a loss may need; each text occurs once in its column."""
    number = 0
    for i, person in enumerate(PEOPLE):
        for j, deed in enumerate(DEEDS):
            for k, thing in enumerate(THINGS):
                other_deed = DEEDS[(j + 1) % 4]
                other_thing = THINGS[(k + 1 + i % 3) % 4]
                row = {"anchor": f"{person} {deed} {thing}"}
                row["positive"] = f"{thing} is what {person} {deed}, number {number}"
                row["negative"] = (
                    f"{person} {other_deed} {other_thing} instead of {thing}"
                )
                row["score"] = float(number * 7 % 11) / 2
                row["label"] = LABELS[number % 3]
                yield row
                number += 1
