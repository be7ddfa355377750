"""Encoders that come from elsewhere, and go there: what finds the exporter or importer and calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from sentbed.encoder import Encoder
from sentbed.errors import ModelError, RecipeError, RunError
from sentbed.overrides import apply_overrides
from sentbed.paths import write_directory
from sentbed.protocols import Exporter, Importer, Runtime
from sentbed.registry import Plugins, load_plugins
from sentbed.structure import structure
from sentbed.toml import Document


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
) -> None:
    """Write an encoder on disk into a new directory, as the exporter `to` does, or for sentbed.

    `overrides` (`FIELD=VALUE`) set the exporter's fields. What needs tensors needs a `runtime` of PyTorch:
    `cpu`, as it is where left out.

    Raises:
        RunError: where `output` is not new.
        ModelError: where the other library cannot compute what the encoder does, with what to take instead.
    """
    plugins = plugins or load_plugins()
    target = _new(output)
    if to is None:
        if overrides:
            raise RunError("without `--to` there is nothing to set; take `--set` out, or name an exporter")
        Encoder.load(encoder, runtime, plugins).export(target)
        return
    exporter: Exporter = _part(_To, to, overrides, plugins)
    loaded = Encoder.load(encoder, runtime, plugins)
    write_directory(target.resolve(), lambda directory: exporter.write(loaded, directory))


def import_encoder(
    source: str | Path,
    output: str | Path,
    from_: str | None = None,
    overrides: Sequence[str] = (),
    plugins: Plugins | None = None,
) -> Encoder:
    """Make an encoder of what another library wrote, save it in a new directory, and return it.

    The importer is the one that is named, or the only one that recognises `source`.

    Raises:
        RunError: where `output` is not new.
        ModelError: where nobody recognises `source`, several do, or it cannot be read.
    """
    plugins = plugins or load_plugins()
    target, found = _new(output), Path(source)
    if not found.exists():
        raise ModelError(f"`{source}` does not exist; check the path")
    importer: Importer = _part(_From, from_ or _recogniser(found, plugins), overrides, plugins)
    encoder = importer.read(found)
    encoder.save(target)
    return encoder


def _recogniser(source: Path, plugins: Plugins) -> str:
    names = plugins.names("importer")
    found = [name for name in names if plugins.find("importer", name).cls().recognises(source)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(f"`{source}` looks like {' and '.join(found)}; choose one with `--from NAME`")
    known = ", ".join(f"`{name}`" for name in names) or "none: `pip install sentbed-interop`"
    raise ModelError(
        f"`{source}` looks like nothing that an importer knows ({known}); choose one with `--from NAME`"
    )


def _new(output: str | Path) -> Path:
    target = Path(output)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunError(f"`{output}` is not empty; name a new directory")
    return target


def _part(cls: type[Any], name: str, overrides: Sequence[str], plugins: Plugins) -> Any:
    document = apply_overrides(Document({"part": {"use": name}}), [f"part.{text}" for text in overrides])
    request, problems = structure(document.data, cls, document, plugins, Path.cwd())
    if problems:
        raise RecipeError(problems)
    return request.part
