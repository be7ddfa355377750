"""Export of encoders by a named exporter, and import by a named importer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentbed import Encoder
from sentbed.errors import ModelError, RecipeError, RunError
from sentbed.helpers import write_directory
from sentbed.protocols import Exporter, Importer, Runtime
from sentbed.tools import (
    Document,
    Plugins,
    apply_overrides,
    load_plugins,
    part_of,
)

from sentbed_interop.merged_adapters import save_merged


def export_encoder(
    encoder: str | Path,
    output: str | Path,
    to: str | None = None,
    overrides: Sequence[str] = (),
    runtime: Runtime | Mapping[str, Any] | None = None,
    plugins: Plugins | None = None,
    trust_remote_code: bool = False,
) -> tuple[str, ...]:
    """Write a saved encoder into a new directory with the exporter `to`, or in sentbed's format if `to` is None.

    `overrides` (`FIELD=VALUE`) set the exporter's fields. The encoder is loaded on `runtime`, by default `cpu`.
    An exporter that reads the encoder's PyTorch modules needs a runtime on PyTorch. For `trust_remote_code` see
    `Encoder.load`. Return the exporter's notes for users, such as which texts get other vectors.

    Raises:
        RunError: if `output` is not new, or if the name of the exporter or an override is wrong.
        ModelError: if the other library cannot compute the encoder's vectors; the message names an alternative.
    """
    plugins = plugins or load_plugins()
    target = _require_new(output)
    exporter: Exporter | None = None
    if to is not None:
        exporter = _component(Exporter, "--to", to, overrides, plugins)
    elif overrides:
        raise RunError(
            "without `--to` there is nothing to set; leave out `--set`, or name an exporter"
        )

    loaded = Encoder.load(
        encoder, runtime, plugins, trust_remote_code=trust_remote_code
    )
    if exporter is None:
        save_merged(loaded, target)
        return ()

    notes: list[str] = []
    write_directory(
        target.resolve(),
        lambda directory: notes.extend(exporter.write(loaded, directory) or ()),
    )
    return tuple(notes)


def import_encoder(
    source: str | Path,
    output: str | Path,
    from_: str,
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
    say: Callable[[str], object] | None = None,
) -> Encoder:
    """Import an encoder of another library with the importer `from_`, save it in a new directory, and return it.

    `say` is called with a sentence for each part of `source` that the encoder lacks; by default, these sentences
    are logged as warnings.

    Raises:
        RunError: if `output` is not new, or if the name of the importer or an override is wrong.
        ModelError: if `source` cannot be read.
    """
    plugins = plugins or load_plugins()
    target, path = _require_new(output), Path(source)
    if not path.exists():
        raise ModelError(f"`{source}` does not exist; check the path")

    importer: Importer = _component(Importer, "--from", from_, overrides, plugins)
    encoder: Encoder = importer.read(path)
    encoder.save(target)

    say = say or logging.getLogger("sentbed").warning
    for note in importer.notes(path):
        say(note)
    return encoder


def _require_new(output: str | Path) -> Path:
    """Return `output` as a path. Raises `RunError` unless it is a new or an empty directory."""
    target = Path(output)
    taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if taken:
        raise RunError(f"`{output}` is not empty; name a new directory")
    return target


def _component(
    base: type[Any],
    option: str,
    name: str,
    overrides: Sequence[str],
    plugins: Plugins,
) -> Any:
    """Return the exporter or importer called `name`, with its fields set.

    `base` is `Exporter` or `Importer`, and `option` the command line option that names it, for messages.

    Raises:
        RunError: if there is no such component, or an override is wrong.
    """
    try:
        document = apply_overrides(Document.of({"use": name}), overrides)
        component = part_of(document, base, plugins)
    except RecipeError as error:
        messages = []
        for problem in error.problems:
            place = f"--set {problem.path}"
            if problem.path in ("", "use"):
                place = f"{option} {name}"
            messages.append(f"`{place}`: {problem.message}")
        raise RunError("; ".join(messages)) from error
    return component
