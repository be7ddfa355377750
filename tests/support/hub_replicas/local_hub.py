"""Models on this machine in the place of the hub's: what the functions of huggingface-hub return for them."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import attrs
import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import filter_repo_objects, httpx
from sentbed.helpers import sha256


@attrs.define
class Repository:
    """A model of the hub."""

    revisions: dict[str, Path]
    """Branch or tag -> directory with the files."""
    gated: bool = False
    """Whether only who has accepted the licence gets the files."""

    def commit(self, revision="main"):
        """Return the number of the commit of a branch or tag."""
        return sha256(self.revisions[revision])[:40]


@attrs.define
class LocalHub:
    """The repositories by id, and what was fetched of them."""

    repositories: dict[str, Repository] = attrs.field(factory=dict)
    fetched: list[str] = attrs.field(factory=list)
    """Names of the files that were fetched, each time that they were."""
    home: Path | None = None
    """Directory for files that were fetched."""
    licences: bool = True
    """Whether the user has accepted the licences."""

    def add(self, name, directory):
        """Add a repository whose branch `main` has the files of a directory."""
        self.repositories[name] = Repository({"main": directory})
        return self.repositories[name]

    @contextlib.contextmanager
    def connected(self, home, *, licences=True, offline=False):
        """Let huggingface-hub find the repositories in this hub, for a while."""
        self.home = home
        self.licences = licences
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(constants, "HF_HUB_OFFLINE", offline)
            patch.setattr(huggingface_hub, "snapshot_download", self.snapshot_download)
            patch.setattr(huggingface_hub.HfApi, "model_info", self.model_info)
            patch.setattr(huggingface_hub.HfApi, "auth_check", self.auth_check)
            yield

    def model_info(self, name, revision, timeout):
        """Return the names of a repository's files."""
        repository = self._repository(name, revision)
        files = []
        for file in names_of_files(repository.revisions[revision or "main"]):
            files.append(SimpleNamespace(rfilename=file))
        return SimpleNamespace(siblings=files)

    def auth_check(self, name):
        """Raise `GatedRepoError` if the user does not get the files of a repository."""
        if self._repository(name, None).gated and not self.licences:
            raise refusal(GatedRepoError, 403, f"Access to `{name}` is gated")

    def snapshot_download(
        self,
        name,
        revision,
        allow_patterns,
        ignore_patterns,
        local_files_only,
    ):
        """Copy the chosen files that were not fetched before, and return their directory."""
        if local_files_only and name not in self.repositories:
            raise LocalEntryNotFoundError(f"`{name}` was not fetched before")

        repository = self._repository(name, revision)
        snapshot = self.home / name / repository.commit(revision or "main")
        if local_files_only:
            if not snapshot.is_dir():
                raise LocalEntryNotFoundError(f"`{name}` was not fetched before")
            return str(snapshot)

        self.auth_check(name)
        directory = repository.revisions[revision or "main"]
        snapshot.mkdir(parents=True, exist_ok=True)
        for file in filter_repo_objects(
            names_of_files(directory),
            allow_patterns=allow_patterns,
            ignore_patterns=ignore_patterns,
        ):
            if not (snapshot / file).exists():
                shutil.copyfile(directory / file, snapshot / file)
                self.fetched.append(file)
        return str(snapshot)

    def _repository(self, name, revision):
        repository = self.repositories.get(name)
        if repository is None:
            raise refusal(RepositoryNotFoundError, 404, "Repository Not Found")
        if (revision or "main") not in repository.revisions:
            raise refusal(RevisionNotFoundError, 404, "Revision Not Found")
        return repository


def names_of_files(directory):
    """Return the paths of all files of a directory, in order."""
    names = []
    for path in directory.rglob("*"):
        if path.is_file():
            names.append(path.relative_to(directory).as_posix())
    return sorted(names)


def refusal(error_type, status, message):
    """Return the error that huggingface-hub raises if the hub answers with a status."""
    request = httpx.Request("GET", "https://hub.example")
    return error_type(message, response=httpx.Response(status, request=request))
