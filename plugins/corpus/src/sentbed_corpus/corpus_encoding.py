"""Encoding of a corpus shard by shard; after an interruption, only the missing shards are encoded."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from sentbed import Encoder
from sentbed.errors import DataError, ModelError, RunError
from sentbed.helpers import sha256
from sentbed.protocols import Runtime
from sentbed.tools import (
    Plugins,
    component_of,
    load_plugins,
    locked,
    saved_recipe,
)
from sentbed_common import TaskPool, is_locked
from sentbed_jobs.executor_lookup import executor_of

from sentbed_corpus.component_releases import component_releases
from sentbed_corpus.encoding_request import Request
from sentbed_corpus.input_files import (
    Shard,
    Source,
    find_files,
    kind_of,
    require_pyarrow,
    state_of,
)
from sentbed_corpus.input_rows import read_shard
from sentbed_corpus.input_shards import cut
from sentbed_corpus.manifest import FILE, Manifest, differences, request_table
from sentbed_corpus.plurals import count
from sentbed_corpus.shard_digests import FILE as DIGESTS
from sentbed_corpus.shard_digests import (
    add_digest,
    is_intact,
    read_digests,
    write_digests,
)
from sentbed_corpus.task_prompt import require_prompt, under_prompt
from sentbed_corpus.vector_writer import (
    VECTORS,
    VECTORS_COLUMN,
    is_whole,
    shard_file,
    write_shard,
)

LOCK = ".lock"
"""Lock file in the corpus directory; the process that writes into the directory holds it."""

ANNOUNCED_SIZE = 500_000_000
"""Total size in bytes of files above which a message says that they are read, since this takes some seconds."""

Advance: TypeAlias = Callable[[int], object]
"""Function that is called with the number of rows finished since its last call."""


@attrs.frozen
class Summary:
    """Result of encoding a corpus."""

    rows: int
    width: int
    shards: int
    encoded: int
    """Number of rows that this call encoded; the other rows were encoded before."""
    seconds: float


def encode_corpus(
    request: Request,
    executor: TaskPool | None = None,
    *,
    overwrite: bool = False,
    say: Callable[[str], object] = lambda _: None,
    bar: Callable[[int], AbstractContextManager[Advance]] = lambda _: nullcontext(
        lambda _: None
    ),
) -> Summary:
    """Encode a corpus into `request.output`; shards that exist for the same request are kept.

    `say` is called with messages for the user. `bar(rows)` is a context manager that shows the progress up to
    `rows` rows; it yields the function that is called with the number of newly finished rows.

    Raises:
        RunError: if the directory has files of something else, or has vectors of another request and `overwrite`
            is not set; or if another process writes into it.
        DataError: if an input cannot be used; finished shards are kept.
        RecipeError: if the runtime's table has problems.
    """
    plugins = load_plugins()
    runtime = component_of(Runtime, request.runtime, plugins, "runtime")
    parts = _plugins_of(request, runtime, plugins)
    if is_locked(request.output / LOCK):
        raise _busy(request.output)
    planned, previous = _planned(request, parts, overwrite, say)
    executor = executor or executor_of("local", {}, plugins, say)
    with _alone(request.output):
        if overwrite:
            # The manifest is removed first, since it marks shards as complete.
            for file in (FILE, DIGESTS):
                (request.output / file).unlink(missing_ok=True)
            shutil.rmtree(request.output / VECTORS, ignore_errors=True)
        elif Manifest.read(request.output) != previous:
            raise _busy(request.output)
        return _encode_missing(request, runtime, planned, previous, executor, say, bar)


def _encode_missing(
    request: Request,
    runtime: Runtime,
    planned: Manifest,
    previous: Manifest | None,
    executor: TaskPool,
    say: Callable[[str], object],
    bar: Callable[[int], AbstractContextManager[Advance]],
) -> Summary:
    """Encode the shards of `planned` that are missing or damaged."""
    # Paths are absolute, as workers may have another working directory.
    encoder = Path(request.encoder).resolve()
    absolute = attrs.evolve(
        request, encoder=str(encoder), output=request.output.resolve()
    )
    digest = planned.request["encoder"]["sha256"]
    encoding = Encoding(absolute, runtime, digest, socket.gethostname())
    state = planned
    intact: dict[str, str] = {}
    # Until the manifest has the encoder's description, it is unknown which encoder made a shard.
    if previous is not None and previous.how is not None:
        state = attrs.evolve(planned, how=previous.how)
        intact = _intact(request, state, say)

    missing = []
    for shard in state.shards:
        if encoding.file(shard).name not in intact:
            missing.append(shard)
    write_digests(request.output, intact)
    if len(missing) < len(planned.shards):
        say(
            f"{len(intact)} of {len(planned.shards)} shards are there; {len(missing) or 'none'} to encode"
        )
    state.write(request.output)

    rows = sum(shard.rows for shard in missing)
    started = time.perf_counter()
    with bar(rows) as advance:
        state = _run_tasks(state, missing, encoding, executor, advance)
    seconds = time.perf_counter() - started

    # Killed workers leave partial files.
    for partial_file in (request.output / VECTORS).glob(".part-*"):
        partial_file.unlink(missing_ok=True)

    # The hashes were added as shards ended; they are written again in the order of the shards.
    write_digests(request.output, read_digests(request.output) or {})
    attrs.evolve(state, complete=True).write(request.output)
    width: int = (state.how or {})["width"]
    return Summary(state.rows, width, len(state.shards), rows, seconds)


def _intact(
    request: Request,
    state: Manifest,
    say: Callable[[str], object],
) -> dict[str, str]:
    """Return name of a file -> its hash, for the shards whose file has not changed since it was written."""
    digests = read_digests(request.output)
    intact = {}
    for shard in state.shards:
        file = shard_file(request.output, shard.number, request.format)
        if digests is None:
            # The directory was written by a version of sentbed that kept no hashes.
            if is_whole(file, shard.rows, request):
                intact[file.name] = sha256(file)
        elif is_intact(file, digests):
            intact[file.name] = digests[file.name]

    if digests is None and intact:
        say(
            f"{len(intact)} shards were written without a hash, and are taken as they are"
        )
    return intact


def _busy(output: Path) -> RunError:
    return RunError(
        f"another process is at work on `{output}`; let it end, or choose another directory (several workers "
        "of one command are `--workers`)"
    )


@contextmanager
def _alone(output: Path) -> Iterator[None]:
    """Lock a corpus directory. Raises `RunError` if another process has locked it."""
    with locked(output / LOCK) as free:
        if not free:
            raise _busy(output)
        yield


def _run_tasks(
    state: Manifest,
    missing: Sequence[Shard],
    encoding: Encoding,
    executor: TaskPool,
    advance: Advance,
) -> Manifest:
    """Encode the missing shards; return the manifest, which then has the encoder's description."""
    left = len(missing)
    try:
        with closing(executor.run(encoding, missing)) as results:
            for shard, (how, digest) in results:
                if state.how is None:
                    state = attrs.evolve(state, how=how)
                    state.write(encoding.request.output)
                _require_same(shard, how, state.how, encoding)
                add_digest(encoding.request.output, encoding.file(shard).name, digest)
                advance(shard.rows)
                left -= 1
    except BaseException as error:
        total = len(state.shards)
        if left < total:
            error.add_note(
                f"{total - left} of {total} shards are finished and stay; the same command does the rest"
            )
        raise

    return state


