"""Gold scores of sentence pairs that are probably wrong. A few of them change a correlation by points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sentbed_evaluators.scored_pair_files import ScoredPairs

RARE = 100
"""Scores are rare if they are at most one of so many."""
FEWEST = 20
"""Smallest number of scores that show their scale."""


def doubtful_gold_scores(pairs: ScoredPairs, path: Path) -> Iterator[str]:
    """Yield what is doubtful about the scores of the pairs of a file, with the number of the first such pair.

    A score is doubtful if it is rare and far from the others, or negative; a pair, if it has two scores that
    differ by more than half of the scale.
    """
    ordered = sorted(pairs.scores)
    rare = max(1, len(ordered) // RARE)
    common = ordered[rare:-rare]
    if len(ordered) < FEWEST or common[0] == common[-1]:
        return

    low = common[0]
    high = common[-1]
    width = high - low
    far = []
    negative = []
    for number, score in enumerate(pairs.scores):
        if not low - width <= score <= high + width:
            far.append(number)
        elif score < 0 <= low:
            negative.append(number)
    contradicting = _contradicting(pairs, width / 2)
    doubtful = {
        f"far from the others, which go from {low:g} to {high:g}": far,
        "that are negative, unlike the others": negative,
        "opposite to that of an earlier pair of the same texts": contradicting,
    }
    for what, numbers in doubtful.items():
        if numbers:
            first = numbers[0]
            yield (
                f"gold scores {what}: {len(numbers):,} of {len(pairs):,}, such as "
                f"{pairs.scores[first]:g}; repair or remove these pairs, on which correlations depend "
                f"@ {path}, pair {first + 1:,}"
            )


def _contradicting(pairs: ScoredPairs, distance: float) -> Sequence[int]:
    """Return the numbers of pairs whose texts had a score before that differs by more than `distance`."""
    score_of: dict[tuple[str, str], float] = {}
    contradicting = []
    for number, texts in enumerate(pairs.texts):
        score = pairs.scores[number]
        earlier = score_of.setdefault(texts, score)
        if abs(score - earlier) > distance:
            contradicting.append(number)
    return contradicting
