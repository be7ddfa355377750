"""Encoding of a corpus shard by shard; after an interruption, only the missing shards are encoded."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import Encoder, __version__
from sentbed.errors import DataError, RunError
from sentbed.helpers import atomic_file, read_json, sha256, write_atomic
from sentbed.protocols import Executor, Runtime
from sentbed.tools import (
    Plugins,
    component_of,
    load_plugins,
    locked,
    naming_components,
    plain,
    saved_recipe,
)
from sentbed_jobs.local import Local

from sentbed_corpus.component_releases import component_releases
from sentbed_corpus.encoding_request import Request
from sentbed_corpus.input_texts import find_inputs, input_texts
from sentbed_corpus.progress import Advance, Bar, no_bar
from sentbed_corpus.task_prompt import require_prompt, under_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MANIFEST = "corpus.json"
"""File in the corpus directory with the inputs, the settings and the encoder of its vectors."""
VECTORS = "vectors"
"""Subdirectory for the files of the shards."""
LOCK = ".lock"
"""Lock file in the corpus directory; the process that writes into the directory holds it."""


@attrs.frozen
class Summary:
    """Result of encoding a corpus."""

    rows: int
    shards: int
    encoded: int
    """Number of rows that this call encoded; the other rows were encoded before."""
    seconds: float


@attrs.frozen
class Shard:
    """Consecutive rows of one input, which are encoded together."""

    number: int
    """Index of the shard among the shards of all inputs, from 0."""
    location: str
    first: int
    """Index of the first row within the input, from 0."""
    rows: int

    def __str__(self) -> str:
        return f"rows {self.first + 1} to {self.first + self.rows} of {self.location}"

    def file(self, output: Path) -> Path:
        """Return the file of its vectors; sorting by name gives the order of the shards."""
        return output / VECTORS / f"part-{self.number:07d}.npy"


def encode_corpus(
    request: Request,
    executor: Executor | None = None,
    *,
    overwrite: bool = False,
    say: Callable[[str], object] = lambda _: None,
    bar: Bar = no_bar,
) -> Summary:
    """Encode a corpus into `request.output`; shards that exist for the same request are kept.

    `executor` encodes the shards; without one, this process does. `say` is called with messages for the user.

    Raises:
        RunError: if the directory has files of something else, or has vectors of another request and `overwrite`
            is not set; or if another process writes into it.
        DataError: if an input cannot be used; finished shards are kept.
        RecipeError: if the runtime's table has problems.
    """
    plugins = load_plugins()
    runtime = component_of(Runtime, request.runtime, plugins, "runtime")
    output = request.output
    _require_own_directory(output)
    settings = _settings(request, runtime, plugins)
    inputs, shards = _cut(request)
    contents = [[entry["rows"], entry["sha256"]] for entry in inputs]
    manifest: dict[str, Any] = {
        "request": {**settings, "inputs": contents},
        "inputs": inputs,
        "rows": sum(shard.rows for shard in shards),
        "encoder": None,
    }
    # Workers may have another working directory.
    absolute = attrs.evolve(
        request,
        encoder=str(Path(request.encoder).absolute()),
        output=output.absolute(),
    )
    encoding = ShardEncoding(absolute, runtime)

    with locked(output / LOCK) as is_free:
        if not is_free:
            raise RunError(
                f"another process is at work on `{output}`; let it end, or choose another directory (several "
                "workers of one command are `--workers`)"
            )
        if overwrite:
            # The manifest is removed first: without it, nobody takes the shards for vectors of this request.
            (output / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(output / VECTORS, ignore_errors=True)
        previous = read_manifest(output)
        if previous is not None:
            _require_same_request(output, previous["request"], manifest["request"])
            manifest["encoder"] = previous["encoder"]
        write_atomic(output / MANIFEST, json.dumps(manifest, indent=1))

        missing = list(shards)
        # Until the manifest has the encoder's protocol, it is unknown how a shard was computed.
        if manifest["encoder"] is not None:
            missing = [shard for shard in shards if not shard.file(output).is_file()]

        finished = len(shards) - len(missing)
        if finished:
            say(
                f"{finished} of {len(shards)} shards are there; {len(missing) or 'none'} to encode"
            )
        rows = sum(shard.rows for shard in missing)
        started = time.perf_counter()
        executor = executor or Local()
        with bar(rows, "encode") as advance:
            results = executor.run(encoding, missing, say)
            _encode_shards(
                results,
                advance,
                manifest,
                output,
                len(shards),
                finished,
            )

        seconds = time.perf_counter() - started

        # Killed workers leave partial files.
        for partial_file in (output / VECTORS).glob(".part-*"):
            partial_file.unlink(missing_ok=True)

    return Summary(manifest["rows"], len(shards), rows, seconds)


def encode_array(request: Request, bar: Bar = no_bar) -> tuple[int, int]:
    """Encode all texts of the inputs into one `.npy` file, `request.output`; return its shape.

    Texts and vectors are held in memory. The file gets its name when it is complete.

    Raises:
        DataError: if an input cannot be used, or there is no text.
        RunError: if a vector is not finite, or the file cannot be written.
    """
    texts: list[str] = []
    for location in find_inputs(request.inputs):
        texts.extend(input_texts(location, request.column))
    _require_some(len(texts), request.inputs)
    encoder = _loaded_encoder(request, request.runtime)
    with naming_components(encoder.recipe), bar(len(texts), "encode") as advance:
        vectors = encoder.encode(texts, progress=advance)
    _write(request.output, vectors, request.dtype)
    rows, width = vectors.shape
    return rows, width


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """Return the manifest in a corpus directory; None if there is none. Raises `RunError` if it is damaged."""
    file = directory / MANIFEST
    if not file.is_file():
        return None
    try:
        manifest: dict[str, Any] = read_json(file)
    except (OSError, ValueError) as error:
        raise RunError(
            f"`{file}` is damaged ({error}); start again with `--overwrite`"
        ) from error
    return manifest


def _require_own_directory(output: Path) -> None:
    """Raise `RunError` if a path is a file, or a directory with other files than those of a corpus."""
    if not output.exists() or (output / MANIFEST).is_file():
        return
    # A command that ends before it writes anything leaves its lock.
    if output.is_dir() and all(path.name == LOCK for path in output.iterdir()):
        return
    raise RunError(
        f"`{output}` has other files than the vectors of a corpus; choose another place"
    )


def _settings(
    request: Request,
    runtime: Runtime,
    plugins: Plugins,
) -> dict[str, Any]:
    """Return all that determines the vectors of given texts, as JSON data.

    Raises:
        RunError: if the encoder does not have the prompt.
    """
    recipe = saved_recipe(Path(request.encoder), plugins, request.trust_remote_code)
    require_prompt(recipe, request.prompt)
    settings: dict[str, Any] = plain(
        {
            "sentbed": __version__,
            "plugins": component_releases(recipe, runtime, plugins),
            "encoder": sha256(Path(request.encoder)),
            "runtime": request.runtime,
            "prompt": request.prompt,
            "instruction": request.instruction,
            "dtype": request.dtype,
            "shard_rows": request.shard_rows,
        }
    )
    return settings


def _cut(request: Request) -> tuple[list[dict[str, Any]], list[Shard]]:
    """Return location, rows and hash of each input, and all shards.

    Every text is read once, so that a row that cannot be used is found before hours of work.
    """
    inputs = []
    shards: list[Shard] = []
    for location in find_inputs(request.inputs):
        rows = 0
        digest = hashlib.sha256()
        for text in input_texts(location, request.column):
            rows += 1
            # No text has a NUL.
            digest.update(text.encode() + b"\0")
        inputs.append({"path": location, "rows": rows, "sha256": digest.hexdigest()})
        for first in range(0, rows, request.shard_rows):
            rows_of_shard = min(request.shard_rows, rows - first)
            shards.append(Shard(len(shards), location, first, rows_of_shard))
    _require_some(len(shards), request.inputs)
    return inputs, shards


def _require_some(texts: int, inputs: Sequence[str]) -> None:
    """Raise `DataError` if there are no texts."""
    if not texts:
        raise DataError(
            "the input is empty, expected one text per row; name another file",
            ", ".join(inputs),
        )


def _require_same_request(
    output: Path,
    previous: dict[str, Any],
    request: dict[str, Any],
) -> None:
    """Raise `RunError` if a directory has the vectors of another request."""
    changes = []
    for key, value in request.items():
        before = previous.get(key)
        if before != value and key in ("encoder", "inputs"):
            changes.append(f"`{key}` has changed")
        elif before != value:
            changes.append(f"`{key}` was {before!r} and is {value!r}")
    if changes:
        raise RunError(
            f"`{output}` has vectors of another request: {'; '.join(changes)}; choose another directory, or "
            "start again with `--overwrite`"
        )


def _encode_shards(
    results: Generator[tuple[Shard, Any], None, None],
    advance: Advance,
    manifest: dict[str, Any],
    output: Path,
    total: int,
    finished: int,
) -> None:
    """Encode the shards that are not finished; the manifest gets the encoder's protocol with the first.

    Raises `RunError` if a shard's workers died, or if the encoder computes otherwise than before, as `auto` does
    on another processor.
    """
    try:
        with closing(results):
            for shard, protocol in results:
                _require_protocol(protocol)
                if manifest["encoder"] is None:
                    manifest["encoder"] = protocol
                    write_atomic(output / MANIFEST, json.dumps(manifest, indent=1))

                _require_same_encoder(shard, manifest["encoder"], protocol, output)
                advance(shard.rows)
                finished += 1
    except BaseException as error:
        if finished:
            error.add_note(
                f"{finished} of {total} shards are finished and stay; the same command does the rest"
            )
        raise


def _require_protocol(protocol: dict[str, Any] | RunError) -> None:
    """Raise the error that an executor yields for a shard whose workers died."""
    if isinstance(protocol, RunError):
        raise protocol


def _require_same_encoder(
    shard: Shard,
    previous: dict[str, Any],
    protocol: dict[str, Any],
    output: Path,
) -> None:
    """If a shard's encoder has another protocol than before, remove the shard's file and raise `RunError`."""
    changes = []
    for key in sorted({*previous, *protocol}):
        before, value = previous.get(key), protocol.get(key)
        if before != value:
            changes.append(f"`{key}` was {before!r} and is {value!r}")

    if changes:
        shard.file(output).unlink(missing_ok=True)
        raise RunError(
            f"{shard}: of the encoder, {'; '.join(changes)}; set `precision`, and use the same versions on "
            "all machines"
        )


@attrs.frozen
class ShardEncoding:
    """Start function of a worker: it loads the encoder and returns the function that encodes a shard."""

    request: Request
    runtime: Runtime

    def __call__(self, threads: int | None) -> Callable[[Shard], dict[str, Any]]:
        """Load the encoder, which uses at most `threads` threads."""
        runtime = self.runtime
        if threads is not None:
            runtime = runtime.with_threads(threads)
        encoder = _loaded_encoder(self.request, runtime)
        return ShardEncoder(encoder, self.request).encode


@attrs.define
class ShardEncoder:
    """Encodes shards in one worker.

    A worker is usually given the shards of an input in their order, so it goes on reading where the last shard
    ended.
    """

    encoder: Encoder
    request: Request
    _location: str = ""
    _texts: Iterator[str] = attrs.field(factory=lambda: iter(()))
    _row: int = 0
    """Number of rows of `_texts` that were read."""

    def encode(self, shard: Shard) -> dict[str, Any]:
        """Encode a shard into its file; return the encoder's protocol, with the width of its vectors."""
        texts = self._read(shard)
        with naming_components(self.encoder.recipe):
            vectors = self.encoder.encode(texts)
        file = shard.file(self.request.output)
        _write(file, vectors, self.request.dtype, f"{shard}: ")
        protocol: dict[str, Any] = plain(self.encoder.protocol())
        return {"width": self.encoder.width, **protocol}

    def _read(self, shard: Shard) -> list[str]:
        """Return the texts of a shard."""
        if shard.location != self._location or shard.first < self._row:
            self._location = shard.location
            self._texts = input_texts(shard.location, self.request.column)
            self._row = 0
        skipped = shard.first - self._row
        texts = list(islice(self._texts, skipped, skipped + shard.rows))
        self._row = shard.first + shard.rows
        if len(texts) != shard.rows:
            raise DataError(
                "the input has changed while it was encoded; start again",
                shard.location,
            )
        return texts


def _loaded_encoder(request: Request, runtime: Any) -> Encoder:
    """Return the encoder of a request on a runtime, with the request's prompt."""
    encoder = Encoder.load(
        request.encoder, runtime, trust_remote_code=request.trust_remote_code
    )
    return under_prompt(encoder, request.prompt, request.instruction)


def _write(
    file: Path,
    vectors: NDArray[np.float32],
    dtype: str,
    place: str = "",
) -> None:
    """Write vectors as an array of numbers of a type. Raises `RunError` if one of them is not finite then."""
    import numpy as np

    with np.errstate(over="ignore"):
        array = vectors.astype(dtype, copy=False)
    if not np.isfinite(array).all():
        limit = np.finfo(array.dtype).max
        raise RunError(
            f"{place}the vectors have NaN, infinite values or values above {limit:.6g}, the largest of {dtype}; "
            "look at the encoder's weights and precision"
        )
    with atomic_file(file) as stream:
        np.save(stream, array)
