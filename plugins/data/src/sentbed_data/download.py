"""Download of one file, which is checked and appears atomically."""

from __future__ import annotations

import hashlib
import http.client
import urllib.request
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from sentbed import __version__
from sentbed.errors import DataError, RunError
from sentbed.helpers import atomic_file, cannot_write

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

BLOCK = 1 << 16

TIMEOUT_SECONDS = 60.0
"""Number of seconds to wait for a server that sends nothing."""


class Follow(Protocol):
    """Callback for the progress of a download."""

    def __call__(
        self,
        what: str,
        done: int,
        total: int | None,
    ) -> None:
        """Report that `done` bytes of `what` have arrived; `total` is None if the server does not send it."""


def fetch(
    url: str,
    target: Path,
    digests: Collection[str],
    follow: Follow,
) -> None:
    """Download `url` to `target`; a file that is there already is renamed to `NAME.old`.

    Proxies of the environment are used (`HTTPS_PROXY`).

    Raises:
        DataError: if the server cannot be reached or does not give the whole file, or if `digests` are given and
            the file has none of them.
        RunError: if the disk is full or `target` cannot be written.
    """
    replace_file(target, _content(url, target, digests, follow))


def _content(
    url: str,
    target: Path,
    digests: Collection[str],
    follow: Follow,
) -> Iterator[bytes]:
    """Yield what the server sends, block by block; raises `DataError` as `fetch`."""
    by_hand = f"by hand: download {url}, put it at `{target}`, and run it again"
    digest = hashlib.sha256()
    done = 0
    total = None
    headers = {"User-Agent": f"sentbed/{__version__}", "Accept-Encoding": "identity"}
    try:
        # A new opener reads the environment's proxies now; the shared opener does so only at its first use.
        opener = urllib.request.build_opener()
        request = urllib.request.Request(url, headers=headers)
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            length = response.headers.get("Content-Length", "")
            if length.isdecimal():
                total = int(length)
            while block := response.read(BLOCK):
                digest.update(block)
                done += len(block)
                follow(target.name, done, total)
                yield block
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DataError(
            f"{url} cannot be downloaded: {error}; connect to the network, or set `HTTPS_PROXY`, and run it "
            f"again; {by_hand}"
        ) from error

    if total is not None and done < total:
        raise DataError(
            f"only {done:,} of {total:,} bytes of {url} arrived; run it again; {by_hand}"
        )

    if digests and digest.hexdigest() not in digests:
        raise DataError(
            f"what {url} gives is not what it was: its sha256 is {digest.hexdigest()}, expected "
            f"{' or '.join(sorted(digests))}; it was thrown away; run it again, and where that does not "
            f"help, the source has changed: download it by hand, look at it, and put it at `{target}`"
        )


def replace_file(target: Path, blocks: Iterable[bytes]) -> None:
    """Write blocks to a file, atomically; a file that is there already is renamed to `NAME.old`."""
    new = target.with_name(f"{target.name}.new")
    with atomic_file(new) as stream:
        for block in blocks:
            stream.write(block)

    try:
        _keep_aside(target)
        new.replace(target)
    except OSError as error:
        raise RunError(cannot_write(target, error)) from error


def _keep_aside(path: Path) -> None:
    if not path.exists():
        return

    old = path.with_name(f"{path.name}.old")
    count = 1
    while old.exists():
        count += 1
        old = path.with_name(f"{path.name}.old{count}")

    path.rename(old)


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
