"""HTTP server that shows the report of a study on this machine and updates it: `sentbed study watch`."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sentbed.errors import RunError, SentbedError
from sentbed.helpers import read_file
from sentbed_report.item_page.item_page import ItemPage, item_pages
from sentbed_report.page.report_page import page_html
from sentbed_report.page_template import resource
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.read_study_directory import read_data, status_of
from sentbed_report.study.study_data import StudyData
from sentbed_report.study_page.runs_section import report_address
from sentbed_report.study_page.study_report import study_page

from sentbed_studies.run_progress import RunLog
from sentbed_studies.study_reports import files_of_state
from sentbed_studies.study_status import status_of as status_of_study

LOOPBACK = "127.0.0.1"
HTML = "text/html; charset=utf-8"
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
POLICY = "frame-ancestors 'none'"
SANDBOX = (
    f"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; {POLICY}"
)
"""Content security policy for the report of a run, which somebody else may have written: no script runs, and
nothing is loaded."""


class WatchedStudy:
    """A study in a directory. It is read and rendered again only when it has changed. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._fingerprint = ""
        self._data: StudyData | None = None
        self._at_work: list[Path] = []
        self._logs: dict[Path, RunLog] = {}
        self._page = ""
        self._item_pages: dict[str, ItemPage] = {}

    def page(self) -> str:
        """Return the HTML of the report, with the script that updates the page.

        Raises:
            RunError: if the study cannot be read, or if a link leads out of its directory.
        """
        with self._lock:
            data = self._read()
            if not self._page:
                script = resource("sentbed_studies", "watch.js")
                script = script.replace("FINGERPRINT", self._fingerprint)
                summaries = summarise(data)
                pages = item_pages(summaries, data)
                self._page = page_html(study_page(data, summaries, pages), script)
                self._item_pages = {f"/{page.address}": page for page in pages}
            return self._page

    def item_page(self, path: str) -> str | None:
        """Return the page of a task's items at `path`, to which the report links; None if there is no such page.

        Raises:
            RunError: if the study cannot be read, or if a link leads out of its directory.
        """
        self.page()
        with self._lock:
            page = self._item_pages.get(path)
        return None if page is None else page.html()

    def run_report(self, path: str) -> str | None:
        """Return the report of a run at `path`, to which the study's report links; None if there is no such run.

        Raises:
            RunError: if the study cannot be read, or if a link leads out of its directory.
        """
        with self._lock:
            data = self._read()
        for cell in data.cells:
            for run in cell.runs:
                address = report_address(run)
                if run.directory is not None and address and path == f"/{address}":
                    return _text_within(self.directory, run.directory / "report.html")
        return None

    def state(self) -> dict[str, Any]:
        """Return the progress of the study, and a fingerprint that changes when the report does.

        Raises:
            RunError: if the study cannot be read, or if a link leads out of its directory.
        """
        with self._lock:
            status = status_of_study(self._read(), self._logs)
            fingerprint = self._fingerprint

        lines = [f"{status.finished} of {status.total} runs finished"]
        lines += [str(run) for run in status.runs if run.is_at_work]
        if status.time_left is not None:
            lines.append(status.time_left)
        return {
            "fingerprint": fingerprint,
            "progress": lines,
            "finished": status.finished,
            "total": status.total,
            "seconds_left": status.seconds_left,
        }

    def _read(self) -> StudyData:
        """Return the results of the study, read again if it has changed."""
        times = self._times()
        statuses = [status_of(self.directory, run) for run in self._at_work]
        if self._data is None or _digest(times, statuses) != self._fingerprint:
            self._data = read_data(self.directory)
            self._page = ""
            self._logs = {}
            self._at_work = _runs_at_work(self._data)
            # A run that has ended in the meantime differs from "running": the next call will read again.
            self._fingerprint = _digest(times, ["running"] * len(self._at_work))
        return self._data

    def _times(self) -> list[str]:
        """Return path and modification time of each of `files_of_state`."""
        times = []
        for path in files_of_state(self.directory):
            # A run may have just been removed.
            with suppress(OSError):
                times.append(f"{path} {path.stat().st_mtime_ns}")
        return times


