"""Rows of scores on clean items, and the section `clean` of a run's report that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from sentbed.helpers import score_digits
from sentbed.protocols import ReportSection, Score

from sentbed_audit.clean.overlap import Overlap, clean_score
from sentbed_audit.clean.seen_texts import NEAR, RUN

NAMES = ("encoder", "task", "metric")
NUMBERS = (
    "items",
    "seen",
    "score",
    "on clean items",
    "difference",
    "from",
    "to",
)
TITLE = "Scores on items that do not occur in training texts"

Row: TypeAlias = tuple[str | int | float | None, ...]


def clean_rows(overlap: Overlap, scores: Iterable[Score]) -> Iterator[Row]:
    """Yield a row with `NAMES` and `NUMBERS` for each score whose items have known texts.

    Raises:
        RunError: if a score cannot be computed from its items.
    """
    for score in scores:
        seen = overlap.seen_items(score)
        if seen is None or score.items is None:
            continue
        numbers: list[float | None] = [score.value, None, None, None, None]
        clean = clean_score(score.items, seen)
        if clean is not None:
            value, difference = clean
            numbers[1:] = [value, difference.value, *difference.interval()]

        digits = score_digits([score.value])
        rounded: list[float | None] = []
        for number in numbers:
            if number is None:
                rounded.append(None)
            else:
                rounded.append(round(number, digits))
        names = score.encoder, score.task, score.metric
        yield (*names, len(seen), int(seen.sum()), *rounded)


def clean_section(overlap: Overlap, scores: Iterable[Score]) -> ReportSection:
    """Return the section of a run: numbers of seen items, scores on clean items, intervals of differences."""
    rows = tuple(clean_rows(overlap, scores))
    return ReportSection("clean", TITLE, (*NAMES, *NUMBERS), rows, note(overlap))


def note(overlap: Overlap) -> str:
    """Return the sentences that explain the numbers."""
    names = ", ".join(dict.fromkeys(source.name for source in overlap.training))
    return (
        f"{overlap.read:,} training texts were read, of {names}. A text is seen if a training text has the same "
        f"words, or if {100 * NEAR:.4g} % of its words are in runs of {RUN} words that training texts have; case "
        "and punctuation are ignored. An item is seen if any of its texts is; the others are clean. `difference` "
        "is the score on clean items minus the score on all items, with a 95 % confidence interval, paired by "
        "item. Seen items may be easier or harder for other reasons: to say which encoder is better, compare "
        "scores on clean items. There is no number where fewer than two items are clean, or where their "
        "correlation is undefined. Scores whose items have no known texts are left out."
    )
