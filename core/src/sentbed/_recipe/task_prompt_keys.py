"""Checks of the keys of `task_prompts`: misspelt keys, and keys that no evaluation uses.

A key is the name of a task or a type of tasks, a side (`query` or `document`), or both: `Retrieval-query`.
"""

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
"""Smallest number of letters of a word whose misspellings are detected.

A key that resembles a shorter word, as `STS1` resembles `STS`, may well be a task.
"""

ALIKE = 0.8
"""Smallest similarity, from 0 to 1 by `difflib`, of a word and a key that counts as its misspelling."""


def misspelt_keys(keys: Iterable[str], plugins: Plugins) -> Iterator[tuple[str, str]]:
    """Yield each key that is a misspelt side, evaluator or type of tasks, and the key with the right spelling.

    Any other key may be the name of a task. Only evaluators know these names.
    """
    keys = list(keys)
    if not keys:
        # Returns before every evaluator is imported.
        return

    words = list(SIDES)
    for info in plugins.importable("evaluator"):
        words += [info.name, *getattr(info.cls, "task_types", ())]
    spellings = {word.lower(): word for word in words}
    long_words = [word for word in spellings if len(word) >= SHORTEST_WORD]

    for key in keys:
        name, side = _name_and_side(key)
        if name.lower() in spellings or not name.isalpha():
            continue
        right_name = _OTHER_WORDS.get(name.lower())
        if right_name is None:
            close = get_close_matches(name.lower(), long_words, n=1, cutoff=ALIKE)
            if close:
                right_name = spellings[close[0]]
        if right_name is not None:
            yield key, f"{right_name}{side}"


def unused_keys(keys: Iterable[str], evaluators: Sequence[Evaluator]) -> list[str]:
    """Return the keys that none of the evaluators uses.

    An evaluator without `task_types` uses only its own name and the sides. It is unknown which keys an evaluator
    with `task_types` uses, so the result is empty if there is one.
    """
    if not evaluators or any(evaluator.task_types for evaluator in evaluators):
        return []
    names = [evaluator.name for evaluator in evaluators]
    keys_in_use = {*SIDES, *names}
    return [key for key in keys if _name_and_side(key)[0].lower() not in keys_in_use]


def _name_and_side(key: str) -> tuple[str, str]:
    """Return the task or type of tasks in a key, and its ending: `-query`, `-document`, or empty."""
    for side in SIDES:
        ending = f"-{side}"
        if key.lower().endswith(ending):
            return key[: -len(ending)], ending
    return key, ""