def _planned(
    request: Request,
    parts: Mapping[str, str],
    overwrite: bool,
    say: Callable[[str], object],
) -> tuple[Manifest, Manifest | None]:
    """Return the manifest of the request, and the manifest in the directory.

    The latter is None if there is none, or if it is to be overwritten.
    """
    if VECTORS_COLUMN in request.keep:
        raise DataError(
            f"`{VECTORS_COLUMN}` is the column of the vectors; keep other columns, or rename this one"
        )
    if request.format == "parquet":
        require_pyarrow()
    elif request.keep:
        raise DataError(
            "`.npy` files hold vectors only; keep columns with the format `parquet`"
        )

    output = request.output
    if output.exists() and not (output / FILE).is_file() and not _is_empty(output):
        raise RunError(
            f"`{output}` has other files than the vectors of a corpus; choose another place"
        )

    previous = None
    if not overwrite:
        previous = Manifest.read(output)
    planned = _cut(request, parts, previous, say)
    if previous is None:
        return planned, None
    changes = sorted(differences(previous, planned))
    if changes:
        raise RunError(
            f"`{output}` has vectors of another request: {'; '.join(changes)}; choose another "
            "directory, or start again with `--overwrite`"
        )
    return planned, previous


def _is_empty(output: Path) -> bool:
    """Whether a directory is empty, except for the lock of a command that ended before it wrote anything."""
    return output.is_dir() and all(path.name == LOCK for path in output.iterdir())


