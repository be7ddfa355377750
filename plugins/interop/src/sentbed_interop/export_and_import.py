"""Export and import of encoders: selection and call of the exporter or importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import Encoder
from sentbed.errors import ModelError, RecipeError, RunError
from sentbed.helpers import reason_of, write_directory
from sentbed.protocols import Exporter, Importer, Runtime
from sentbed.tools import ENCODER_FILE, Document, Plugins, apply_overrides, load_plugins, structure

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
    """Write an encoder on disk into a new directory, as the exporter `to` does, or for sentbed.

    `overrides` (`FIELD=VALUE`) set the exporter's fields. Formats with tensors need a `runtime` on PyTorch;
    default: `cpu`. `trust_remote_code` is that of `Encoder.load`. Returns the exporter's notes for users,
    such as which texts get other vectors.

    Raises:
        RunError: if `output` is not new, or the name or an option is wrong.
        ModelError: if the other library cannot compute the encoder's vectors, with an alternative.
    """
    plugins = plugins or load_plugins()
    target = _new(output)
    if to is None:
        if overrides:
            raise RunError("without `--to` there is nothing to set; take `--set` out, or name an exporter")
        save_merged(Encoder.load(encoder, runtime, plugins, trust_remote_code=trust_remote_code), target)
        return ()
    exporter: Exporter = _part(_To, "--to", to, overrides, plugins)
    loaded = Encoder.load(encoder, runtime, plugins, trust_remote_code=trust_remote_code)
    notes: list[str] = []
    write_directory(target.resolve(), lambda directory: notes.extend(exporter.write(loaded, directory) or ()))
    return tuple(notes)


def import_encoder(
    source: str | Path,
    output: str | Path,
    from_: str | None = None,
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
) -> Encoder:
    """Import an encoder of another library, save it in a new directory, and return it.

    The importer is the one in `from_`, or the only one that recognises `source`.

    Raises:
        RunError: if `output` is not new, or the name or an option is wrong.
        ModelError: if no importer or several recognise `source`, or it cannot be read.
    """
    plugins = plugins or load_plugins()
    target, found = _new(output), Path(source)
    try:
        there = found.exists()
    except OSError as error:
        raise ModelError(f"`{source}` cannot be a path: {error.strerror}; check the path") from error
    if not there:
        raise ModelError(f"`{source}` does not exist; check the path")
    importer: Importer = _part(_From, "--from", from_ or _recogniser(found, plugins), overrides, plugins)
    encoder: Encoder = importer.read(found)
    encoder.save(target)
    return encoder


def _recogniser(source: Path, plugins: Plugins) -> str:
    if (source / ENCODER_FILE).is_file():
        raise ModelError(f"`{source}` is already an encoder of sentbed; use it as it is")
    names = plugins.names("importer")
    found, unasked = [], []
    for name in names:
        try:
            cls = plugins.find("importer", name).cls
            if any(field.default is attrs.NOTHING for field in attrs.fields(cls)):
                unasked.append(f"`{name}` was not asked: it needs `--from {name}` and its fields by `--set`")
                continue
            found += [name] if cls().recognises(source) else []
        except Exception as error:  # noqa: BLE001 - one importer's fault must not hide what others recognise
            unasked.append(f"`{name}` could not look: {reason_of(error)}")
    if len(found) == 1:
        return found[0]
    more = "".join(f"; {one}" for one in unasked)
    if found:
        raise ModelError(f"`{source}` looks like {' and '.join(found)}; choose one with `--from NAME`{more}")
    known = ", ".join(f"`{name}`" for name in names) or "none: `pip install sentbed-interop`"
    if (source / "config.json").is_file():
        raise ModelError(
            f"`{source}` looks like nothing that an importer knows ({known}), but like a model of "
            "transformers, which says nothing of pooling; write a recipe with it as `model` of the backbone"
            f"{more}"
        )
    raise ModelError(
        f"`{source}` looks like nothing that an importer knows ({known}); choose one with `--from NAME`{more}"
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
        raise RunError(f"`{output}` cannot be a path: {error.strerror}; check the path") from error
    if taken:
        raise RunError(f"`{output}` is not empty; name a new directory")
    return target


def _part(cls: type[Any], option: str, name: str, overrides: Sequence[str], plugins: Plugins) -> Any:
    """Return the component that `option` names, with its fields set; raises `RunError`."""
    unlike = [text for text in overrides if not text.partition("=")[0].strip() or "=" not in text]
    if unlike:
        raise RunError(f"found `--set {unlike[0]}`, expected `--set FIELD=VALUE`")
    try:
        document = apply_overrides(Document({"use": name}), overrides)
    except RecipeError as error:
        raise RunError("; ".join(f"`--set`: {problem.message}" for problem in error.problems)) from error
    data = {"part": document.data}
    request, problems = structure(data, cls, document, plugins, Path.cwd(), (("part",), ()))
    if problems:
        found = (f"`{_option(problem.path, option, name)}`: {problem.message}" for problem in problems)
        raise RunError("; ".join(found))
    return request.part


def _option(path: str, option: str, name: str) -> str:
    return f"--set {path}" if path not in ("", "use") else f"{option} {name}"
