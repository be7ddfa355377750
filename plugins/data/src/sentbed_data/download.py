"""Download of one file, which can be resumed, is checked, and appears atomically."""

from __future__ import annotations

import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from sentbed import __version__
from sentbed.errors import DataError, RunError
from sentbed.helpers import cannot_write, read_file, sha256

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

BLOCK = 1 << 16
LONGEST_VALIDATOR = 1000
"""Largest size in bytes of the validator of a partial file (its ETag or date), which is sent back to the
server."""

TIMEOUT_SECONDS = 60.0
"""Number of seconds to wait for a server that sends nothing."""

LARGEST_WITHOUT_LENGTH = 1 << 30
"""Largest number of bytes that are accepted from a server that does not send the length."""

TRIES = 3
"""Number of consecutive attempts without new bytes after which a download fails."""

PAUSE_SECONDS = 1.0
"""Pause before another attempt: this number of seconds for each consecutive attempt without new bytes."""

LONGEST_PAUSE_SECONDS = 60.0
"""Largest number of seconds that a server may ask to wait; if it asks for more, the download fails."""

_TEMPORARY = (http.HTTPStatus.REQUEST_TIMEOUT, http.HTTPStatus.TOO_MANY_REQUESTS)
"""Client errors (HTTP 4xx) after which a download is tried again, as after all server errors (5xx)."""


class Follow(Protocol):
    """Callback for the progress of a download."""

    def __call__(
        self,
        what: str,
        done: int,
        total: int | None,
    ) -> None:
        """Report that `done` bytes of `what` have arrived; `total` is None if the server does not send it."""


