"""Exceptions that sentbed raises deliberately.

A message says what was found, what was expected and what to do; the position (`file:line`, dotted path)
follows after `@`. The command line prints these errors without a traceback.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import attrs

LONGEST_MESSAGE = 2000
"""Largest number of characters of a message; of a longer one, beginning and end are shown."""

ALIKE = 20
"""Number of problems of one kind (equal but for names and numbers) that are shown; the others are counted."""

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters of terminals (C0 except tab and line feed, C1), bidirectional marks, and surrogates, which
cannot be encoded."""


def printable(text: str) -> str:
    """Return a text with control characters replaced by visible escapes, such as `\\x1b` or `\\u009b`.

    Everything that is printed or written passes through it, since names may come from a recipe or study of
    somebody else. Within a string of JSON or TOML the escape stands for the same character.
    """
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x7F else f"\\u{number:04x}"


class SentbedError(Exception):
    """Base class of all errors that sentbed raises deliberately."""

    def __str__(self) -> str:
        return printable(super().__str__())


class DataError(SentbedError):
    """Raised if a data file cannot be used; names the file and the line."""

    def __init__(
        self, message: str, file: object = None, line: int | None = None
    ) -> None:
        if file is not None:
            message += f" @ {file}"
            if line is not None:
                message += f":{line}"
        super().__init__(message)


class ModelError(SentbedError):
    """Raised if model weights or a tokenizer are missing, unsafe or incomplete."""


class RuntimeUnavailableError(SentbedError):
    """Raised if this machine cannot run the recipe."""


class PluginError(SentbedError):
    """Raised if a plugin breaks a rule, a name is claimed twice, or the configuration is invalid."""


class RunError(SentbedError):
    """Raised if a run cannot start or continue; results so far are kept."""


class NotFiniteError(RunError):
    """Raised if an encoder's vectors have NaN or infinite values; names the part that first gives them."""


class RecipeError(SentbedError):
    """Raised with all problems of a recipe, found in one pass."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        count = len(self.problems)
        noun = "problem" if count == 1 else "problems"
        lines = "\n".join(f"  {line}" for line in self.lines())
        super().__init__(f"{count} {noun} in the recipe:\n{lines}")

    def lines(self) -> Iterator[str]:
        """Yield each problem, and of those that differ only in names and numbers, the first `ALIKE`."""
        alike: Counter[str] = Counter()
        for problem in self.problems:
            kind = re.sub(r"`[^`]*`|'[^']*'|\d+", "", problem.message)
            alike[kind] += 1
            if alike[kind] <= ALIKE:
                yield str(problem)
        if more := sum(max(count - ALIKE, 0) for count in alike.values()):
            yield f"and {more:,} more like these"

    def __reduce__(self) -> tuple[type[RecipeError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


@attrs.frozen
class Problem:
    """A problem in a recipe.

    `message` is a full sentence that ends with a remedy; `path` is the dotted path in the recipe
    (`stage.nli.loss.temperature`); `file` and `line` give the position (lines from 1, None if unknown);
    `misfit` marks parts that are valid alone but do not fit together: a study leaves out such combinations.
    """

    message: str
    path: str = ""
    file: str | None = None
    line: int | None = None
    misfit: bool = False

    def __str__(self) -> str:
        place = self.file or ""
        if place and self.line is not None:
            place += f":{self.line}"
        message = shortened(self.message)
        if where := " ".join(filter(None, (place, self.path))):
            message += f" @ {where}"
        return printable(message)


def shortened(text: str) -> str:
    """Return a text; if it has more than `LONGEST_MESSAGE` characters, only its beginning and end."""
    if len(text) <= LONGEST_MESSAGE:
        return text
    half = LONGEST_MESSAGE // 2
    return f"{text[:half]} [...] {text[-half:]}"


def shortened_lines(text: str) -> str:
    """Return a text with each line `shortened`."""
    return "\n".join(map(shortened, text.split("\n")))


def listed(names: Iterable[str]) -> str:
    """Return names in backticks, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def suggest(name: str, choices: Sequence[str]) -> str:
    """Return ` Did you mean `x`?` for the closest choice, or the sorted choices if none is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, choices, n=1, cutoff=0.6)
    if close:
        return f" Did you mean `{close[0]}`?"
    if choices:
        return f" Choose one of {listed(sorted(choices))}."
    return ""


def unknown_keys(keys: Iterable[str], choices: Sequence[str]) -> Iterator[str]:
    """Yield the message for each unknown key of a table; the first `ALIKE` suggest a key."""
    for number, key in enumerate(keys):
        message = f"unknown key `{key}`."
        if number < ALIKE:
            message += suggest(key, choices)
        yield message


def reason_of(error: BaseException) -> str:
    """Return the message of an error, shortened and with its type unless sentbed raised it deliberately."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error of a plugin may fail at anything, its message included
        text = ""
    if not text:
        return type(error).__name__
    if isinstance(error, SentbedError):
        return text
    return f"{type(error).__name__}: {shortened(text)}"


@contextmanager
def foreign(
    error_of: Callable[[str], SentbedError], what: str, advice: str
) -> Iterator[None]:
    """Turn any exception that another library raises on a user's file into `error_of(message)`.

    The message says `what` failed, why, and the `advice`. Errors of sentbed, Ctrl-C and the end of the process
    are not changed.
    """
    try:
        yield
    except (SentbedError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of a library in Rust is not an `Exception`
        reason = " ".join(reason_of(error).split())
        raise error_of(f"{what}: {reason:.400}; {advice}") from error
