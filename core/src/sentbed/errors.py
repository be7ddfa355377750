"""Exceptions that sentbed raises deliberately, and helpers for their messages.

A message says what was found, what was expected and what to do. The position follows after `@`: `file:line`, and
the dotted path of a key. The command line prints these errors without a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

import attrs


class SentbedError(Exception):
    """Base class of all errors that sentbed raises deliberately."""


class DataError(SentbedError):
    """Raised if a data file cannot be used. The message names the file and the line, if they are known."""

    def __init__(
        self,
        message: str,
        file: object = None,
        line: int | None = None,
    ) -> None:
        if file is not None:
            message += f" @ {file}"
            if line is not None:
                message += f":{line}"
        super().__init__(message)


class ModelError(SentbedError):
    """Raised if a model, its tokenizer or a saved encoder cannot be used."""


class RuntimeUnavailableError(SentbedError):
    """Raised if this machine cannot run the recipe."""


class PluginError(SentbedError):
    """Raised if a plugin is missing or faulty, two plugins claim a name, or the configuration is invalid."""


class RunError(SentbedError):
    """Raised if a run or another operation cannot start or continue. The results so far are kept."""


class NotFiniteError(RunError):
    """Raised if an encoder's vectors have NaN or infinite values.

    The message names the part that produced them.
    """


class RecipeError(SentbedError):
    """Raised if a recipe has problems. `problems` has all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        count = len(self.problems)
        noun = "problem" if count == 1 else "problems"
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"{count} {noun} in the recipe:\n{lines}")

    def __reduce__(self) -> tuple[type[RecipeError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


Level: TypeAlias = Literal["error", "misfit", "remark"]
"""How serious a problem is.

A misfit is a combination of parts, each of them valid, that cannot work; a study leaves it out. A remark stops
nothing.
"""


@attrs.frozen
class Problem:
    """A problem in a recipe."""

    message: str
    """A full sentence that ends with a remedy."""
    path: str = ""
    """Dotted path of the key, such as `stage.nli.loss.temperature`."""
    file: str | None = None
    line: int | None = None
    """Line in the file, from 1; None if it is unknown."""
    level: Level = "error"

    def __str__(self) -> str:
        positions = []
        if self.file:
            positions.append(self.file)
            if self.line is not None:
                positions[0] += f":{self.line}"
        if self.path:
            positions.append(self.path)
        if not positions:
            return self.message
        return f"{self.message} @ {' '.join(positions)}"


def listed(names: Iterable[str]) -> str:
    """Return the names in backticks, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def suggest(
    name: str,
    choices: Sequence[str],
    elsewhere: Mapping[str, str] | None = None,
) -> str:
    """Return ` Did you mean `x`?` with the choice closest to `name`; if none is close, a list of all choices.

    `elsewhere` has the choice for each name, in small letters, that other libraries use.
    """
    from difflib import get_close_matches

    close = get_close_matches(name, choices, n=1, cutoff=0.6)
    if elsewhere and name.lower() in elsewhere:
        close = [elsewhere[name.lower()]]
    if close:
        return f" Did you mean `{close[0]}`?"
    if choices:
        return f" Choose one of {listed(sorted(choices))}."
    return ""


def unknown_keys(keys: Iterable[str], choices: Sequence[str]) -> Iterator[str]:
    """Yield a message for each unknown key of a table, which suggests one of the `choices`."""
    for key in keys:
        yield f"unknown key `{key}`.{suggest(key, choices)}"


def reason_of(error: BaseException) -> str:
    """Return the message of an error, with its type if sentbed did not raise it."""
    text = str(error)
    if not text:
        return type(error).__name__
    if isinstance(error, SentbedError):
        return text
    return f"{type(error).__name__}: {text}"


@contextmanager
def foreign(
    error_of: Callable[[str], SentbedError],
    what: str,
    advice: str,
) -> Iterator[None]:
    """Raise `error_of(message)` in place of any exception that another library raises in the block.

    The message has `what` failed, the reason, and the `advice`. Errors of sentbed, Ctrl-C and the end of the
    process are raised unchanged. Use it around a library that reads a user's file.
    """
    try:
        yield
    except (SentbedError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of a library in Rust is a `BaseException`
        reason = " ".join(reason_of(error).split())
        raise error_of(f"{what}: {reason:.400}; {advice}") from error
