"""Pickled weights (`pytorch_model.bin`) as safetensors: converted once, in a separate process.

A pickle is a program that may do anything. It is therefore read in a child process that has no network and
limited resources (`convert_pickled_weights.py`), by `torch.load(weights_only=True)`, which makes tensors and
refuses everything else. The safetensors are kept in the cache, under a hash of the pickled files.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from sentbed import ModelError
from sentbed.helpers import foreign, sha256, write_directory
from sentbed.tools import locked

from sentbed_common.cache_directory import CONVERTED_WEIGHTS, cache_root
from sentbed_common.limited_program import run_program
from sentbed_common.signal_names import signal_name

PICKLED = ("pytorch_model.bin", "pytorch_model-*-of-*.bin")
"""Names of pickled weights that transformers writes: one file, or shards."""

SMALL_FILES = (
    "*config.json",
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
    "*.py",
)
"""Files that are copied beside the converted weights: configuration, tokenizer, code."""

LARGEST_SMALL_FILE = 1 << 26
"""Largest size in bytes of a file that is copied."""

VERSION = 1
"""Version of the converted files; raised when they are written in another way, so that older ones are not
used."""

OLDEST_TORCH = (2, 10)
"""Oldest version that reads pickles safely: before it, even `weights_only=True` can be made to run code
(CVE-2025-32434, CVE-2026-24747)."""

PROGRAM = Path(__file__).with_name("convert_pickled_weights.py")

SPARE_MEMORY = 4 << 30
"""Number of bytes of memory that the child process may use beyond a multiple of the file's size; torch alone
takes 1 GB of them."""

BYTES_PER_SECOND = 20 << 20
"""Speed, in bytes of the file, of a slow disk: the time limit is the time at this speed plus
`SECONDS_AT_LEAST`."""

SECONDS_AT_LEAST = 120


def pickled_files(directory: Path, patterns: Sequence[str] = PICKLED) -> list[Path]:
    """Return the files in a directory whose names match the patterns of pickled weights, sorted by name."""
    files: list[Path] = []
    for pattern in patterns:
        files += directory.glob(pattern)
    return sorted(files)


def problem_of_shards(files: Sequence[Path]) -> str | None:
    """Return a message on the first missing shard (`...-00001-of-00003.bin`); None if no shard is missing."""
    for file in files:
        numbered = re.fullmatch(r"(.*-)(\d+)-of-(\d+)(\.\w+)", file.name)
        if numbered is None:
            continue

        beginning, _, count, ending = numbered.groups()
        for number in range(1, int(count) + 1):
            name = f"{beginning}{number:0{len(count)}}-of-{count}{ending}"
            if not file.with_name(name).is_file():
                return f"`{file.parent}` has `{file.name}` and not `{name}`; fetch the model again"

    return None


def in_safetensors(
    directory: Path,
    may_convert: bool,
    shown: str = "",
    patterns: Sequence[str] = PICKLED,
) -> tuple[Path, Mapping[str, str]]:
    """Return a directory with the model's weights as safetensors, and the SHA-256 of each pickled file by name.

    The result is `directory` itself, without hashes, if it has no pickled weights, or if it also has weights in
    safetensors. Otherwise the result is a directory in the cache (`SENTBED_CACHE`), which has configuration and
    tokenizer as well. If `may_convert` is false, the weights must have been converted earlier. `shown` names
    the model in messages; `patterns` are the names of pickled files. While a process converts a model, others
    that need it wait.

    Raises:
        ModelError: if the pickled files hold more than tensors or are damaged, or may not be converted.
        RunError: if the cache cannot be written.
    """
    sources = pickled_files(directory, patterns)
    converted_names = tuple(_converted_name(pattern) for pattern in patterns)
    if not sources or pickled_files(directory, converted_names):
        return directory, {}

    shown = shown or f"`{directory}`"
    if (problem := problem_of_shards(sources)) is not None:
        raise ModelError(problem)

    hashes = {file.name: sha256(file) for file in sources}
    target = cache_root() / CONVERTED_WEIGHTS / _key(directory, hashes)
    if target.is_dir():
        return target, hashes

    if not may_convert:
        raise ModelError(
            f"{shown} has pickled weights (`{sources[0].name}`), which are not read for an encoder that "
            "names them: its directory may be a stranger's; if you trust that model, name it as `model` in a "
            "recipe and run that once, which converts them"
        )

    _require_safe_torch()
    with locked(target.parent / f"{target.name}.lock", wait=True):
        # Another process may have converted the model while this one waited.
        if not target.is_dir():
            _fill_cache(directory, target, hashes, sources, shown)

    return target, hashes


def _fill_cache(
    directory: Path,
    target: Path,
    hashes: Mapping[str, str],
    sources: Sequence[Path],
    shown: str,
) -> None:
    """Write the converted model to the directory `target`, atomically, and print a line about it."""
    # A process that was killed may have left its temporary directory.
    for remains in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(remains, ignore_errors=True)

    started = time.monotonic()

    def fill(temporary: Path) -> None:
        _convert_all(sources, temporary, shown)
        # Another process may have written to a file meanwhile. The hash of its earlier content would then stand
        # for the weights.
        for file in sources:
            if sha256(file) != hashes[file.name]:
                raise ModelError(
                    f"`{file}` has changed while it was read; run this again when it is complete"
                )

        for file in _small_files(directory):
            shutil.copyfile(file, temporary / file.name)

    write_directory(target, fill)
    size = sum(file.stat().st_size for file in sources)
    print(
        f"converted the pickled weights of {shown} ({size / 1e9:.2f} GB) to safetensors in "
        f"{time.monotonic() - started:.0f} s: {target}",
        file=sys.stderr,
    )


def _converted_name(pickled: str) -> str:
    """Return the name of the file of safetensors for a pickled file; `pickled` may be a pattern of names."""
    return (
        pickled.replace("pytorch_model", "model").removesuffix(".bin") + ".safetensors"
    )


def _key(directory: Path, hashes: Mapping[str, str]) -> str:
    """Return the name of the directory in the cache: a hash of all files that it is made from."""
    digest = hashlib.sha256(
        json.dumps([VERSION, dict(hashes)], sort_keys=True).encode()
    )
    for file in _small_files(directory):
        digest.update(f"{file.name} {sha256(file)}\n".encode())
    return digest.hexdigest()[:40]


def _small_files(directory: Path) -> Iterator[Path]:
    """Yield the files of a model's configuration, tokenizer and code."""
    files: set[Path] = set()
    for pattern in SMALL_FILES:
        files.update(directory.glob(pattern))
    for file in sorted(files):
        if file.is_file() and file.stat().st_size <= LARGEST_SMALL_FILE:
            yield file


