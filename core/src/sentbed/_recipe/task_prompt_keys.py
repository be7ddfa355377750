"""Checks of the keys of `task_prompts`: misspelt ones, and ones that no evaluation uses."""

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
"""Name of a side in other libraries -> its name here."""

SHORTEST_WORD = 5
"""Smallest number of letters of a word of which misspellings are detected: `STS1` may be a task."""
ALIKE = 0.8
"""Smallest similarity of a word and its misspelling, by `difflib`."""


def misspelt_keys(keys: Iterable[str], plugins: Plugins) -> Iterator[tuple[str, str]]:
    """Yield each key that is a misspelt side, evaluator or type of tasks, and the suggested spelling.

    Any other key may be the name of a task, which only an evaluator knows.
    """
    keys = list(keys)
    if not keys:
        # Do not import every evaluator for nothing.
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
    """Return the keys that no evaluator uses; none if that is unknown.

    An evaluator without `task_types` uses its own name only.
    """
    if not evaluators or any(evaluator.task_types for evaluator in evaluators):
        return []
    names = [evaluator.name for evaluator in evaluators]
    keys_in_use = {*SIDES, *names}
    return [key for key in keys if _parts(key)[0].lower() not in keys_in_use]


def _parts(key: str) -> tuple[str, str]:
    """Return the task or type in a key, and the ending `-query` or `-document`, which may be empty."""
    for side in SIDES:
        ending = f"-{side}"
        if key.lower().endswith(ending):
            return key[: -len(ending)], ending
    return key, ""
