"""Encoding of a corpus shard by shard; after an interruption, only the missing shards are encoded."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from sentbed import Encoder
from sentbed.errors import DataError, RunError
from sentbed.helpers import sha256
from sentbed.protocols import Runtime
from sentbed.tools import (
    Plugins,
    component_of,
    load_plugins,
    locked,
    naming_components,
    saved_recipe,
)
from sentbed_common import TaskPool, is_locked
from sentbed_jobs.executor_lookup import executor_of

from sentbed_corpus.component_releases import component_releases
from sentbed_corpus.encoding_request import Request
from sentbed_corpus.input_files import (
    Shard,
    find_files,
    kind_of,
    require_pyarrow,
)
from sentbed_corpus.input_rows import read_shard
from sentbed_corpus.input_shards import cut
from sentbed_corpus.manifest import FILE, Manifest, differences, request_table
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
    planned, previous = _planned(request, parts, overwrite)
    executor = executor or executor_of("local", {}, plugins, say)
    with _alone(request.output):
        if overwrite:
            # The manifest is removed first, since it marks shards as complete.
            (request.output / FILE).unlink(missing_ok=True)
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
    encoding = Encoding(absolute, runtime)
    state = planned
    missing = list(planned.shards)
    # Until the manifest has the encoder's description, it is unknown which encoder made a shard.
    if previous is not None and previous.how is not None:
        state = attrs.evolve(planned, how=previous.how)
        missing = []
        for shard in state.shards:
            if not is_whole(encoding.file(shard), shard.rows, request):
                missing.append(shard)

    if len(missing) < len(planned.shards):
        finished = len(planned.shards) - len(missing)
        say(
            f"{finished} of {len(planned.shards)} shards are there; {len(missing) or 'none'} to encode"
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

    attrs.evolve(state, complete=True).write(request.output)
    width: int = (state.how or {})["width"]
    return Summary(state.rows, width, len(state.shards), rows, seconds)


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
            for shard, how in results:
                if state.how is None:
                    state = attrs.evolve(state, how=how)
                    state.write(encoding.request.output)
                _require_same(shard, how, state.how, encoding)
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
    planned = _cut(request, parts)
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


def _cut(request: Request, parts: Mapping[str, str]) -> Manifest:
    """Return the manifest of the request, for which all files are read."""
    files = find_files(request.inputs, request.output)
    for file in files:
        kind_of(file)

    sources = []
    shards: list[Shard] = []
    for file in files:
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

    def file(self, shard: Shard) -> Path:
        """Return the output file of a shard."""
        return shard_file(self.request.output, shard.number, self.request.format)

    def __call__(self, threads: int | None) -> Callable[[Shard], dict[str, Any]]:
        """Load the encoder; return the function that encodes a shard."""
        runtime = self.runtime
        if threads is not None:
            runtime = runtime.with_threads(threads)
        trust = self.request.trust_remote_code
        encoder = Encoder.load(self.request.encoder, runtime, trust_remote_code=trust)
        encoder = under_prompt(encoder, self.request.prompt, self.request.instruction)
        return partial(self._encode_shard, encoder)

    def _encode_shard(
        self,
        encoder: Encoder,
        shard: Shard,
    ) -> dict[str, Any]:
        """Encode a shard into its file; return the encoder's description."""
        request = self.request
        texts, kept = read_shard(shard, request.column, request.keep)
        with naming_components(encoder.recipe):
            vectors = encoder.encode(texts)
        write_shard(self.file(shard), vectors, kept, request, shard)

        # The description is compared with one that was read from the manifest, so it is made JSON data.
        description = {"width": encoder.width, **encoder.protocol()}
        text = json.dumps(description, default=str)
        described: dict[str, Any] = json.loads(text)
        return described


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
