"""Models of the Hugging Face Hub: which files of a repository are fetched, and from which revision.

Many repositories have only pickled weights. For such a repository, the hub's conversion bot may have opened a
pull request with the same weights as safetensors. Such a pull request is looked for as in transformers, and
preferred to the pickled weights.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import socket
import urllib.parse
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from sentbed import ModelError, RunError, locate
from sentbed.helpers import read_file, write_atomic
from sentbed_common import cache_root, hub_errors

from sentbed_backbones.model_file_checks import is_local

SMALL_FILES = ("*.json", "*.txt", "*.model")
"""Patterns of the files of configurations and tokenizers."""

MODEL_WEIGHTS = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
    "*.safetensors",
)
"""Patterns of weight files in the order in which transformers prefers them. A repository may have the same
weights in several formats, such as `consolidated.safetensors` beside shards; only the files of the first
pattern that matches are fetched."""

BOT, BOT_TITLE = "SFconvertbot", "Adding `safetensors` variant of this model"
"""Author and title of the pull requests in which the hub converts pickled weights."""

SECONDS_TO_ANSWER = 3.0
"""Number of seconds that `sentbed check` and `sentbed plan` wait for the hub."""


@attrs.frozen
class Listing:
    """The files in a repository's top folder at one commit."""

    repository: str
    commit: str
    sizes: Mapping[str, int]
    """Size of each file in bytes, by name; 0 if the hub does not give it."""
    gated: bool
    preferred: Sequence[str] = MODEL_WEIGHTS
    """Patterns of the weight files of a model or an adapter, in order of preference."""

    @property
    def weights(self) -> list[str]:
        """Names of the weight files that are read; empty if there is none."""
        return chosen_weights(self.sizes, self.preferred)

    @property
    def is_pickled(self) -> bool:
        """Whether the weight files that are read are pickled."""
        return any(name.endswith(".bin") for name in self.weights)

    def files(self, code: bool = False) -> list[str]:
        """Return the names of the files to fetch; with `code`, also of Python files."""
        patterns = list(SMALL_FILES)
        if code:
            patterns.append("*.py")

        names: list[str] = []
        for pattern in patterns:
            names += fnmatch.filter(self.sizes, pattern)

        return names + self.weights


@attrs.frozen
class Conversion:
    """A pull request of the hub's conversion bot, with a commit's weights as safetensors."""

    reference: str
    """Git reference of the pull request, such as `refs/pr/3`."""
    commit: str


@attrs.frozen
class ModelFiles:
    """The directory of a model's files, and their origin for the manifest."""

    directory: Path
    origin: Mapping[str, Any] = attrs.field(factory=dict)
    """Empty for a local model. For a hub id, it has the `commit` and, if the files are from a pull request, its
    reference as `conversion`."""


def chosen_weights(
    names: Collection[str], preferred: Sequence[str] = MODEL_WEIGHTS
) -> list[str]:
    """Return the weight files to read, among the `names` of the files in a repository's top folder."""
    for pattern in preferred:
        matching = fnmatch.filter(names, pattern)
        if matching:
            return sorted(matching)

    return []


def fetch(
    model: str,
    revision: str | None = None,
    code: bool = False,
    weights: bool = True,
    preferred: Sequence[str] = MODEL_WEIGHTS,
    pickles: bool = True,
) -> ModelFiles:
    """Return the files of a local model or a hub id; the hub's files are downloaded if they are not in the cache.

    With `code`, Python files are fetched too. If `weights` is false, the repository need not have any. If
    `pickles` is false, pickled weights are not downloaded, and must have been fetched before. If the hub cannot
    be asked, all files must have been fetched before.

    Raises:
        ModelError: if the repository, its revision or its weights cannot be obtained; the message says why.
    """
    if is_local(model):
        return ModelFiles(locate(model))

    with hub_errors(ModelError, "model", model, revision):
        listing = ask_for_listing(model, revision, preferred=preferred)
        if listing is None:
            return _fetched_before(model, revision, weights)

        if weights and not listing.weights:
            raise ModelError(_without_weights(listing, revision))

        fetched_revision, pull_request = revision, None
        if weights and listing.is_pickled:
            conversion = find_conversion(listing)
            if conversion is not None:
                fetched_revision = conversion.commit
                pull_request = conversion.reference
                listing = ask_for_listing(model, fetched_revision, preferred=preferred)
            elif not pickles:
                return _pickles_fetched_before(model, revision)

        if listing is None:
            raise ModelError(
                f"the hub lists no files of `{model}` at `{pull_request}`; try again"
            )

        files = listing.files(code)
        directory = _download(model, fetched_revision, files)
        content = {
            "commit": directory.name,
            "files": files,
            "reference": pull_request,
        }
        # If the cache cannot be written, the only consequence is that the record is missing.
        with suppress(RunError):
            record = _record(model, revision, weights)
            write_atomic(record, json.dumps(content))

        return _from_hub(directory, pull_request)


