"""Keys of `task_prompts`: which ones can be misspelt, and which ones no evaluation is known to ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from sentbed._registry.registry import Plugins
from sentbed.protocols import Evaluator

SIDES = ("query", "document")
_OTHER_WORDS = {
    "queries": "query",
    "question": "query",
    "anchor": "query",
    "documents": "document",
    "doc": "document",
    "corpus": "document",
    "passage": "document",
    "passages": "document",
}
"""What a side is called elsewhere -> what it is called here."""

SHORTEST_WORD = 5
"""Letters of a word that a misspelling can be told from: `STS1` may be a task."""
ALIKE = 0.8
"""Least similarity of a misspelling, by `difflib`."""


def misspelt_keys(keys: Iterable[str], plugins: Plugins) -> Iterator[tuple[str, str]]:
    """Yield each key that is a misspelt side, evaluator or type of tasks, and what it may be.

    Any other key may be the name of a task, of which only the evaluator knows.
    """
    keys = list(keys)
    if not keys:
        # Looking for types of tasks imports every evaluator.
        return
    words = [*SIDES]
    for info in plugins.importable("evaluator"):
        words += [info.name, *getattr(info.cls, "task_types", ())]
    spellings = {word.lower(): word for word in words}
    long_words = [word for word in spellings if len(word) >= SHORTEST_WORD]
    for key in keys:
        part, side = _parts(key)
        if part.lower() in spellings or not part.isalpha():
            continue
        other = _OTHER_WORDS.get(part.lower())
        if other is None:
            close = get_close_matches(part.lower(), long_words, n=1, cutoff=ALIKE)
            other = next((spellings[word] for word in close), None)
        if other is not None:
            yield key, f"{other}{side}"


def unused_keys(keys: Iterable[str], evaluators: Sequence[Evaluator]) -> list[str]:
    """Return the keys of tasks and types for which no evaluator asks; none where that cannot be known.

    An evaluator without types of tasks asks by its own name alone.
    """
    if not evaluators or any(evaluator.task_types for evaluator in evaluators):
        return []
    names = [evaluator.name for evaluator in evaluators]
    keys_in_use = {*SIDES, *names}
    return [key for key in keys if _parts(key)[0].lower() not in keys_in_use]


def _parts(key: str) -> tuple[str, str]:
    """Return the task or type of a key, and `-query` or `-document` behind it."""
    for side in SIDES:
        ending = f"-{side}"
        if key.lower().endswith(ending):
            return key[: -len(ending)], ending
    return key, ""
