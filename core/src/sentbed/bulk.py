"""What the commands `encode` and `evaluate` do with an encoder that lies on disk."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import attrs

from sentbed.corpus.reading import text_row
from sentbed.corpus.writing import require_finite, write_npy_header
from sentbed.encode import WINDOW
from sentbed.encoder import Encoder, PartProgress
from sentbed.errors import DataError, RecipeError
from sentbed.overrides import apply_overrides
from sentbed.paths import atomic_file
from sentbed.protocols import Evaluation, Evaluator, Runtime
from sentbed.registry import load_plugins
from sentbed.structure import structure
from sentbed.toml import Document
from sentbed.vectors import VectorStore

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def encode_lines(encoder: str, runtime: Mapping[str, Any], source: str, output: Path) -> tuple[int, int]:
    """Encode each line of a UTF-8 file (`-` for standard input) into a `.npy` file; returns its shape.

    Memory stays bounded: lines are read a window at a time and vectors go straight into the file. The file
    appears when it is complete.

    Raises:
        DataError: for bytes that are not UTF-8 (with the line), an empty or a missing file.
    """
    with _lines_of(source) as stream:
        rows = sum(1 for _ in _decoded(stream, source))
        if rows == 0:
            raise DataError("the file is empty, expected one sentence a line", source)
        stream.seek(0)
        loaded = Encoder.load(encoder, runtime)
        with atomic_file(output) as file, bar(rows) as advance:
            write_npy_header(file, rows, loaded.width, "float32")
            window: list[str] = []
            for number, line in enumerate(_decoded(stream, source), start=1):
                window.append(line)
                if len(window) == WINDOW or number == rows:
                    vectors = loaded.encode(window, advance)
                    require_finite(vectors)
                    file.write(vectors.tobytes())
                    window = []
    return rows, loaded.width


@contextmanager
def _lines_of(source: str) -> Iterator[IO[bytes]]:
    """Open the input for two passes; what cannot be read twice is kept in a temporary file."""
    with ExitStack() as stack:
        if source == "-":
            stream: IO[bytes] = sys.stdin.buffer
        else:
            try:
                stream = stack.enter_context(Path(source).open("rb"))
            except OSError as error:
                raise DataError(f"cannot read the file: {error.strerror}; check the path", source) from error
        if source == "-" or not stream.seekable():
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, copy)
            copy.seek(0)
            stream = copy
        yield stream


def _decoded(stream: IO[bytes], source: str) -> Iterator[str]:
    return (text_row(line, source, number) for number, line in enumerate(stream, start=1))


def _progress() -> Progress:
    """Return bars on standard error, shown where that is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, *times, console=console, disable=not console.is_terminal)


@contextmanager
def bar(total: int) -> Iterator[Any]:
    """Show how far encoding is; yields the function that advances it."""
    with _progress() as progress:
        task = progress.add_task("encode", total=total)
        yield lambda done: progress.update(task, advance=done)


@contextmanager
def _bars() -> Iterator[PartProgress]:
    """Show how far each part of an evaluation is; a part that is done leaves."""
    with _progress() as progress:
        tasks: dict[str, TaskID] = {}

        def told(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)
            if done >= total:
                progress.remove_task(tasks.pop(what))

        yield told


@attrs.frozen
class _Request:
    evaluate: Evaluator
    runtime: Runtime


def evaluate_encoder(
    encoder: str, evaluator: str, overrides: Sequence[str], store: VectorStore | None = None
) -> Evaluation:
    """Evaluate an encoder on disk; `overrides` set the evaluator's fields, or `runtime.FIELD`.

    Vectors that are in `store` are not computed again.

    Raises:
        RecipeError: with every field that is wrong.
    """
    plugins = load_plugins()
    document = Document({"evaluate": {"use": evaluator}, "runtime": {"use": "cpu"}})
    placed = [text if text.startswith("runtime.") else f"evaluate.{text}" for text in overrides]
    document = apply_overrides(document, placed)
    request, problems = structure(document.data, _Request, document, plugins, Path.cwd())
    if problems:
        raise RecipeError(problems)
    loaded = Encoder.load(encoder, request.runtime, plugins)
    with _bars() as told:
        return loaded.evaluate(request.evaluate, encoder, progress=told, store=store, plugins=plugins)
