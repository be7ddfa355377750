"""Evaluation of a saved encoder with one evaluator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
from sentbed import Encoder
from sentbed.protocols import Evaluation, Evaluator, PartProgress, Runtime, VectorStore
from sentbed.tools import (
    Document,
    apply_overrides,
    load_plugins,
    naming_components,
    part_of,
)
from sentbed_common import progress_bars

if TYPE_CHECKING:
    from rich.progress import TaskID


@contextmanager
def _bars() -> Iterator[PartProgress]:
    """Show a progress bar for each part of an evaluation. The bar of a finished part disappears."""
    with progress_bars() as progress:
        tasks: dict[str, TaskID] = {}

        def show_progress(
            what: str,
            done: int,
            total: int,
        ) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)
            if done >= total:
                progress.remove_task(tasks.pop(what))

        yield show_progress


@attrs.frozen
class Request:
    """An evaluator, and the runtime that encodes for it."""

    evaluate: Evaluator
    runtime: Runtime


def request_of(evaluator: str, overrides: Sequence[str]) -> Request:
    """Return the request for the evaluator of this name. `overrides` set its fields, or `runtime.FIELD`.

    Raises:
        RecipeError: if fields are invalid; the error lists all of them.
    """
    document = Document.of({"evaluate": {"use": evaluator}, "runtime": {"use": "cpu"}})
    full_overrides = []
    for override in overrides:
        if override.startswith("runtime."):
            full_overrides.append(override)
        else:
            full_overrides.append(f"evaluate.{override}")

    document = apply_overrides(document, full_overrides)
    return part_of(document, Request, load_plugins())


def evaluate_encoder(
    encoder: str,
    evaluator: str,
    overrides: Sequence[str],
    store: VectorStore | None = None,
    trust_remote_code: bool = False,
) -> Evaluation:
    """Evaluate a saved encoder. `overrides` set the evaluator's fields, or `runtime.FIELD`.

    Vectors in `store` are not computed again. For `trust_remote_code` see `Encoder.load`.

    Raises:
        RecipeError: if fields are invalid, or if the evaluator cannot score the encoder.
    """
    request = request_of(evaluator, overrides)
    loaded = Encoder.load(
        encoder, request.runtime, load_plugins(), trust_remote_code=trust_remote_code
    )

    with naming_components([loaded.recipe, request]), _bars() as show_progress:
        return loaded.evaluate(
            request.evaluate,
            encoder,
            progress=show_progress,
            store=store,
            plugins=load_plugins(),
        )