def _text_within(directory: Path, path: Path) -> str | None:
    """Return the text of a file in a directory; None if it is missing or reached by a link that leads out."""
    file = (directory / path).resolve()
    if not file.is_relative_to(directory.resolve()):
        return None
    try:
        return read_file(file).decode("utf-8", "replace")
    except OSError:
        return None


def _runs_at_work(data: StudyData) -> list[Path]:
    """Return the directories of the runs that are running.

    If such a run is killed, its status changes although none of its files does.
    """
    directories = []
    for cell in data.cells:
        for run in (*cell.runs, *cell.confirmation):
            if run.status == "running" and run.directory is not None:
                directories.append(run.directory)
    return directories


def _digest(times: Sequence[str], statuses: Sequence[str]) -> str:
    """Return the fingerprint of a study, from modification times of files and statuses of running runs."""
    return hashlib.sha256("\n".join([*times, *statuses]).encode()).hexdigest()[:32]


class _Handler(BaseHTTPRequestHandler):
    """Answers GET requests whose `Host` is this server.

    Another site could let its name resolve to this machine and then read the answers (DNS rebinding). Its
    requests have the name of the site as `Host`.
    """

    server: StudyServer

    def parse_request(self) -> bool:
        """Parse a request; return whether it is valid, so that `do_GET` answers it.

        Requests with another method or `Host` are answered with an error here.
        """
        if not super().parse_request():
            return False
        if self.command != "GET":
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, TEXT, "only GET is answered\n")
            return False

        if self.headers.get("Host") not in self.server.names:
            message = f"only {self.server.url} is answered\n"
            self._answer(HTTPStatus.FORBIDDEN, TEXT, message)
            return False
        return True

    def do_GET(self) -> None:
        """Answer with the report, with the state of the study, or with a page to which the report links."""
        try:
            match self.path:
                case "/state":
                    state = json.dumps(self.server.study.state())
                    self._answer(HTTPStatus.OK, JSON, state)
                case "/" | "/report.html":
                    # The pages of items link back to `report.html`.
                    self._answer(HTTPStatus.OK, HTML, self.server.study.page())
                case path:
                    self._answer_with_page_below(path)
        except SentbedError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, f"{error}\n")

    def _answer_with_page_below(self, path: str) -> None:
        """Answer with the page of a task's items or with the report of a run."""
        page = self.server.study.item_page(path)
        if page is not None:
            self._answer(HTTPStatus.OK, HTML, page)
            return

        report = self.server.study.run_report(path)
        if report is not None:
            self._answer(HTTPStatus.OK, HTML, report, SANDBOX)
            return

        message = (
            "there are only /, /state, the pages of items and the reports of runs\n"
        )
        self._answer(HTTPStatus.NOT_FOUND, TEXT, message)

    def _answer(
        self,
        status: HTTPStatus,
        kind: str,
        text: str,
        policy: str = POLICY,
    ) -> None:
        """Send a response; `kind` is its content type, `policy` its content security policy."""
        content = text.encode()
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": policy,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET"
        for name, value in headers.items():
            self.send_header(name, value)

        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, since each open page sends a request every few seconds."""


class StudyServer(ThreadingHTTPServer):
    """Serves the report of a study on the loopback interface; `port` 0 means any free port.

    Raises:
        RunError: if the directory holds no readable study, or if the port cannot be used.
    """

    def __init__(self, directory: Path, port: int = 0) -> None:
        self.study = WatchedStudy(directory)
        self.study.state()
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise RunError(
                f"port {port} cannot be served on ({error.strerror or error}); choose another `--port`, or 0 "
                "for any that is free"
            ) from error
        self.names = (f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}")
        self.url = f"http://{LOOPBACK}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the error of a request, unless the browser has closed the page before it had the answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
