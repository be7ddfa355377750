"""Export of encoders by a named exporter, and import by an importer that is named or recognises the files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import Encoder
from sentbed.errors import ModelError, RecipeError, RunError, listed
from sentbed.helpers import reason_of, write_directory
from sentbed.protocols import Exporter, Importer, Runtime
from sentbed.tools import (
    ENCODER_FILE,
    Document,
    Plugins,
    apply_overrides,
    load_plugins,
    structure,
)

from sentbed_interop.merged_adapters import save_merged


@attrs.frozen
class _ExporterTable:
    """Table from which `structure` builds an exporter."""

    part: Exporter


@attrs.frozen
class _ImporterTable:
    """Table from which `structure` builds an importer."""

    part: Importer


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
        exporter = _component(_ExporterTable, "--to", to, overrides, plugins)
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
    from_: str | None = None,
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
    say: Callable[[str], object] | None = None,
) -> Encoder:
    """Import an encoder of another library, save it in a new directory, and return it.

    The importer is `from_`, or the only importer that recognises `source`. `say` is called with a sentence for
    each part of `source` that the encoder lacks; by default, these sentences are logged as warnings.

    Raises:
        RunError: if `output` is not new, or if the name of the importer or an override is wrong.
        ModelError: if no importer recognises `source` or several do, or if `source` cannot be read.
    """
    plugins = plugins or load_plugins()
    target, path = _require_new(output), Path(source)
    try:
        exists = path.exists()
    except OSError as error:
        raise ModelError(
            f"`{source}` cannot be a path: {error.strerror}; check the path"
        ) from error
    if not exists:
        raise ModelError(f"`{source}` does not exist; check the path")

    name = from_ or _recogniser(path, plugins)
    importer: Importer = _component(_ImporterTable, "--from", name, overrides, plugins)
    encoder: Encoder = importer.read(path)
    encoder.save(target)

    say = say or logging.getLogger("sentbed").warning
    for note in importer.notes(path):
        say(note)
    return encoder


def _recogniser(source: Path, plugins: Plugins) -> str:
    """Return the name of the only importer that recognises `source`.

    Raises:
        ModelError: if no importer recognises `source` or several do, or if it is an encoder of sentbed.
    """
    if (source / ENCODER_FILE).is_file():
        raise ModelError(
            f"`{source}` is already an encoder of sentbed; use it as it is"
        )

    names = plugins.names("importer")
    recognising = []
    not_tried = ""
    for name in names:
        try:
            cls = plugins.find("importer", name).cls
            if any(field.default is attrs.NOTHING for field in attrs.fields(cls)):
                not_tried += f"; `{name}` was not tried: it needs `--from {name}` and its fields by `--set`"
            elif cls().recognises(source):
                recognising.append(name)
        except Exception as error:  # noqa: BLE001 - an importer's fault must not hide what other importers recognise
            not_tried += f"; `{name}` failed: {reason_of(error)}"

    if len(recognising) == 1:
        return recognising[0]
    if recognising:
        raise ModelError(
            f"`{source}` looks like {' and '.join(recognising)}; choose one with `--from NAME`{not_tried}"
        )

    installed = listed(names) or "none: `pip install sentbed-interop`"
    if (source / "config.json").is_file():
        raise ModelError(
            f"no importer recognises `{source}` ({installed}). It looks like a model of transformers, which "
            "has no pooling; write a recipe with it as `model` of the backbone"
            f"{not_tried}"
        )
    raise ModelError(
        f"no importer recognises `{source}` ({installed}); "
        f"choose one with `--from NAME`{not_tried}"
    )


def _require_new(output: str | Path) -> Path:
    """Return `output` as a path. Raises `RunError` unless it is a new or an empty directory."""
    target = Path(output)
    try:
        # Unlike `exists`, `stat` raises an error for links that lead to each other.
        target.stat()
        taken = not target.is_dir() or any(target.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        taken = False
    except OSError as error:
        raise RunError(
            f"`{output}` cannot be a path: {error.strerror}; check the path"
        ) from error

    if taken:
        raise RunError(f"`{output}` is not empty; name a new directory")
    return target


def _component(
    cls: type[Any],
    option: str,
    name: str,
    overrides: Sequence[str],
    plugins: Plugins,
) -> Any:
    """Return the exporter or importer called `name`, with its fields set.

    `cls` is the table to build it from, and `option` the command line option that names it, for messages.

    Raises:
        RunError: if there is no such component, or an override is wrong.
    """
    for text in overrides:
        field, equals, _ = text.partition("=")
        if not field.strip() or not equals:
            raise RunError(f"found `--set {text}`, expected `--set FIELD=VALUE`")

    try:
        document = apply_overrides(Document({"use": name}), overrides)
    except RecipeError as error:
        messages = [f"`--set`: {problem.message}" for problem in error.problems]
        raise RunError("; ".join(messages)) from error

    data = {"part": document.data}
    request, problems = structure(
        data, cls, document, plugins, Path.cwd(), (("part",), ())
    )
    if problems:
        messages = []
        for problem in problems:
            place = f"--set {problem.path}"
            if problem.path in ("", "use"):
                place = f"{option} {name}"
            messages.append(f"`{place}`: {problem.message}")
        raise RunError("; ".join(messages))
    return request.part