def _require_safe_torch() -> None:
    version = metadata.version("torch")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ModelError(
            f"the weights are pickled, and torch {version} does not read pickles safely; install torch "
            f"{oldest} or later, or take weights in safetensors"
        )


def _convert_all(
    sources: Sequence[Path],
    target: Path,
    shown: str,
) -> None:
    """Convert each pickled file into the directory `target`; write an index if there are several files."""
    places: dict[str, str] = {}
    total = 0
    for source in sources:
        name = _converted_name(source.name)
        answer = _convert(source, target / name, shown)
        total += answer["bytes"]
        places |= dict.fromkeys(answer["weights"], name)

    if len(sources) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": places}
        (target / "model.safetensors.index.json").write_text(
            json.dumps(index, indent=1), "utf-8"
        )


def _convert(
    source: Path,
    target: Path,
    shown: str,
) -> dict[str, Any]:
    """Convert one file in a separate process; return the program's answer: `weights` (names) and `bytes`.

    Raises:
        ModelError: if the file is refused, or the process fails.
        OSError: if the disk is full.
    """
    size = source.stat().st_size
    seconds = SECONDS_AT_LEAST + size // BYTES_PER_SECOND
    # The result may be twice as large as the file: tied weights share memory in the pickle, and are written
    # separately.
    limits = [str(3 * size + SPARE_MEMORY), str(seconds), str(2 * size)]
    place = f"`{source.name}` of {shown}"
    advice = "take a model with safetensors, or fetch this one again"
    arguments = [str(source.resolve()), str(target.resolve()), *limits]

    try:
        done = run_program(PROGRAM, arguments, seconds, {"CUDA_VISIBLE_DEVICES": ""})
    except subprocess.TimeoutExpired as error:
        raise ModelError(
            f"{place} was not converted within {seconds} s; {advice}"
        ) from error

    if "No space left" in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if done.returncode == -signal.SIGKILL or "MemoryError" in done.stderr:
        raise ModelError(
            f"{place} was not converted: it needs more memory than there is; free some, or take a model with "
            "safetensors"
        )
    if done.returncode != 0:
        raise ModelError(f"{place} was not converted: {_end_of(done)}; {advice}")

    with foreign(ModelError, f"{place} was not converted", advice):
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if "refused" in answer:
        raise ModelError(f"{place} is not read: {answer['refused']}; {advice}")
    return answer


def _end_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return how a failed process ended, as a clause for a message."""
    if done.returncode < 0:
        return f"its process was ended by {signal_name(-done.returncode)}"

    lines = done.stderr.strip().splitlines()
    if not lines:
        return f"its process ended with exit code {done.returncode}"
    return lines[-1][:300]
