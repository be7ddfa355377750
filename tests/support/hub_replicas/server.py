"""A hub on this machine: repositories with commits, pull requests and licences, as huggingface_hub asks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import attrs
import pytest

LFS_SUFFIXES = (
    ".bin",
    ".safetensors",
    ".model",
    ".h5",
    ".msgpack",
    ".ot",
    ".pt",
    ".pth",
)
"""Files that the hub stores outside git, and redirects to."""

DATE = "2023-03-01T12:00:00.000Z"
READER = "token-of-a-reader"
"""A token with which gated repositories are read."""


@attrs.frozen
class Commit:
    """The files of a repository at one time."""

    number: str
    directory: Path
    parents: tuple[str, ...]
    title: str

    def names(self):
        """The paths of all files, in order."""
        files = [path for path in self.directory.rglob("*") if path.is_file()]
        return sorted(path.relative_to(self.directory).as_posix() for path in files)


@attrs.define
class Repository:
    """One model of the hub: branches, tags and pull requests by name, and who may read it."""

    name: str
    commits: dict[str, Commit] = attrs.field(factory=dict)
    references: dict[str, str] = attrs.field(factory=dict)
    gated: bool = False
    """Whether everybody sees what files there are, and only who has accepted the licence reads them."""
    private: bool = False
    """Whether only its readers see that it is there."""
    readers: set[str] = attrs.field(factory=set)
    """The tokens that may read a gated or private repository."""

    def commit(self, reference, directory, title="Upload model"):
        """Make the files of a directory the newest commit of a branch; return its number."""
        parent = self.references.get(reference)
        if parent is None and reference.startswith("refs/pr/"):
            parent = self.references.get("main")
        parents = () if parent is None else (parent,)
        digest = hashlib.sha1(
            json.dumps([self.name, reference, parents, title]).encode()
        )
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                digest.update(path.relative_to(directory).as_posix().encode())
                digest.update(path.read_bytes())
        number = digest.hexdigest()
        self.commits[number] = Commit(number, directory, parents, title)
        self.references[reference] = number
        return number

    def find(self, revision):
        """The commit that a branch, tag, pull request or commit number names."""
        number = self.references.get(revision, revision)
        return self.commits.get(number)

    def history(self, commit):
        """A commit and those before it, the newest first."""
        commits = [commit]
        while commits[-1].parents:
            commits.append(self.commits[commits[-1].parents[0]])
        return commits


@attrs.define
class LocalHub:
    """The repositories by id, and what was asked for."""

    endpoint: str = ""
    file_store: str = ""
    """Address of another host to which requests for large files are redirected."""
    repositories: dict[str, Repository] = attrs.field(factory=dict)
    moved: dict[str, str] = attrs.field(factory=dict)
    """Old id -> id to which the hub redirects."""
    requests: list[tuple[str, str]] = attrs.field(factory=list)
    """Method and path of every request."""
    cuts: dict[str, list[int]] = attrs.field(factory=dict)
    """File name -> after how many bytes each of the next downloads loses its connection."""
    large_files: dict[str, Path] = attrs.field(factory=dict)
    """SHA-256 -> a file that is stored outside git."""

    def add(self, name, directory):
        """Make a repository whose branch `main` has the files of a directory."""
        repository = Repository(name)
        repository.commit("main", directory)
        self.repositories[name] = repository
        return repository

    def fetched(self, since=0):
        """The names of the files that were downloaded since so many requests, each time that they were."""
        names = []
        for method, path in self.requests[since:]:
            if method != "GET":
                continue
            # `/ID/resolve/COMMIT/NAME`, or `/lfs/SHA256/NAME` after a redirect.
            if path.startswith("/lfs/"):
                names.append(path.split("/", 3)[3])
            elif "/resolve/" in path:
                names.append(path.partition("/resolve/")[2].partition("/")[2])
        return names

    def environment(self, home):
        """The environment of a process whose hub this is."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    @contextlib.contextmanager
    def connected(self, home, token=None, offline=False):
        """Let huggingface_hub, which reads the environment when imported, talk to this hub for a while."""
        from huggingface_hub import constants, hf_api

        url = self.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment(home).items():
                patch.setenv(name, value)
            patch.delenv("HF_TOKEN", raising=False)
            if token is not None:
                patch.setenv("HF_TOKEN", token)
            patch.setattr(constants, "ENDPOINT", self.endpoint)
            patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url)
            patch.setattr(constants, "HF_HOME", str(home))
            patch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
            patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
            patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
            patch.setattr(constants, "HF_HUB_OFFLINE", offline)
            patch.setattr(hf_api.api, "endpoint", self.endpoint)
            yield