def _download(
    repository: str,
    revision: str | None,
    files: Sequence[str],
    only_from_cache: bool = False,
) -> Path:
    """Download these files of a repository into the cache of huggingface-hub; return their directory there.

    huggingface-hub records the branch's name beside the files, so that they are found if the hub cannot be asked.
    With `only_from_cache`, the hub is not asked.
    """
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(
            repository,
            revision=revision,
            # Without the names of the files, a repository that was fetched in part would count as incomplete.
            allow_patterns=list(files),
            ignore_patterns=["*/*"],
            local_files_only=only_from_cache,
        )
    )


def _from_hub(directory: Path, reference: str | None) -> ModelFiles:
    """Return downloaded files with their origin: the commit and, if there is one, the pull request."""
    origin = {"commit": directory.name}
    if reference is not None:
        origin["conversion"] = reference

    return ModelFiles(directory, origin)


def directory_fetched_before(
    repository: str, revision: str | None = None
) -> Path | None:
    """Return the directory that an earlier `fetch` filled, without asking the hub; None if there was no fetch."""
    if _remembered(repository, revision, weights=True) is None:
        return None

    return _fetched_before(repository, revision, weights=True).directory


def _pickles_fetched_before(repository: str, revision: str | None) -> ModelFiles:
    """Return a pickled model that was fetched before. Raises `ModelError` if it was not."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _fetched_before(repository, revision, weights=True)
    except LocalEntryNotFoundError as error:
        raise ModelError(
            f"the hub's `{repository}` has pickled weights, which are not fetched for an encoder "
            "that names them: its directory may be a stranger's; if you trust that model, name it as "
            "`model` in a recipe and run that once, which converts them"
        ) from error


def ask_for_listing(
    repository: str,
    revision: str | None = None,
    seconds: float | None = None,
    preferred: Sequence[str] = MODEL_WEIGHTS,
) -> Listing | None:
    """Return the hub's listing of a repository; None in offline mode, or if the hub does not answer.

    Raises the exceptions of huggingface-hub if the hub refuses the repository or revision.
    """
    from huggingface_hub import HfApi, is_offline_mode
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    if is_offline_mode():
        return None

    try:
        info = HfApi().model_info(
            repository,
            revision=revision,
            files_metadata=True,
            timeout=seconds,
        )
    except HfHubHTTPError as error:
        # A status from 500 on means that the hub is down. A lower status is an answer ("no such repository").
        if error.response is not None and error.response.status_code < 500:
            raise

        return None
    except (OSError, httpx.TransportError):
        return None

    sizes = {}
    for file in info.siblings or ():
        if "/" not in file.rfilename:
            sizes[file.rfilename] = int(file.size or 0)

    return Listing(repository, str(info.sha), sizes, bool(info.gated), preferred)


def find_conversion(listing: Listing) -> Conversion | None:
    """Return the conversion bot's pull request on the listed commit; None if there is none.

    As in transformers, the pull request must be open and by the bot, and the parent of its newest commit must
    be the listed commit. A pull request of another author could hold any weights. A mirror of the hub may not
    list pull requests.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi()
    try:
        for discussion in api.get_repo_discussions(
            listing.repository,
            author=BOT,
            discussion_type="pull_request",
            discussion_status="open",
        ):
            # A server that does not support these filters returns all discussions.
            if discussion.title != BOT_TITLE or discussion.author != BOT:
                continue

            if not discussion.is_pull_request or discussion.status != "open":
                continue

            reference = f"refs/pr/{discussion.num}"
            commits = api.list_repo_commits(listing.repository, revision=reference)
            if len(commits) > 1 and commits[1].commit_id == listing.commit:
                return Conversion(reference, commits[0].commit_id)
    except HfHubHTTPError:
        return None

    return None


