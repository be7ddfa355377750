"""`corpus.json`: the manifest of an encoded corpus, with its inputs, settings and encoder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import __version__
from sentbed.errors import DataError, RunError, reason_of
from sentbed.helpers import read_file, write_atomic
from sentbed.tools import plain

from sentbed_corpus.encoding_request import Request
from sentbed_corpus.input_files import Kind, Shard, Source, kind_of

FILE = "corpus.json"
SCHEMA = 1
LARGEST = 1 << 28
"""Largest size in bytes of a manifest that is read; it is enough for some million shards."""
WIDEST = 1 << 20
"""Largest width of vectors that a manifest may state."""
MOST_ROWS = 1 << 48


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
            content = json.loads(read_file(file, LARGEST))
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
        sources = tuple(map(_source, content["inputs"]))
        shards = []
        for number, entry in enumerate(content["shards"]):
            source = sources[_whole(entry, "input", len(sources) - 1)]
            row = _whole(entry, "row", MOST_ROWS)
            rows = _whole(entry, "rows", MOST_ROWS)
            start = _whole(entry, "start", MOST_ROWS)
            shards.append(Shard(number, source, row, rows, start))

        if not shards:
            raise ValueError("there are no shards")
        request = _table(content["request"], "request")
        if request["format"] not in ("npy", "parquet"):
            raise ValueError(f"the format is {request['format']!r:.40}")
        if request["dtype"] not in ("float32", "float16"):
            raise ValueError(f"the dtype is {request['dtype']!r:.40}")
        _table(request["encoder"], "encoder")["sha256"]
        how = content["how"]
        if how is not None and _whole(_table(how, "how"), "width", WIDEST) < 1:
            raise ValueError("the width is 0")
        return cls(request, tuple(shards), sources, how, content["complete"] is True)


def _source(entry: Mapping[str, Any]) -> Source:
    source = Source(**entry)
    if not isinstance(source.path, str) or not isinstance(source.digest, str):
        raise TypeError("the path or the digest of an input is not a string")
    kind_of(Path(source.path))
    for key in ("size", "modified", "rows"):
        _whole(entry, key, 1 << 63)
    return source


def _whole(
    table: Mapping[str, Any],
    key: str,
    most: int,
) -> int:
    """Return the whole number `key` of a table. Raises `ValueError` unless it is from 0 to `most`."""
    value = table[key]
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(
            f"`{key}` is {value!r:.40}, expected a whole number from 0 to {most}"
        )
    return value


def _table(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"`{what}` is {value!r:.40}, expected a table")
    return value


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
