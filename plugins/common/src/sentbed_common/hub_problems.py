"""Messages on why a model or data set of the Hugging Face Hub cannot be downloaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sentbed import SentbedError


@contextmanager
def hub_errors(
    error_of: Callable[[str], SentbedError],
    kind: str,
    repository: str,
    revision: str | None = None,
) -> Iterator[None]:
    """Turn exceptions into `error_of(message)`, which names the repository.

    `kind` is `model` or `dataset`. `KeyboardInterrupt` and `SystemExit` pass unchanged.
    """
    try:
        yield
    except Exception as error:
        raise error_of(hub_problem(error, kind, repository, revision)) from error


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the error that it was raised from, and so on."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def hub_problem(
    error: BaseException,
    kind: str,
    repository: str,
    revision: str | None = None,
) -> str:
    """Return which repository of the hub cannot be downloaded, and why, in the words of the library."""
    name = f"`{repository}`"
    if revision is not None:
        name += f" at revision `{revision}`"

    reason = " ".join(str(error).split()) or type(error).__name__
    return f"the hub gives no {kind} {name}: {reason}"
