"""Messages on why a model or data set of the Hugging Face Hub cannot be downloaded, and on what to do."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sentbed import SentbedError


@contextmanager
def hub_errors(
    error_of: Callable[[str], SentbedError],
    kind: str,
    repository: str,
    revision: str | None = None,
) -> Iterator[None]:
    """Turn exceptions into `error_of(message)`; the message says why the hub gives no files, and what to do.

    `kind` is `model` or `dataset`. Errors of sentbed pass unchanged, as do `KeyboardInterrupt` and `SystemExit`.
    """
    try:
        yield
    except SentbedError:
        raise
    except Exception as error:
        raise error_of(hub_problem(error, kind, repository, revision)) from error


NETWORK_LIBRARIES = frozenset(
    (
        "anyio",
        "h11",
        "http",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "requests",
        "socket",
        "ssl",
        "urllib",
        "urllib3",
    )
)
"""Top-level modules whose exceptions are problems of a network connection.

huggingface-hub 2.4 uses `httpx2`; earlier releases use `httpx` or `requests`.
"""


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the error that it was raised from, and so on."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_of_network(error: BaseException) -> bool:
    """Whether a library raised this error for a broken connection or an HTTP status."""
    from huggingface_hub import errors

    if isinstance(
        error,
        errors.HfHubHTTPError
        | errors.LocalEntryNotFoundError
        | ConnectionError
        | TimeoutError,
    ):
        return True

    return type(error).__module__.partition(".")[0] in NETWORK_LIBRARIES


def hub_problem(
    error: BaseException,
    kind: str,
    repository: str,
    revision: str | None = None,
) -> str:
    """Return why a repository of the hub cannot be downloaded, and what to do."""
    from huggingface_hub import is_offline_mode

    causes = list(causes_of(error))
    problem = _refusal_of_hub(causes, kind, repository)
    if problem is None and is_offline_mode():
        option = ""
        if kind == "dataset":
            option = "--repo-type dataset "
        problem = (
            "it is not on this machine, and `HF_HUB_OFFLINE` is set; run "
            f"`hf download {option}{repository}` where there is a network, or unset the variable"
        )

    if problem is None:
        problem = _problem_of_cache(causes) or _problem_of_connection(causes)

    name = f"`{repository}`"
    if revision is not None:
        name += f" at revision `{revision}`"
    return f"the hub gives no {kind} {name}: {problem}"


def _refusal_of_hub(
    causes: Sequence[BaseException],
    kind: str,
    repository: str,
) -> str | None:
    """Return why the hub refuses a repository, and what to do; None if it does not refuse it."""
    from huggingface_hub import constants, errors

    def is_caused_by(*types: type[BaseException]) -> bool:
        return any(isinstance(cause, types) for cause in causes)

    # The subclass comes first: a `GatedRepoError` is also a `RepositoryNotFoundError`.
    if is_caused_by(errors.GatedRepoError):
        directory = ""
        if kind == "dataset":
            directory = "datasets/"
        page = f"{constants.ENDPOINT}/{directory}{repository}"
        return f"it is gated; accept its licence at {page}, then log in with `hf auth login`, or set `HF_TOKEN`"
    if is_caused_by(errors.RevisionNotFoundError):
        return "the repository has no such revision; name a commit, tag or branch that it has"
    if is_caused_by(errors.HFValidationError):
        return "that is no id of the hub, which is `OWNER/NAME`; a local directory begins with `./`"
    if is_caused_by(errors.RepositoryNotFoundError):
        return (
            "there is no such repository, or it is private; check the id, log in with "
            "`hf auth login` if it is private, or name a local directory that begins with `./`"
        )
    # A `LocalEntryNotFoundError` is also an `EntryNotFoundError`, but means that the hub did not answer.
    if is_caused_by(errors.LocalEntryNotFoundError):
        return None
    if is_caused_by(errors.EntryNotFoundError):
        return "a file that it lists is not there; try again, or name another revision"
    return None


def _problem_of_cache(causes: Sequence[BaseException]) -> str | None:
    """Return why the hub's cache cannot be written, and what to do; None if the errors do not show that."""
    from huggingface_hub import constants

    numbers = {getattr(cause, "errno", None) for cause in causes}
    if numbers & {errno.ENOSPC, errno.EDQUOT}:
        return f"the disk of {constants.HF_HUB_CACHE} is full; free some space, or set `HF_HOME` to a larger one"
    if numbers & {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"{constants.HF_HUB_CACHE} cannot be written; set `HF_HOME` to a directory that can"
    return None


def _problem_of_connection(causes: Sequence[BaseException]) -> str:
    """Return why the connection to the hub failed, or quote an error of unknown cause, and say what to do."""
    from huggingface_hub import constants, errors

    error = causes[0]
    if isinstance(error, errors.LocalEntryNotFoundError) and len(causes) == 1:
        return (
            f"it is not on this machine, and {constants.ENDPOINT} does not answer; check the "
            "network, or name a local directory that begins with `./`"
        )

    reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    if not any(_is_of_network(cause) for cause in causes):
        return (
            f"{reason}; that is neither an answer of the hub nor a broken connection: look at the "
            f"files in {constants.HF_HUB_CACHE}, or update `huggingface-hub`"
        )

    return (
        f"{constants.ENDPOINT} does not answer, or broke the connection ({reason}); what has "
        "arrived is kept: try again, check the network, or name a local directory that begins with `./`"
    )
