"""`corpus.json`: inputs, settings and encoder of an encoded corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed import __version__
from sentbed.errors import DataError, RunError, reason_of
from sentbed.helpers import read_file, write_atomic

from sentbed_corpus.encoding_request import Request
from sentbed_corpus.input_files import Shard, Source

FILE = "corpus.json"
SCHEMA = 1
LARGEST = 1 << 28
"""Largest size in bytes of a manifest, enough for some million shards."""
WIDEST = 1 << 20
"""Largest dimension of a vector."""
MOST_ROWS = 1 << 48


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
        """Return the manifest in a directory, or None if there is none.

        Raises:
            RunError: if it cannot be read.
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
            RecursionError,
        ) as error:
            raise RunError(
                f"`{file}` is damaged ({reason_of(error)}); start again with `--overwrite`"
            ) from error

    @classmethod
    def _structured(cls, content: Mapping[str, Any]) -> Manifest:
        """Return the manifest that a file's content describes.

        Raises:
            LookupError, TypeError, ValueError, AttributeError: if the content is damaged.
        """
        sources = tuple(map(_source, content["inputs"]))
        shards = []
        for number, entry in enumerate(content["shards"]):
            source = sources[_whole(entry, "input", len(sources) - 1)]
            row, rows, start = (
                _whole(entry, key, MOST_ROWS) for key in ("row", "rows", "start")
            )
            shards.append(Shard(number, source, row, rows, start))

        request = _table(content["request"], "request")
        if request["format"] not in ("npy", "parquet") or request["dtype"] not in (
            "float32",
            "float16",
        ):
            raise ValueError("its format or dtype is never written")
        _table(request["encoder"], "encoder")["sha256"]
        how = content["how"]
        if how is not None and _whole(_table(how, "how"), "width", WIDEST) < 1:
            raise ValueError("the width is 0")
        return cls(request, tuple(shards), sources, how, content["complete"] is True)


def _source(entry: Mapping[str, Any]) -> Source:
    source = Source(**entry)
    if not isinstance(source.path, str) or not isinstance(source.digest, str):
        raise TypeError("the path or the digest of an input is not a string")
    for key in ("size", "modified", "rows"):
        _whole(entry, key, 1 << 63)
    return source


def _whole(table: Mapping[str, Any], key: str, most: int) -> int:
    """Return a whole number from 0 to `most` of a table. Raises `ValueError` if it is anything else."""
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
    request: Request, encoder_digest: str, plugins: Mapping[str, str]
) -> dict[str, Any]:
    """Return everything in a request, except its inputs, that determines the output, as JSON data.

    `plugins`: part of the encoder -> distribution and version.
    """
    apart = attrs.filters.exclude("inputs", "output", "encoder", "trust_remote_code")
    table = attrs.asdict(request, filter=apart, value_serializer=_plain)
    # Manifests of before have no prompts.
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


def _plain(_: object, __: object, value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value


def differences(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield the differences between two requests, as messages."""
    request_before, request = old.request, new.request
    for key in dict.fromkeys([*request, *request_before]):
        before: Any = request_before.get(key)
        value: Any = request.get(key)
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
    before = {source.path: source.digest for source in old}
    now = {source.path: source.digest for source in new}
    if before == now:
        yield "the inputs stand in another order"
    for path in before.keys() | now.keys():
        if path not in now:
            yield f"`{path}` is no more among the inputs"
        elif path not in before:
            yield f"`{path}` is new"
        elif before[path] != now[path]:
            yield f"`{path}` has changed"
