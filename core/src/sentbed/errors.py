"""Every error that sentbed raises on purpose.

A message says what was found, what was expected and what to do; a place (`file:line`, dotted path) follows
behind `@`. The command line prints these without a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs


class SentbedError(Exception):
    """Base of all errors raised on purpose."""


class DataError(SentbedError):
    """A data file cannot be used as it is; names the file and the line."""

    def __init__(self, message: str, file: object = None, line: int | None = None) -> None:
        place = "" if file is None else f" @ {file}" + ("" if line is None else f":{line}")
        super().__init__(message + place)


class ModelError(SentbedError):
    """Model weights or a tokenizer are missing, unsafe or incomplete."""


class RuntimeUnavailableError(SentbedError):
    """This machine cannot run what the recipe asks for."""


class PluginError(SentbedError):
    """A plugin breaks the rules of the registry, a name is claimed twice, or the configuration is wrong."""


class RunError(SentbedError):
    """A run cannot start or go on; what was computed so far is kept."""


class RecipeError(SentbedError):
    """All problems of a recipe, found in one pass."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        count = len(self.problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} in the recipe:\n{lines}")

    def __reduce__(self) -> tuple[type[RecipeError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


@attrs.frozen
class Problem:
    """One thing that is wrong with a recipe.

    `message` is a full sentence that ends in what to do; `path` is the dotted path in the recipe
    (`stage.0.loss.temperature`); `file` and `line` say where (line counts from 1, None where unknown);
    `misfit` says that parts are right alone and do not go together: a study leaves such a cell out.
    """

    message: str
    path: str = ""
    file: str | None = None
    line: int | None = None
    misfit: bool = False

    def __str__(self) -> str:
        place = "" if self.file is None else self.file + ("" if self.line is None else f":{self.line}")
        where = " ".join(part for part in (place, self.path) if part)
        return f"{self.message} @ {where}" if where else self.message


def suggest(found: str, choices: Sequence[str]) -> str:
    """Return ` Did you mean `x`?` for the closest choice, or the sorted choices where none is close."""
    from difflib import get_close_matches

    close = get_close_matches(found, choices, n=1, cutoff=0.6)
    if close:
        return f" Did you mean `{close[0]}`?"
    listed = ", ".join(f"`{choice}`" for choice in sorted(choices))
    return f" Choose one of {listed}." if listed else ""