class _RefusedError(Exception):
    """An answer other than what was asked for."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Code": code, "X-Error-Message": message}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: LocalHub

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._answer_request()

    def do_HEAD(self):
        self._answer_request()

    def do_POST(self):
        self._answer_request()

    def _answer_request(self):
        address = urlsplit(self.path)
        self.hub.requests.append((self.command, unquote(address.path)))
        try:
            # The segments are decoded one by one: a slash within a revision is `%2F`.
            segments = [
                unquote(segment) for segment in address.path.strip("/").split("/")
            ]
            if segments[0] == "lfs":
                self._send_file(self.hub.large_files[segments[1]], segments[2], {})
            elif segments[:2] == ["api", "models"]:
                repository, rest = self._repository(segments[2:], "/api/models/")
                if repository is not None:
                    self._answer_api(repository, rest, parse_qs(address.query))
            else:
                repository, rest = self._repository(segments, "/")
                if repository is not None:
                    self._answer_resolve(repository, rest)
        except _RefusedError as refused:
            body = json.dumps({"error": str(refused)}).encode()
            self._send(
                refused.status,
                body,
                {"Content-Type": "application/json", **refused.headers},
            )

    def _repository(self, segments, prefix):
        """Find the repository that a path names; None after a redirect to where it has moved."""
        for length in (2, 1):
            name = "/".join(segments[:length])
            rest = segments[length:]
            if name in self.hub.moved:
                below = [quote(segment, safe="") for segment in rest]
                place = "/".join([prefix.rstrip("/"), self.hub.moved[name], *below])
                query = urlsplit(self.path).query
                if query:
                    place += f"?{query}"
                self._send(307, b"", {"Location": place})
                return None, rest
            repository = self.hub.repositories.get(name)
            if repository is not None:
                if repository.private and self._token() not in repository.readers:
                    break
                return repository, rest
        # The hub does not say to strangers whether a repository is private or missing.
        status = 401 if self._token() is None else 404
        raise _RefusedError(status, "RepoNotFound", "Repository not found")

    def _token(self):
        authorization = self.headers.get("Authorization")
        return None if authorization is None else authorization.removeprefix("Bearer ")

    def _require_reader(self, repository):
        """Refuse a gated repository to users who have not accepted its licence."""
        token = self._token()
        if repository.gated and token not in repository.readers:
            place = f"Access to model {repository.name} is restricted"
            if token is None:
                raise _RefusedError(
                    401,
                    "GatedRepo",
                    f"{place}. You must be authenticated to access it.",
                )
            raise _RefusedError(
                403, "GatedRepo", f"{place} and you are not in the authorized list."
            )

    def _commit(self, repository, revision):
        commit = repository.find(revision)
        if commit is None:
            raise _RefusedError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def _answer_api(self, repository, rest, query):
        if not rest or rest[0] == "revision":
            commit = self._commit(repository, rest[1] if rest else "main")
            self._send_json(self._description(repository, commit, "blobs" in query))
        elif rest[0] == "tree":
            commit = self._commit(repository, rest[1])
            recursive = query.get("recursive", ["false"])[0].lower() == "true"
            self._send_json(self._tree(commit, "/".join(rest[2:]), recursive))
        elif rest[0] == "paths-info":
            commit = self._commit(repository, rest[1])
            body = self.rfile.read(
                int(self.headers.get("Content-Length", "0"))
            ).decode()
            paths = parse_qs(body).get("paths", [])
            if body.startswith("{"):
                paths = json.loads(body)["paths"]
            self._send_json(
                [self._entry(commit, name) for name in commit.names() if name in paths]
            )
        elif rest[0] == "commits":
            history = repository.history(self._commit(repository, rest[1]))
            self._send_json([_commit_entry(commit) for commit in history])
        elif rest[0] == "refs":
            self._send_json(_reference_lists(repository))
        elif rest[0] == "auth-check":
            self._require_reader(repository)
            self._send_json({})
        else:
            raise _RefusedError(404, "", f"no such part of the API: {rest[0]}")

    def _description(self, repository, commit, sizes):
        siblings = []
        for name in commit.names():
            sibling = {"rfilename": name}
            if sizes:
                entry = self._entry(commit, name)
                sibling |= {"size": entry["size"], "blobId": entry["oid"]}
                if "lfs" in entry:
                    sibling["lfs"] = {
                        "sha256": entry["lfs"]["oid"],
                        "size": entry["size"],
                        "pointerSize": 134,
                    }
            siblings.append(sibling)
        return {
            "id": repository.name,
            "modelId": repository.name,
            "sha": commit.number,
            "private": repository.private,
            "gated": "manual" if repository.gated else False,
            "lastModified": DATE,
            "siblings": siblings,
        }

    def _entry(self, commit, name):
        content = (commit.directory / name).read_bytes()
        entry = {"type": "file", "path": name, "size": len(content)}
        entry["oid"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        if name.endswith(LFS_SUFFIXES):
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
        return entry

    def _tree(self, commit, folder, recursive):
        entries = []
        folders = {}
        for name in commit.names():
            if folder and not name.startswith(folder + "/"):
                continue
            below = name.removeprefix(folder + "/") if folder else name
            if "/" in below:
                folders[name[: len(name) - len(below)] + below.split("/")[0]] = None
                if not recursive:
                    continue
            entries.append(self._entry(commit, name))
        entries += [
            {"type": "directory", "path": path, "size": 0, "oid": "0" * 40}
            for path in folders
        ]
        return entries

    def _answer_resolve(self, repository, rest):
        if len(rest) < 3 or rest[0] != "resolve":
            raise _RefusedError(404, "", "no such page")
        commit = self._commit(repository, rest[1])
        name = "/".join(rest[2:])
        if name != "README.md":
            self._require_reader(repository)
        path = commit.directory / name
        if not path.is_file():
            refused = _RefusedError(404, "EntryNotFound", "Entry not found")
            refused.headers["X-Repo-Commit"] = commit.number
            raise refused
        headers = {"X-Repo-Commit": commit.number}
        entry = self._entry(commit, name)
        if "lfs" not in entry:
            self._send_file(path, path.name, {**headers, "ETag": f'"{entry["oid"]}"'})
            return
        digest = entry["lfs"]["oid"]
        self.hub.large_files[digest] = path
        headers |= {
            "X-Linked-ETag": f'"{digest}"',
            "X-Linked-Size": str(entry["size"]),
            "Location": f"{self.hub.file_store}/lfs/{digest}/{quote(path.name)}",
        }
        self._send(302, b"", headers)

    def _send_file(self, path, name, headers):
        content = path.read_bytes()
        headers = {**headers, "Accept-Ranges": "bytes"}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        cuts = self.hub.cuts.get(name, [])
        status = 200
        body = content
        if span is not None:
            start = int(span[1])
            stop = int(span[2]) + 1 if span[2] else len(content)
            body = content[start:stop]
            status = 206
            headers["Content-Range"] = (
                f"bytes {start}-{start + len(body) - 1}/{len(content)}"
            )
        if self.command == "GET" and cuts:
            self._send(status, body, headers, cut=cuts.pop(0))
        else:
            self._send(status, body, headers)

    def _send_json(self, value):
        self._send(
            200, json.dumps(value).encode(), {"Content-Type": "application/json"}
        )

    def _send(self, status, body, headers, cut=None):
        """Send an answer, or its first `cut` bytes."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True


def _commit_entry(commit):
    authors = [{"user": "somebody"}]
    return {
        "id": commit.number,
        "title": commit.title,
        "message": "",
        "authors": authors,
        "date": DATE,
    }


def _reference_lists(repository):
    lists = {
        "branches": [],
        "tags": [],
        "converts": [],
        "pullRequests": [],
    }
    for reference, commit in repository.references.items():
        if reference.startswith("refs/pr/"):
            entry = {"name": reference, "ref": reference, "targetCommit": commit}
            lists["pullRequests"].append(entry)
        elif reference == "main":
            lists["branches"].append(
                {"name": "main", "ref": "refs/heads/main", "targetCommit": commit}
            )
        else:
            entry = {
                "name": reference,
                "ref": f"refs/tags/{reference}",
                "targetCommit": commit,
            }
            lists["tags"].append(entry)
    return lists


@contextlib.contextmanager
def local_hub():
    """Serve a hub without repositories until the block ends."""
    hub = LocalHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with contextlib.ExitStack() as servers:
        hub.endpoint = servers.enter_context(_serving(handler))
        hub.file_store = servers.enter_context(_serving(handler))
        yield hub


@contextlib.contextmanager
def _serving(handler):
    """Serve on a free port; give its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
