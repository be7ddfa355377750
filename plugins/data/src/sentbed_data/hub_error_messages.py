"""Messages about problems with data sets of the hub, each with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from sentbed.errors import listed, reason_of
from sentbed_common import causes_of, hub_problem

FilesOf: TypeAlias = Callable[[], Sequence[str]]
"""Function that lists the files of a repository, for which it may ask the hub."""

DATA_SUFFIXES = (
    ".csv",
    ".tsv",
    ".jsonl",
    ".json",
    ".parquet",
    ".arrow",
    ".txt",
    ".gz",
    ".tar",
    ".zip",
)
"""Suffixes of files that may hold data."""

REFUSALS = {"GatedRepoError", "RepositoryNotFoundError", "RevisionNotFoundError"}
"""Names of exceptions of `huggingface_hub` that mean that the hub refuses a repository."""

CONNECTION_FAULTS = {
    "ChunkedEncodingError",
    "ConnectError",
    "ConnectionError",
    "IncompleteRead",
    "LocalEntryNotFoundError",
    "ReadError",
    "RemoteProtocolError",
    "TimeoutException",
}

MOST_NAMES = 8
"""Largest number of files that are named in a message."""


def explain(
    error: BaseException,
    name: str,
    file: str | None,
    revision: str | None,
    files_of: FilesOf,
) -> str:
    """Return a message on why the data set `name`, or its file `file`, could not be read, and what to do.

    `error` is an exception of `datasets` or `huggingface_hub`. Versions of these libraries raise different
    types, so the cause is recognised by the names of the types in the chain of exceptions, or else by words in
    the message.
    """
    chain = list(causes_of(error))
    types: set[str] = set()
    for cause in chain:
        types.update(cls.__name__ for cls in type(cause).__mro__)
    words = " ".join(str(error).split())
    at = ""
    if revision:
        at = f" at revision `{revision}`"

    if types & REFUSALS:
        return hub_problem(error, "dataset", name, revision)
    if (
        "OfflineModeIsEnabled" in types
        or "OfflineModeIsEnabled" in words
        or "Couldn't find cache" in words
    ):
        if file is not None:
            return hub_problem(error, "dataset", name, revision)
        # The remedy is not `hf download`, which does not fill the cache of `datasets`.
        return (
            f"`{name}` is not in the cache of this machine, and `HF_HUB_OFFLINE` is set; unset it, "
            "or read the data once where there is a network"
        )
    if "RemoteEntryNotFoundError" in types and file is not None:
        return f"the hub's `{name}` has no file `{file}`{at}; it has {named_files(files_of())}; name one of these"
    if "scripts are no longer supported" in words:
        return _about_a_script(name, words)
    if types & CONNECTION_FAULTS:
        network = [
            cause
            for cause in chain
            if isinstance(cause, ConnectionError | TimeoutError)
        ]
        return hub_problem([error, *network][-1], "dataset", name, revision)
    if "HfHubHTTPError" in types:
        return f"the hub does not give `{file or name}` ({words:.200}); try again later"
    if "Config name is missing" in words or words.startswith("BuilderConfig "):
        return f"{words.partition('Example of usage')[0].rstrip(' .')}; set `config` to one of these"
    if words.startswith("Unknown split "):
        return f"{words.rstrip('.')}; set `split` to one of these"
    if types & {"EmptyDatasetError", "DataFilesNotFoundError"}:
        return f"`{name}` has no files that `datasets` reads{at}; it has {named_files(files_of())}"
    return _about_content(name, chain, files_of)


def named_files(files: Sequence[str]) -> str:
    """Return the names of files for a message; if there are many, only the first `MOST_NAMES`."""
    if not files:
        return "no files that could be listed"

    names = listed(files[:MOST_NAMES])
    more = len(files) - MOST_NAMES
    if more > 0:
        return f"{names} and {more:,} more"
    return names


def is_data_file(file: str) -> bool:
    """Whether a file of a repository may hold data; descriptions of the data set do not."""
    return (
        Path(file).suffix.lower() in DATA_SUFFIXES
        and Path(file).name != "dataset_infos.json"
    )


def _about_a_script(name: str, words: str) -> str:
    """Return a message on a data set that is a program, which `datasets` no longer runs."""
    script = words.rpartition(" ")[2]
    return (
        f"`{name}` is a program (`{script}`), which version 4 and later of `datasets` does not run; "
        '`revision = "refs/convert/parquet"` reads the hub\'s conversion where there is one (`config` is the '
        f"name of its directory), and `hub:{name}/FILE` a file of the repository"
    )


def _about_content(
    name: str,
    chain: Sequence[BaseException],
    files_of: FilesOf,
) -> str:
    """Return a message on files that `datasets` cannot parse, with the original exception from `chain`."""
    wrappers = ("DatasetGenerationError", "DatasetBuildError")
    inner = [cause for cause in chain if type(cause).__name__ not in wrappers]
    reason = " ".join(reason_of((inner or chain)[0]).split())
    advice = "check `config` and `split`"
    files = list(filter(is_data_file, files_of()))
    if files:
        example = f"hub:{name}/{files[0]}"
        advice += f"; its files are {named_files(files)}, and `{example}` reads one of them line by line"

    return f"the data set `{name}` cannot be read: {reason:.400}; {advice}"
