"""The command `evaluate`: an encoder on disk under one evaluator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from sentbed._document.overrides import apply_overrides
from sentbed._document.structure import structure
from sentbed._document.toml import Document
from sentbed._encoder.encoder import Encoder
from sentbed._encoder.vector_store import VectorStore
from sentbed._registry.registry import load_plugins
from sentbed.errors import RecipeError
from sentbed.protocols import Evaluation, Evaluator, PartProgress, Runtime

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def progress_bars() -> Progress:
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
def _bars() -> Iterator[PartProgress]:
    """Show how far each part of an evaluation is; a part that is done leaves."""
    with progress_bars() as progress:
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