def _without_weights(listing: Listing, revision: str | None) -> str:
    """Return the message that a repository has no weights that can be read."""
    place = ""
    if revision is not None:
        place = f" at revision `{revision}`"

    beside = ""
    for name in sorted(listing.sizes):
        if name.endswith((".h5", ".msgpack", ".onnx", ".gguf")):
            beside = f" (it has `{name}`, which is of another library)"
            break

    return (
        f"the hub's `{listing.repository}` has neither `*.safetensors` nor `pytorch_model.bin`{place}{beside}"
        "; name a `revision` that has them, or another model"
    )


def _record(
    repository: str,
    revision: str | None,
    weights: bool,
) -> Path:
    """Return the path of the record of a fetch, which is read if the hub cannot be asked."""
    what = json.dumps([repository, revision or "main", weights])
    name = hashlib.sha256(what.encode()).hexdigest()[:40]
    return cache_root() / "hub-models" / f"{name}.json"


def _remembered(
    repository: str,
    revision: str | None,
    weights: bool,
) -> Mapping[str, Any] | None:
    """Return the record of a revision that `fetch` wrote; None if there is none.

    The record of a fetch with the same `weights` is preferred to the other record.
    """
    for with_weights in (weights, not weights):
        file = _record(repository, revision, with_weights)
        if file.is_file():
            record: dict[str, Any] = json.loads(read_file(file))
            return record

    return None


def _fetched_before(
    repository: str,
    revision: str | None,
    weights: bool,
) -> ModelFiles:
    """Return files that were fetched before; raises an exception of `snapshot_download` if there are none.

    Files that another program fetched have no record; whether they include weights shows only when the weights
    are read.
    """
    files, reference = list(SMALL_FILES), None
    record = _remembered(repository, revision, weights)
    if record is not None:
        files, reference = record["files"], record["reference"]
        revision = record["commit"]

    directory = _download(repository, revision, files, only_from_cache=True)
    return _from_hub(directory, reference)


@functools.cache
def hub_answers() -> bool:
    """Whether the hub's host can be reached; huggingface-hub itself would try for half a minute."""
    from huggingface_hub import constants, is_offline_mode

    if is_offline_mode():
        return False

    if urllib.request.getproxies():
        # There is a proxy: it connects to the host, not this process, so nothing is tried here.
        return True

    try:
        address = urllib.parse.urlsplit(constants.ENDPOINT)
        port = address.port or {"http": 80, "https": 443}[address.scheme]
        host = address.hostname or ""
        socket.create_connection((host, port), SECONDS_TO_ANSWER).close()
    except (OSError, KeyError, ValueError):
        # A user's `HF_ENDPOINT` may lack its scheme, or have a port that is no number.
        return False

    return True


@functools.cache
def download_remark(
    repository: str,
    revision: str | None,
    weights: bool,
) -> str:
    """Return a remark for `sentbed check`: what a run will download, or why the hub was not asked.

    Raises:
        ModelError: if the hub refuses the repository, or its weights are missing.
    """
    from huggingface_hub import HfApi, constants, is_offline_mode

    listing = None
    with hub_errors(ModelError, "model", repository, revision):
        if hub_answers():
            listing = ask_for_listing(repository, revision, SECONDS_TO_ANSWER)
        if listing is None:
            reason = f"{constants.ENDPOINT} does not answer"
            if is_offline_mode():
                reason = "`HF_HUB_OFFLINE` is set"

            return f"`{repository}`: not asked for, since {reason}; a run takes what was fetched before"

        if listing.gated:
            HfApi().auth_check(repository)
        if weights and not listing.weights:
            raise ModelError(_without_weights(listing, revision))

        if not weights:
            return f"`{repository}`: configuration and tokenizer are read, weights are random"

        shown = f"`{repository}`: {_amount(listing)}"
        if not listing.is_pickled:
            return shown

        conversion = find_conversion(listing)
        if conversion is None:
            return f"{shown}, pickled; they are converted to safetensors once, in a process of their own"

        return (
            f"{shown}, pickled; the hub's conversion to safetensors is taken "
            f"(`{conversion.reference}`, commit {conversion.commit[:12]})"
        )


def _amount(listing: Listing) -> str:
    """Return the name or number of the weight files and their size, for a message."""
    weights = listing.weights
    size = sum(listing.sizes[name] for name in weights)
    files = f"{len(weights)} files of weights"
    if len(weights) == 1:
        files = f"`{weights[0]}`"
    if not size:
        return files

    return f"{files}, {size / 1e9:.2f} GB"
