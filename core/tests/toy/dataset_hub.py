"""A server on this machine that speaks as much of the hub's protocol as reading data sets uses."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote

import attrs

MAIN = "main"


@attrs.define
class DatasetHub:
    """Repositories of data sets, and what happens to requests for them."""

    url: str
    directories: dict[tuple[str, str], Path] = attrs.field(factory=dict)
    """(id, revision) -> directory with the files of that revision."""
    gated: set[str] = attrs.field(factory=set)
    """Ids whose files need an accepted licence."""
    dropped: set[str] = attrs.field(factory=set)
    """Names of files during whose content the connection ends."""
    requests: list[str] = attrs.field(factory=list)
    """Method and path of each request."""

    def add(self, dataset, directory, revision=MAIN):
        """Serve a directory as a revision of a data set."""
        self.directories[dataset, revision] = directory

    def commit(self, dataset, revision):
        """Return the commit that a revision names."""
        return hashlib.sha1(f"{dataset}@{revision}".encode()).hexdigest()

    def find(self, dataset, revision):
        """Return directory and commit of a revision, which may be named by its commit."""
        for (other, name), directory in self.directories.items():
            commit = self.commit(other, name)
            if other == dataset and revision in (name, commit):
                return directory, commit
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: DatasetHub

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = unquote(self.path.partition("?")[0])
        self.hub.requests.append(f"{self.command} {path}")
        kind, dataset, rest = self._parse(path)
        if not any(dataset == name for name, _ in self.hub.directories):
            return self._refuse(404, "RepoNotFound", "Repository Not Found")
        checks_access = rest == ["auth-check"]
        if dataset in self.hub.gated and (kind == "file" or checks_access):
            return self._refuse(
                401, "GatedRepo", f"Access to dataset {dataset} is restricted."
            )
        if checks_access:
            return self._answer(200, b"{}")
        verb, revision, inner = self._verb(kind, rest)
        location = self.hub.find(dataset, revision)
        if location is None:
            return self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        directory, commit = location
        if verb == "resolve":
            return self._send_file(directory / inner, commit)
        if verb == "tree":
            return self._send_tree(directory, inner)
        if verb == "paths-info":
            return self._send_paths(directory)
        return self._send_info(directory, dataset, commit)

    do_HEAD = do_GET  # noqa: N815 - the names that `http.server` calls
    do_POST = do_GET  # noqa: N815

    def _parse(self, path):
        """Return whether a path is of the API or of a file, the id, and the other parts of the path."""
        parts = path.strip("/").split("/")
        kind = "api" if parts[0] == "api" else "file"
        if kind == "api":
            parts = parts[1:]
        return kind, "/".join(parts[1:3]), parts[3:]

    def _verb(self, kind, rest):
        """Return what is asked for, the revision, and the path inside the repository."""
        if not rest:
            return "info", MAIN, ""
        verb, *parts = rest
        # The library escapes the slashes of a revision like `refs/convert/parquet`.
        length = 3 if parts[0] == "refs" else 1
        return verb, "/".join(parts[:length]), "/".join(parts[length:])

    def _refuse(self, status, code, message):
        self._answer(status, b"{}", X_Error_Code=code, X_Error_Message=message)

    def _answer(self, status, body, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.path.rpartition("/")[2] in self.hub.dropped:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        self.wfile.write(body)

    def _send_json(self, value):
        self._answer(200, json.dumps(value).encode(), Content_Type="application/json")

    def _send_file(self, file, commit):
        if not file.is_file():
            return self._refuse(404, "EntryNotFound", "Entry not found")
        content = file.read_bytes()
        tag = f'"{hashlib.sha1(content).hexdigest()}"'
        return self._answer(200, content, ETag=tag, X_Repo_Commit=commit)

    def _send_info(self, directory, dataset, commit):
        siblings = [
            {"rfilename": file.relative_to(directory).as_posix()}
            for file in _files(directory)
        ]
        self._send_json(
            {"id": dataset, "sha": commit, "siblings": siblings, "tags": []}
        )

    def _send_tree(self, directory, inner):
        place = directory / inner
        if not place.is_dir():
            return self._refuse(404, "EntryNotFound", f"{inner} does not exist")
        recursive = (
            parse_qs(self.path.partition("?")[2]).get("recursive", ["false"])[0].lower()
            == "true"
        )
        entries = place.rglob("*") if recursive else place.glob("*")
        return self._send_json([_entry(directory, entry) for entry in sorted(entries)])

    def _send_paths(self, directory):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.headers.get("Content-Type", "").startswith("application/json"):
            names = json.loads(body)["paths"]
        else:
            names = parse_qs(body)["paths"]
        entries = [directory / name for name in names]
        self._send_json(
            [_entry(directory, entry) for entry in entries if entry.exists()]
        )


def _files(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _entry(directory, path):
    """Return what the hub's list of files says of a file or directory."""
    name = path.relative_to(directory).as_posix()
    oid = hashlib.sha1(name.encode()).hexdigest()
    if path.is_dir():
        return {"type": "directory", "oid": oid, "size": 0, "path": name}
    return {"type": "file", "oid": oid, "size": path.stat().st_size, "path": name}


@contextlib.contextmanager
def serving():
    """Serve data sets until the block ends."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        http.daemon_threads = True
        hub = DatasetHub(f"http://127.0.0.1:{http.server_port}")
        handler.hub = hub
        thread = threading.Thread(
            target=http.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        try:
            yield hub
        finally:
            http.shutdown()
            thread.join()
