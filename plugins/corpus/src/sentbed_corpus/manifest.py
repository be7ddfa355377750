"""`corpus.json`: inputs, settings and encoder of an encoded corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import __version__
from sentbed.errors import RunError
from sentbed.helpers import write_atomic

from sentbed_corpus.input_files import Shard, Source
from sentbed_corpus.request import Request

FILE = "corpus.json"
SCHEMA = 1


@attrs.frozen
class Manifest:
    """Description of the shards in a directory."""

    request: Mapping[str, Any]
    """All settings that determine the output."""
    shards: tuple[Shard, ...]
    sources: tuple[Source, ...]
    """All input files; empty ones have no shard."""
    how: Mapping[str, Any] | None = None
    """Description of the encoder: width, precision in effect, pooler, ...; None until a shard is done."""
    complete: bool = False

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(source.rows for source in self.sources)

    def write(self, directory: Path) -> None:
        """Write the manifest into the corpus directory."""
        places = {source: number for number, source in enumerate(self.sources)}
        content = {
            "schema": SCHEMA,
            "complete": self.complete,
            "rows": self.rows,
            "how": self.how,
            "request": self.request,
            "inputs": [attrs.asdict(source) for source in self.sources],
            "shards": [
                {"input": places[shard.source], "row": shard.row, "rows": shard.rows, "start": shard.start}
                for shard in self.shards
            ],
        }
        write_atomic(directory / FILE, json.dumps(content, indent=1))

    @classmethod
    def read(cls, directory: Path) -> Manifest | None:
        """Return the manifest in a directory, or None if there is none.

        Raises:
            RunError: if it cannot be read.
        """
        file = directory / FILE
        if not file.is_file():
            return None
        try:
            found = json.loads(file.read_bytes())
            if found["schema"] != SCHEMA:
                raise RunError(f"`{file}` has schema {found['schema']}; this version reads {SCHEMA}")
            sources = tuple(Source(**entry) for entry in found["inputs"])
            shards = tuple(
                Shard(number, sources[entry["input"]], entry["row"], entry["rows"], entry["start"])
                for number, entry in enumerate(found["shards"])
            )
            return cls(found["request"], shards, sources, found["how"], found["complete"])
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise RunError(f"`{file}` is damaged ({error!r}); start again with `--overwrite`") from error


def asked(request: Request, encoder_digest: str, plugins: Mapping[str, str]) -> dict[str, Any]:
    """Return everything in a request, except its inputs, that determines the output, as JSON data.

    `plugins`: part of the encoder -> distribution and version.
    """
    apart = attrs.filters.exclude("inputs", "output", "encoder", "trust_remote_code")
    table = attrs.asdict(request, filter=apart, value_serializer=_plain)
    encoder = {"path": request.encoder, "sha256": encoder_digest}
    return {"sentbed": __version__, "plugins": dict(plugins), "encoder": encoder, **table}


def _plain(_: object, __: object, value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def differences(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield the differences between two requests, as messages."""
    for key, value in new.request.items():
        before = old.request.get(key)
        if key == "encoder":
            if before is None or before["sha256"] != value["sha256"]:
                yield "the encoder's files are others"
        elif before != value:
            yield f"`{key}` was {before!r} and is {value!r}"
    yield from _other_inputs(old.sources, new.sources)


def _other_inputs(old: Sequence[Source], new: Sequence[Source]) -> Iterator[str]:
    """Yield how the inputs differ; only content and order count, as a corpus may have been moved."""
    if [source.digest for source in old] == [source.digest for source in new]:
        return
    before, now = ({source.path: source.digest for source in sources} for sources in (old, new))
    if before == now:
        yield "the inputs stand in another order"
    for path in before.keys() | now.keys():
        if path not in now:
            yield f"`{path}` is no more among the inputs"
        elif path not in before:
            yield f"`{path}` is new"
        elif before[path] != now[path]:
            yield f"`{path}` has changed"