class _CutError(Exception):
    """Raised if a connection ends too early; another attempt may help."""

    def __init__(self, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause
        """Number of seconds that the server asks to wait before another attempt; 0 if it asks for no pause."""


def fetch(
    url: str,
    target: Path,
    digests: Collection[str],
    follow: Follow,
) -> None:
    """Download `url` to `target`; a file that is there already is renamed to `NAME.old`.

    After an interruption, the partial file `NAME.part` remains. The next call resumes from it if the server
    still has the same file. Proxies of the environment are used (`HTTPS_PROXY`).

    Raises:
        DataError: if the server cannot be reached or does not have the file, or if `digests` are given and the
            file has none of them.
        RunError: if the disk is full or `target` cannot be written.
    """
    part = target.with_name(f"{target.name}.part")
    validator_file = target.with_name(f"{target.name}.part.tag")
    with _opened(part) as stream:
        tries = 0
        # A process that ended just before the renaming leaves a complete partial file.
        while not _is_whole(part, stream, digests):
            before = stream.tell()
            try:
                _receive(url, target, stream, validator_file, follow)
                break
            except _CutError as error:
                tries += 1
                if stream.tell() > before:
                    tries = 0
                if tries == TRIES or error.pause > LONGEST_PAUSE_SECONDS:
                    raise DataError(_unreachable(url, target, error)) from error

                time.sleep(max(PAUSE_SECONDS * tries, error.pause))

        _flush(stream, part)
        if digests and (digest := sha256(part)) not in digests:
            part.unlink()
            validator_file.unlink(missing_ok=True)
            raise DataError(
                f"what {url} gives is not what it was: its sha256 is {digest}, expected "
                f"{' or '.join(sorted(digests))}; it was thrown away; run it again, and where that does not "
                f"help, the source has changed: download it by hand, look at it, and put it at `{target}`"
            )

        try:
            keep_aside(target)
            part.replace(target)
        except OSError as error:
            raise RunError(cannot_write(target, error)) from error

        validator_file.unlink(missing_ok=True)


def _is_whole(
    part: Path,
    stream: FileIO,
    digests: Collection[str],
) -> bool:
    """Whether a partial file is complete: it has one of the digests. The stream is moved to its end."""
    size = stream.seek(0, os.SEEK_END)
    return size > 0 and bool(digests) and sha256(part) in digests


def keep_aside(path: Path) -> None:
    """Rename a file that is to be replaced to `NAME.old`, `NAME.old2`, ...; do nothing if there is no file."""
    if not path.exists():
        return

    old = path.with_name(f"{path.name}.old")
    count = 1
    while old.exists():
        count += 1
        old = path.with_name(f"{path.name}.old{count}")

    path.rename(old)


@contextmanager
def _opened(part: Path) -> Iterator[FileIO]:
    """Open a partial file for appending, under a lock; remove it at the end if it is empty."""
    import fcntl

    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        # Without a buffer, closing the file writes nothing, and so cannot fail on a full disk.
        stream = part.open("ab", buffering=0)
    except OSError as error:
        raise RunError(cannot_write(part, error)) from error

    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A process that held the lock before may have finished and renamed the file that `stream` has
            # opened.
            is_partial_file = _is_at(part, stream)
        except BlockingIOError:
            is_partial_file = False

        if not is_partial_file:
            raise DataError(f"another process is downloading `{part}`; wait for it")

        try:
            yield stream
        finally:
            # After the renaming, another process may have created its own partial file.
            if _is_at(part, stream) and part.stat().st_size == 0:
                part.unlink()


def _is_at(part: Path, stream: FileIO) -> bool:
    """Whether the file at the path `part` is the one that `stream` has opened."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), part.stat())
    except FileNotFoundError:
        return False


def _receive(
    url: str,
    target: Path,
    stream: FileIO,
    validator_file: Path,
    follow: Follow,
) -> None:
    """Append the rest of the file at `url` to `stream`; raises `_CutError` if the connection ends early."""
    have = stream.seek(0, os.SEEK_END)
    with _request(url, target, stream, validator_file, have) as response:
        partial = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if have and not (
            partial
            and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        ):
            _start_over(stream, validator_file)
            if partial:
                raise _CutError("it sent another part than was asked for")

            have = 0

        length = response.headers.get("Content-Length", "")
        total = left = None
        if length.isdecimal():
            left = int(length)
            total = have + left

        _save_validator(validator_file, response.headers)
        _require_space(url, target, left)
        for block in _blocks(response):
            _write(stream, block, target)
            have += len(block)
            if total is None and have > LARGEST_WITHOUT_LENGTH:
                _start_over(stream, validator_file)
                raise DataError(
                    f"{url} has sent more than {LARGEST_WITHOUT_LENGTH:,} bytes and does not say how many "
                    f"there are; what had arrived was thrown away; {_by_hand(url, target)}"
                )

            follow(target.name, have, total)

        if total is not None and have < total:
            raise _CutError(f"only {have:,} of {total:,} bytes arrived")


def _request(
    url: str,
    target: Path,
    stream: FileIO,
    validator_file: Path,
    have: int,
) -> Any:
    """Return the server's response to a request for the file, or for the bytes from `have` on.

    Raises:
        _CutError: if another attempt may help.
        DataError: if the server does not have the file.
    """
    headers = {"User-Agent": f"sentbed/{__version__}", "Accept-Encoding": "identity"}
    if have and (tag := _read_validator(validator_file)):
        # The server sends only these bytes if its file is still the same, and otherwise the whole file.
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}

    try:
        # A new opener reads the environment's proxies now; the shared opener does so only at its first use.
        opener = urllib.request.build_opener()
        request = urllib.request.Request(url, headers=headers)
        return opener.open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _start_over(stream, validator_file)
            raise _CutError("what had arrived is longer than the file") from error
        if (
            error.code in _TEMPORARY
            or error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            raise _temporary_error(error) from error

        raise DataError(
            f"{url} answers {error.code} {error.reason}: it has moved, or is not open to everyone; "
            f"{_by_hand(url, target)}"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(
            str(getattr(error, "reason", error)) or type(error).__name__
        ) from error
    except ValueError as error:
        raise DataError(
            f"{url} is no address: {error}; tell the plugin's author"
        ) from error


def _temporary_error(error: urllib.error.HTTPError) -> _CutError:
    """Return the error for a temporary refusal, with the pause in seconds; a date in `Retry-After` is ignored."""
    message = f"it answers {error.code} {error.reason}"
    seconds = error.headers.get("Retry-After", "")
    if not seconds.isdecimal():
        return _CutError(message)

    return _CutError(f"{message} and asks for a pause of {seconds} s", float(seconds))


def _blocks(response: Any) -> Iterator[bytes]:
    """Yield the content of a response, block by block."""
    while True:
        try:
            block = response.read(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _CutError(str(error) or type(error).__name__) from error

        if not block:
            return

        yield block


def _read_validator(validator_file: Path) -> str:
    """Return the saved validator; empty if there is none, or none that fits into a header."""
    try:
        tag = read_file(validator_file, LONGEST_VALIDATOR).decode("ascii")
    except (OSError, UnicodeDecodeError, DataError):
        return ""

    if not tag.isprintable():
        return ""
    return tag


def _save_validator(validator_file: Path, headers: Any) -> None:
    """Save the validator of the server's file that `If-Range` accepts: a strong ETag, or else the date."""
    tag = headers.get("ETag", "")
    if not tag.startswith('"'):
        tag = headers.get("Last-Modified", "")
    try:
        if tag:
            validator_file.write_text(tag)
        else:
            validator_file.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(cannot_write(validator_file, error)) from error


def _start_over(stream: FileIO, validator_file: Path) -> None:
    """Empty a partial file, and remove its validator."""
    stream.truncate(0)
    stream.seek(0)
    validator_file.unlink(missing_ok=True)


def _write(
    stream: FileIO,
    block: bytes,
    target: Path,
) -> None:
    """Write a block to a partial file. Its stream has no buffer, so a call may write only a part of the block."""
    rest = memoryview(block)
    try:
        while rest:
            rest = rest[stream.write(rest) :]
    except OSError as error:
        raise RunError(
            f"{cannot_write(target, error)}; run it again to go on"
        ) from error


def _flush(stream: FileIO, part: Path) -> None:
    try:
        os.fsync(stream.fileno())
    except OSError as error:
        raise RunError(f"{cannot_write(part, error)}; run it again to go on") from error


def _require_space(
    url: str,
    target: Path,
    needed: int | None,
) -> None:
    """Raise `RunError` if the disk has fewer than `needed` bytes free; None stands for an unknown number."""
    free = shutil.disk_usage(target.parent).free
    if needed is not None and needed > free:
        raise RunError(
            f"{url} needs {needed / 1e6:,.1f} MB more, but `{target.parent}` has {free / 1e6:,.1f} MB free; "
            f"free some space, or choose another place with `--dir`"
        )


def _unreachable(
    url: str,
    target: Path,
    error: Exception,
) -> str:
    return (
        f"`{urlsplit(url).netloc}` does not give {url}: {error}; connect to the network, or set "
        f"`HTTPS_PROXY`, and run it again (what has arrived is kept); {_by_hand(url, target)}"
    )


def _by_hand(url: str, target: Path) -> str:
    """Return a clause on how to download a file by hand."""
    return f"by hand: download {url}, put it at `{target}`, and run it again"


class DownloadBars:
    """Progress of downloads on standard error: a bar for each file, or a line if it is not a terminal."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskID | None] = {}
        self._progress: Progress

    def __enter__(self) -> DownloadBars:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import TransferSpeedColumn as Speed

        console = Console(
            stderr=True,
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            Speed(),
        )
        self._progress = Progress(
            *columns,
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(
        self,
        what: str,
        done: int,
        total: int | None,
    ) -> None:
        """Show the progress of the file `what`; see `Follow`."""
        if not self._progress.console.is_terminal:
            if what not in self._tasks:
                from rich.filesize import decimal

                size = "size unknown"
                if total is not None:
                    size = decimal(total)
                self._progress.console.print(f"downloading {what} ({size})")

            self._tasks[what] = None
            return

        task = self._tasks.get(what)
        if task is None:
            task = self._tasks[what] = self._progress.add_task(what, total=total)
        self._progress.update(task, completed=done, total=total)