def _cut(
    request: Request,
    parts: Mapping[str, str],
    previous: Manifest | None,
    say: Callable[[str], object],
) -> Manifest:
    """Return the manifest of the request; files that have not changed since `previous` are not read."""
    files = find_files(request.inputs, request.output)
    for file in files:
        kind_of(file)
    unchanged = _unchanged_shards(previous, request)
    number_to_read = 0
    size = 0
    for file in files:
        if str(file) not in unchanged:
            number_to_read += 1
            size += state_of(file)[0]
    if size > ANNOUNCED_SIZE:
        say(f"looking through {count(number_to_read, 'file')}, {size / 1e9:.1f} GB")

    sources = []
    shards: list[Shard] = []
    for file in files:
        if str(file) in unchanged:
            source, shards_of_file = unchanged[str(file)]
        else:
            source, shards_of_file = cut(
                file, request.shard_rows, request.column, request.keep
            )
        sources.append(source)
        for shard in shards_of_file:
            shards.append(attrs.evolve(shard, number=len(shards)))

    if not shards:
        raise DataError(
            "the input is empty, expected one text per row", ", ".join(request.inputs)
        )
    table = request_table(request, sha256(Path(request.encoder)), parts)
    return Manifest(table, tuple(shards), tuple(sources))


def _unchanged_shards(
    previous: Manifest | None, request: Request
) -> dict[str, tuple[Source, list[Shard]]]:
    """Return path of a file -> its source and shards, for files that have not changed since `previous`.

    The result is empty if `previous` is None, or if its request divides files into shards in another way.
    """
    if previous is None:
        return {}
    settings = {
        "shard_rows": request.shard_rows,
        "column": request.column,
        "keep": list(request.keep),
    }
    for key, value in settings.items():
        if previous.request.get(key) != value:
            return {}

    unchanged: dict[str, tuple[Source, list[Shard]]] = {}
    for source in previous.sources:
        if Path(source.path).is_file() and source.is_unchanged():
            unchanged[source.path] = (source, [])

    for shard in previous.shards:
        if shard.source.path in unchanged:
            unchanged[shard.source.path][1].append(shard)

    return unchanged


def _plugins_of(
    request: Request,
    runtime: Runtime,
    plugins: Plugins,
) -> dict[str, str]:
    """Return the plugin releases of backbone, pooler and runtime; another release may give other vectors."""
    recipe = saved_recipe(Path(request.encoder), plugins, request.trust_remote_code)
    require_prompt(recipe, request.prompt)
    return component_releases(recipe, runtime, plugins)


@attrs.frozen
class Encoding:
    """Start function of a worker: it loads the encoder and returns the function that encodes a shard."""

    request: Request
    runtime: Runtime
    digest: str
    """SHA-256 of the encoder's directory."""
    host: str
    """Host on which `digest` was computed."""

    def file(self, shard: Shard) -> Path:
        """Return the output file of a shard."""
        return shard_file(self.request.output, shard.number, self.request.format)

    def __call__(
        self, threads: int | None
    ) -> Callable[[Shard], tuple[dict[str, Any], str]]:
        """Load the encoder; return the function that encodes a shard.

        Raises:
            ModelError: if this machine's encoder differs from the encoder on `host`.
        """
        directory = Path(self.request.encoder)
        host = socket.gethostname()
        is_elsewhere = host != self.host and directory.is_dir()
        if is_elsewhere and sha256(directory) != self.digest:
            raise ModelError(
                f"`{directory}` on {host} is another encoder than on {self.host}; put it where all "
                "machines see the same files"
            )

        runtime = self.runtime
        if threads is not None:
            runtime = runtime.with_threads(threads)
        trust = self.request.trust_remote_code
        encoder = Encoder.load(directory, runtime, trust_remote_code=trust)
        encoder = under_prompt(encoder, self.request.prompt, self.request.instruction)
        return partial(self._encode_shard, encoder)

    def _encode_shard(
        self,
        encoder: Encoder,
        shard: Shard,
    ) -> tuple[dict[str, Any], str]:
        """Encode a shard into its file; return the encoder's description and the file's hash."""
        request = self.request
        texts, kept = read_shard(shard, request.column, request.keep)
        vectors = encoder.encode(texts)
        digest = write_shard(self.file(shard), vectors, kept, request, shard)

        # The description is compared with one that was read from the manifest, so it is made JSON data.
        description = {"width": encoder.width, **encoder.protocol()}
        text = json.dumps(description, default=str)
        described: dict[str, Any] = json.loads(text)
        return described, digest


def _require_same(
    shard: Shard,
    how: Mapping[str, Any],
    before: Any,
    encoding: Encoding,
) -> None:
    """If a shard's encoder differs from that of earlier shards, remove the shard's file and raise `RunError`."""
    changes = []
    for key in sorted({*how, *before}):
        if how.get(key) != before.get(key):
            changes.append(f"`{key}` {how.get(key)!r}, before {before.get(key)!r}")
    if changes:
        encoding.file(shard).unlink(missing_ok=True)
        raise RunError(
            f"{shard}: the encoder reports {', '.join(changes)}; set `precision`, and use the same versions "
            "on all machines"
        )
