"""Export and import of encoders: selection and call of the exporter or importer."""

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
class _To:
    part: Exporter


@attrs.frozen
class _From:
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
    """Write a saved encoder into a new directory by the exporter `to`, or in sentbed's own format.

    `overrides` (`FIELD=VALUE`) set the exporter's fields. Formats with tensors need a `runtime` on PyTorch;
    default: `cpu`. For `trust_remote_code` see `Encoder.load`. Returns the exporter's notes for users, such
    as which texts get other vectors.

    Raises:
        RunError: if `output` is not new, or the name or an option is wrong.
        ModelError: if the other library cannot compute the encoder's vectors, with an alternative.
    """
    plugins = plugins or load_plugins()
    target = _new(output)
    exporter: Exporter | None = None
    if to is not None:
        exporter = _component(_To, "--to", to, overrides, plugins)
    elif overrides:
        raise RunError(
            "without `--to` there is nothing to set; take `--set` out, or name an exporter"
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

    The importer is `from_`, or the only one that recognises `source`. `say` is called with a sentence for
    each part of `source` that the encoder lacks; by default they are logged as warnings.

    Raises:
        RunError: if `output` is not new, or the name or an option is wrong.
        ModelError: if no importer or several recognise `source`, or it cannot be read.
    """
    plugins = plugins or load_plugins()
    target, path = _new(output), Path(source)
    try:
        exists = path.exists()
    except OSError as error:
        raise ModelError(
            f"`{source}` cannot be a path: {error.strerror}; check the path"
        ) from error

    if not exists:
        raise ModelError(f"`{source}` does not exist; check the path")
    name = from_ or _recogniser(path, plugins)
    importer: Importer = _component(_From, "--from", name, overrides, plugins)
    encoder: Encoder = importer.read(path)
    encoder.save(target)
    say = say or logging.getLogger("sentbed").warning
    for note in importer.notes(path):
        say(note)
    return encoder


def _recogniser(source: Path, plugins: Plugins) -> str:
    """Return the name of the only importer that recognises `source`; raises `ModelError`."""
    if (source / ENCODER_FILE).is_file():
        raise ModelError(
            f"`{source}` is already an encoder of sentbed; use it as it is"
        )
    names = plugins.names("importer")
    recognising, unasked = [], ""
    for name in names:
        try:
            cls = plugins.find("importer", name).cls
            if any(field.default is attrs.NOTHING for field in attrs.fields(cls)):
                unasked += f"; `{name}` was not asked: it needs `--from {name}` and its fields by `--set`"
            elif cls().recognises(source):
                recognising.append(name)
        except Exception as error:  # noqa: BLE001 - one importer's fault must not hide what others recognise
            unasked += f"; `{name}` could not look: {reason_of(error)}"

    if len(recognising) == 1:
        return recognising[0]
    if recognising:
        raise ModelError(
            f"`{source}` looks like {' and '.join(recognising)}; choose one with `--from NAME`{unasked}"
        )
    installed = listed(names) or "none: `pip install sentbed-interop`"
    if (source / "config.json").is_file():
        raise ModelError(
            f"`{source}` looks like nothing that an importer knows ({installed}), but like a model of "
            "transformers, which says nothing of pooling; write a recipe with it as `model` of the backbone"
            f"{unasked}"
        )
    raise ModelError(
        f"`{source}` looks like nothing that an importer knows ({installed}); "
        f"choose one with `--from NAME`{unasked}"
    )


def _new(output: str | Path) -> Path:
    """Return the path of a directory that is new or empty; raises `RunError`."""
    target = Path(output)
    try:
        # Unlike `exists`, this refuses links that lead to each other.
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
    cls: type[Any], option: str, name: str, overrides: Sequence[str], plugins: Plugins
) -> Any:
    """Return the component of a command line option, with its fields set. Raises `RunError`."""
    for text in overrides:
        field, equals, _ = text.partition("=")
        if not field.strip() or not equals:
            raise RunError(f"found `--set {text}`, expected `--set FIELD=VALUE`")

    try:
        document = apply_overrides(Document({"use": name}), overrides)
    except RecipeError as error:
        raise RunError(
            "; ".join(f"`--set`: {problem.message}" for problem in error.problems)
        ) from error

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
