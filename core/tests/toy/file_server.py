"""A small HTTP server on this machine that tests download from, and that can misbehave."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attrs


@attrs.define
class Served:
    """What is served at a path."""

    content: bytes = b""
    tag: str = '"1"'
    """The ETag; without one nothing can be resumed."""
    cuts: list[int] = attrs.field(factory=list)
    """After how many bytes each of the next requests loses its connection."""
    status: int = 200
    location: str = ""
    """Where a redirect goes to."""
    retry_after: str = ""
    """How long to wait, of a server in trouble."""
    ranges: bool = True
    """Whether a part can be asked for."""
    length: bool = True
    """Whether the size is said."""


@attrs.define
class FileServer:
    """`files` is by path, such as `/a.txt`; `requests` has path and Range of every request."""

    url: str
    files: dict[str, Served] = attrs.field(factory=dict)
    requests: list[tuple[str, str | None]] = attrs.field(factory=list)


@contextlib.contextmanager
def serving():
    """Serve files until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            byte_range = self.headers.get("Range")
            server.requests.append((self.path, byte_range))
            served = server.files.get(self.path, Served(status=404))
            if served.status != 200:
                self.send_response(served.status)
                if served.location:
                    self.send_header("Location", served.location)
                if served.retry_after:
                    self.send_header("Retry-After", served.retry_after)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            start = 0
            if (
                byte_range
                and served.ranges
                and self.headers.get("If-Range", served.tag) == served.tag
            ):
                start = int(byte_range.removeprefix("bytes=").removesuffix("-"))
                if start >= len(served.content):
                    self.send_response(416)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
            body = served.content[start:]
            self.send_response(206 if start else 200)
            if start:
                last = len(served.content) - 1
                self.send_header(
                    "Content-Range", f"bytes {start}-{last}/{len(served.content)}"
                )
            if served.length:
                self.send_header("Content-Length", str(len(body)))
            if served.tag:
                self.send_header("ETag", served.tag)
            self.end_headers()
            self.wfile.write(body[: served.cuts.pop(0)] if served.cuts else body)
            self.close_connection = True

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = FileServer(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(
            target=http.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
