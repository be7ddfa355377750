"""Messages on why something of the Hugging Face Hub cannot be downloaded, by cause."""

from __future__ import annotations

import errno
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
    """Turn exceptions of huggingface-hub into an `error_of` with the cause and a remedy.

    `kind` is `model` or `dataset`. Errors of sentbed itself are not changed, nor are Ctrl-C and the process's
    end.
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
        "httpx",
        "requests",
        "socket",
        "ssl",
        "urllib",
        "urllib3",
    )
)
"""Modules whose errors are those of a network connection."""


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the error that it was raised from, and so on."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_of_network(error: BaseException) -> bool:
    """Whether an error is one of a connection or of an HTTP answer, whatever library raised it."""
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
    error: BaseException, kind: str, repository: str, revision: str | None = None
) -> str:
    """Return why a repository of the hub cannot be downloaded, and what to do."""
    from huggingface_hub import constants, errors, is_offline_mode

    name = f"`{repository}`"
    if revision is not None:
        name += f" at revision `{revision}`"
    directory, option = "", ""
    if kind == "dataset":
        directory, option = "datasets/", "--repo-type dataset "
    subject = f"the hub gives no {kind} {name}"
    causes = list(causes_of(error))

    def is_caused_by(*types: type[BaseException]) -> bool:
        return any(isinstance(cause, types) for cause in causes)

    if is_caused_by(errors.GatedRepoError):
        page = f"{constants.ENDPOINT}/{directory}{repository}"
        return (
            f"{subject}: it is gated; accept its licence at {page}, then log in with `hf auth login`, or set "
            "`HF_TOKEN`"
        )
    if is_caused_by(errors.RevisionNotFoundError):
        return f"{subject}: the repository has no such revision; name a commit, tag or branch that it has"
    if is_caused_by(errors.HFValidationError):
        return f"{subject}: that is no id of the hub, which is `OWNER/NAME`; a local directory begins with `./`"
    if is_caused_by(errors.RepositoryNotFoundError):
        return (
            f"{subject}: there is no such repository, or it is private; check the id, log in with "
            "`hf auth login` if it is private, or name a local directory that begins with `./`"
        )
    if is_caused_by(errors.EntryNotFoundError) and not is_caused_by(
        errors.LocalEntryNotFoundError
    ):
        return f"{subject}: a file that it lists is not there; try again, or name another revision"
    if is_offline_mode():
        return (
            f"{subject}: it is not on this machine, and `HF_HUB_OFFLINE` is set; run "
            f"`hf download {option}{repository}` where there is a network, or unset the variable"
        )
    numbers = {getattr(cause, "errno", None) for cause in causes}
    if numbers & {errno.ENOSPC, errno.EDQUOT}:
        return (
            f"{subject}: the disk of {constants.HF_HUB_CACHE} is full; free some space, or set `HF_HOME` to "
            "a larger one"
        )
    if numbers & {errno.EACCES, errno.EPERM, errno.EROFS}:
        return f"{subject}: {constants.HF_HUB_CACHE} cannot be written; set `HF_HOME` to a directory that can"
    if isinstance(error, errors.LocalEntryNotFoundError) and len(causes) == 1:
        return (
            f"{subject}: it is not on this machine, and {constants.ENDPOINT} does not answer; check the "
            "network, or name a local directory that begins with `./`"
        )
    reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    if not any(_is_of_network(cause) for cause in causes):
        return (
            f"{subject}: {reason}; that is neither an answer of the hub nor a broken connection: look at the "
            f"files in {constants.HF_HUB_CACHE}, or update `huggingface-hub`"
        )
    return (
        f"{subject}: {constants.ENDPOINT} does not answer, or broke the connection ({reason}); what has "
        "arrived is kept: try again, check the network, or name a local directory that begins with `./`"
    )
