"""`corpus.json`: the manifest of an encoded corpus, with its inputs, settings and encoder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import __version__
from sentbed.errors import DataError, RunError, reason_of
from sentbed.helpers import write_atomic
from sentbed.tools import plain

from sentbed_corpus.encoding_request import Request
from sentbed_corpus.input_files import Kind, Shard, Source, kind_of

FILE = "corpus.json"
SCHEMA = 1


@attrs.frozen
class Manifest:
    """Description of the shards in a corpus directory."""

    request: Mapping[str, Any]
    """All settings that determine the vectors."""
    shards: tuple[Shard, ...]
    sources: tuple[Source, ...]
    """All input files, including empty files, which have no shard."""
    how: Mapping[str, Any] | None = None
    """Description of the encoder (width, effective precision, pooler, ...); None until a shard is finished."""
    complete: bool = False
    """Whether all shards are finished."""

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(source.rows for source in self.sources)

    def write(self, directory: Path) -> None:
        """Write the manifest into the corpus directory."""
        numbers = {source: number for number, source in enumerate(self.sources)}
        shards = []
        for shard in self.shards:
            shards.append(
                {
                    "input": numbers[shard.source],
                    "row": shard.row,
                    "rows": shard.rows,
                    "start": shard.start,
                }
            )

        content = {
            "schema": SCHEMA,
            "complete": self.complete,
            "rows": self.rows,
            "how": self.how,
            "request": self.request,
            "inputs": list(map(attrs.asdict, self.sources)),
            "shards": shards,
        }
        write_atomic(directory / FILE, json.dumps(content, indent=1))

    @classmethod
    def read(cls, directory: Path) -> Manifest | None:
        """Return the manifest in a directory; None if there is none.

        Raises:
            RunError: if it cannot be read, is damaged, or is of another version.
        """
        file = directory / FILE
        if not file.is_file():
            return None
        try:
            content = json.loads(file.read_bytes())
            if content["schema"] != SCHEMA:
                raise RunError(
                    f"`{file}` has schema {content['schema']}; this version reads {SCHEMA}"
                )
            return cls._structured(content)
        except (
            OSError,
            DataError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            raise RunError(
                f"`{file}` is damaged ({reason_of(error)}); start again with `--overwrite`"
            ) from error

    @classmethod
    def _structured(cls, content: Mapping[str, Any]) -> Manifest:
        """Return the manifest that the JSON data of a file describes.

        Raises:
            LookupError, TypeError, ValueError, AttributeError: if the data is damaged.
        """
        sources = tuple(Source(**entry) for entry in content["inputs"])
        shards = []
        for number, entry in enumerate(content["shards"]):
            source = sources[entry["input"]]
            shards.append(
                Shard(number, source, entry["row"], entry["rows"], entry["start"])
            )
        return cls(
            content["request"],
            tuple(shards),
            sources,
            content["how"],
            content["complete"],
        )


def request_table(
    request: Request,
    encoder_digest: str,
    plugins: Mapping[str, str],
) -> dict[str, Any]:
    """Return all settings of a request that determine the vectors, without its inputs, as JSON data.

    `plugins` maps the path of a component (of the encoder, or the runtime) to the release of its plugin.
    """
    settings = attrs.filters.exclude("inputs", "output", "encoder", "trust_remote_code")
    # It is compared with a table that was read from JSON, which has lists in place of tuples.
    table: dict[str, Any] = plain(attrs.asdict(request, filter=settings))
    # Empty prompts are left out, as in manifests of versions without prompts.
    for key in ("prompt", "instruction"):
        if not table[key]:
            del table[key]
    encoder = {"path": request.encoder, "sha256": encoder_digest}
    return {
        "sentbed": __version__,
        "plugins": dict(plugins),
        "encoder": encoder,
        **table,
    }


def differences(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield a message for each difference between the requests of two manifests."""
    for key in dict.fromkeys([*new.request, *old.request]):
        before: Any = old.request.get(key)
        value: Any = new.request.get(key)
        if key == "encoder":
            if before is None or before["sha256"] != value["sha256"]:
                yield "the encoder has other files"
        elif before != value:
            yield f"`{key}` was {before!r} and is {value!r}"
    yield from _other_inputs(old.sources, new.sources)


def _content(source: Source) -> tuple[str, Kind]:
    """Return what decides the texts of a file: its bytes, and the format in which they are read."""
    return source.digest, kind_of(Path(source.path))


def _other_inputs(old: Sequence[Source], new: Sequence[Source]) -> Iterator[str]:
    """Yield messages if the inputs differ in content or order.

    Directories and names do not count, as the files may have been moved.
    """
    if list(map(_content, old)) == list(map(_content, new)):
        return

    before = {source.path: source.digest for source in old}
    now = {source.path: source.digest for source in new}
    if before == now:
        yield "the inputs are in another order"
    for path in before.keys() | now.keys():
        if path not in now:
            yield f"`{path}` is no longer among the inputs"
        elif path not in before:
            yield f"`{path}` is new"
        elif before[path] != now[path]:
            yield f"`{path}` has changed"
