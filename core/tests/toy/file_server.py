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
    cut: int | None = None
    """After how many bytes the connection is lost."""
    status: int = 200
    location: str = ""
    """Where a redirect goes to."""
    length: bool = True
    """Whether the size is said."""


@attrs.define
class FileServer:
    """`files` is by path, such as `/a.txt`; `requests` has the path of every request."""

    url: str
    files: dict[str, Served] = attrs.field(factory=dict)
    requests: list[str] = attrs.field(factory=list)


@contextlib.contextmanager
def serving():
    """Serve files until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.requests.append(self.path)
            served = server.files.get(self.path, Served(status=404))
            if served.status != 200:
                self.send_response(served.status)
                if served.location:
                    self.send_header("Location", served.location)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            if served.length:
                self.send_header("Content-Length", str(len(served.content)))
            self.end_headers()
            self.wfile.write(served.content[: served.cut])
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
