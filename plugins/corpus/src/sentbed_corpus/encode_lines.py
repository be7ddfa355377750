"""Encoding of the lines of one text file into one `.npy` file."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import click
from sentbed import Encoder
from sentbed.errors import DataError
from sentbed.helpers import atomic_file
from sentbed.tools import WINDOW, naming_components
from sentbed_common import progress_bars
from sentbed_jobs.progress_lines import ProgressLines

from sentbed_corpus.input_rows import text_row
from sentbed_corpus.task_prompt import under_prompt
from sentbed_corpus.vector_writer import require_finite, write_npy_header


def encode_lines(
    encoder: str,
    runtime: Mapping[str, Any],
    source: str,
    output: Path,
    trust_remote_code: bool = False,
    prompt: str = "",
    instruction: str = "",
) -> tuple[int, int]:
    """Encode each line of a UTF-8 file (`-` for standard input) into a `.npy` file; return its shape.

    For `trust_remote_code` see `Encoder.load`, for `prompt` and `instruction` see `Request`. Lines are read,
    encoded and written in windows of `WINDOW` lines, so that little is held in memory. The file gets its name
    when it is complete.

    Raises:
        DataError: for an empty or a missing file, bytes that are not UTF-8 (with the line), or a file that
            changes meanwhile.
    """
    with _lines_of(source) as stream:
        # All lines are checked and counted before anything is encoded.
        rows = sum(1 for _ in _decoded(stream, source))
        if rows == 0:
            raise DataError("the file is empty, expected one text per line", source)
        stream.seek(0)

        loaded = Encoder.load(encoder, runtime, trust_remote_code=trust_remote_code)
        loaded = under_prompt(loaded, prompt, instruction)
        with (
            naming_components(loaded.recipe),
            atomic_file(output.resolve()) as file,
            bar(rows) as advance,
        ):
            write_npy_header(file, rows, loaded.width, "float32")
            lines = _decoded(stream, source)
            encoded = 0
            while window := list(islice(lines, WINDOW)):
                encoded += len(window)
                vectors = loaded.encode(window, progress=advance)
                require_finite(vectors)
                file.write(vectors.tobytes())

            # The header of the output has the number of lines that were counted before.
            if encoded != rows:
                raise DataError(
                    "the file has changed while it was encoded; start again", source
                )

    return rows, loaded.width


@contextmanager
def _lines_of(source: str) -> Iterator[IO[bytes]]:
    """Open the input so that it can be read twice; standard input and pipes are copied to a temporary file."""
    with ExitStack() as stack:
        if source == "-":
            stream: IO[bytes] = sys.stdin.buffer
        else:
            try:
                stream = stack.enter_context(Path(source).open("rb"))
            except OSError as error:
                raise DataError(
                    f"cannot read the file: {error.strerror}; check the path", source
                ) from error
        if source == "-" or not stream.seekable():
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, copy)
            copy.seek(0)
            stream = copy
        yield stream


def _decoded(stream: IO[bytes], source: str) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        yield text_row(line, source, number)


@contextmanager
def bar(total: int, what: str = "encode") -> Iterator[Any]:
    """Show a progress bar (lines, if there is no terminal); yield the function that advances it."""
    with progress_bars() as progress:
        if progress.disable:
            yield ProgressLines(what, total, partial(click.echo, err=True)).advance
            return
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, advance=done)
