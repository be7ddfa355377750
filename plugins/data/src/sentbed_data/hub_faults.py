"""What went wrong with a data set of the hub, in a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from sentbed.helpers import reason_of

FilesOf: TypeAlias = Callable[[], Sequence[str]]
"""Lists the files of a repository; it may ask the hub."""

DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".arrow", ".txt", ".gz", ".tar", ".zip")
"""Suffixes of files that may hold data."""

MOST_NAMES = 8
"""Files that a message names."""


def explain(
    error: BaseException, name: str, file: str | None, revision: str | None, files_of: FilesOf
) -> str:
    """Return a sentence on why `file` of the repository `name`, or the data set itself, could not be read.

    `error` is what `datasets` or `huggingface_hub` raised, whose versions raise different types: it is known
    by the names of the types in its chain of causes, and by its words where these are all that differs.
    """
    chain = list(_causes(error))
    types = {cls.__name__ for cause in chain for cls in type(cause).__mro__}
    words = " ".join(str(error).split())
    at = f" at revision `{revision}`" if revision else ""

    if "GatedRepoError" in types or "gated dataset" in words:
        return (
            f"`{name}` is gated: accept its terms on its page of the hub, then run `hf auth login` "
            "(or set `HF_TOKEN`)"
        )
    if "OfflineModeIsEnabled" in types or "OfflineModeIsEnabled" in words or "Couldn't find cache" in words:
        return (
            f"`{file or name}` is not in the cache of this machine, and `HF_HUB_OFFLINE` is set; unset it, "
            "or fetch the data once where there is a network"
        )
    if "RevisionNotFoundError" in types or words.startswith("Revision "):
        return f"the hub's `{name}` has no revision `{revision}`; check `revision`"
    if "RemoteEntryNotFoundError" in types and file is not None:
        return f"the hub's `{name}` has no file `{file}`{at}; it has {named(files_of())}; name one of these"
    if "RepositoryNotFoundError" in types or "DatasetNotFoundError" in types:
        return f"the hub has no data set `{name}`, or it is private; check the id, or run `hf auth login`"
    if "scripts are no longer supported" in words:
        return _about_a_script(name, words)
    if types & {"RemoteProtocolError", "ReadError", "ChunkedEncodingError", "IncompleteRead"}:
        return (
            f"the connection to the hub ended while `{file or name}` was fetched ({reason_of(error):.200}); "
            "run it again: what has arrived is kept"
        )
    if types & {"ConnectError", "ConnectionError", "TimeoutException", "LocalEntryNotFoundError"}:
        network = [cause for cause in chain if isinstance(cause, ConnectionError | TimeoutError)]
        reason = reason_of([error, *network][-1])
        return (
            f"the hub cannot be reached ({reason:.200}), and `{file or name}` is not in the cache of this "
            "machine; connect to the network, or set `HTTPS_PROXY`"
        )
    if "HfHubHTTPError" in types:
        return f"the hub does not give `{file or name}` ({words:.200}); try again later"
    if "Config name is missing" in words or words.startswith("BuilderConfig "):
        return f"{words.partition('Example of usage')[0].rstrip(' .')}; set `config` to one of these"
    if words.startswith("Unknown split "):
        return f"{words.rstrip('.')}; set `split` to one of these"
    if types & {"EmptyDatasetError", "DataFilesNotFoundError"}:
        return f"`{name}` has no files that `datasets` reads{at}; it has {named(files_of())}"
    return _about_content(name, chain, files_of)


def named(files: Sequence[str]) -> str:
    """Return the names of files for a message, of many only the first."""
    if not files:
        return "no files that could be listed"
    names = ", ".join(f"`{file}`" for file in files[:MOST_NAMES])
    more = len(files) - MOST_NAMES
    return f"{names} and {more:,} more" if more > 0 else names


def is_data_file(file: str) -> bool:
    """Whether a file of a repository may hold data, and is not its description."""
    return Path(file).suffix.lower() in DATA_SUFFIXES and Path(file).name != "dataset_infos.json"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it was raised from, and so on."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _about_a_script(name: str, words: str) -> str:
    script = words.rpartition(" ")[2]
    return (
        f"`{name}` is a program (`{script}`), which version 4 and later of `datasets` does not run; "
        '`revision = "refs/convert/parquet"` reads the hub\'s conversion where there is one (`config` is the '
        f"name of its directory), and `hub:{name}/FILE` a file of the repository"
    )


def _about_content(name: str, chain: Sequence[BaseException], files_of: FilesOf) -> str:
    """Return a sentence on files that `datasets` cannot parse, with the cause that it wraps."""
    wrappers = ("DatasetGenerationError", "DatasetBuildError")
    inner = [cause for cause in chain if type(cause).__name__ not in wrappers]
    reason = " ".join(reason_of((inner or chain)[0]).split())
    advice = "check `config` and `split`"
    files = [file for file in files_of() if is_data_file(file)]
    if files:
        example = f"hub:{name}/{files[0]}"
        advice += f"; its files are {named(files)}, and `{example}` reads one of them line by line"
    return f"the data set `{name}` cannot be read: {reason:.400}; {advice}"
