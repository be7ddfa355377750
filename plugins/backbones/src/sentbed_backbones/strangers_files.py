"""Limits of what a model's files may ask for: tokenizers that grow texts, expressions that never end.

A model's directory may be a stranger's. Its tokenizer is run once on texts for trial in a process of its own,
within limits of time and memory, before this process uses it; what passed is remembered by its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sentbed import ModelError
from sentbed.helpers import foreign, read_file
from sentbed_common import cache_root

from sentbed_backbones.model_file_checks import LARGEST_JSON

PROGRAM = Path(__file__).with_name("run_in_limits.py")

SECONDS = 20
"""Processor time of a trial; the largest tokenizers take one or two seconds."""
MEMORY = 4 << 30
"""Bytes of memory of a trial, of which the libraries take little."""

MOST_ADDED_TOKENS = 20_000
"""Tokens beside the vocabulary, each of which is looked for in every text; Gemma has 6,400."""
LONGEST_ADDITION = 100
"""Characters of the longest text that a normaliser puts into another."""
MOST_GROWTH = 100
"""How many characters a normaliser may make of one."""
MOST_TOKENS_AROUND = 1_000
"""Tokens that a tokenizer may put around a text."""

TRIAL_TEXTS = (
    "",
    "a",
    "".join(map(chr, range(32, 127))),
    "a" * 200,
    " " * 200,
    "The cat sat on the mat, 1234.5 times. " * 5,
    "café ﬁ ½ ＦＵＬＬ ﷺ 我们在测试 مرحبا नमस्ते 한국어 😀👩‍👩‍👧‍👦 \u00a0\u3000\t\r\n",
    "aA0-_/" * 40 + "!",
)

VERSION = 1
"""Raised when the trial asks for more, so that what passed before is tried again."""


def require_bounded_tokenizer(directory: Path) -> None:
    """Try the tokenizer of a directory, unless one with the same files has passed before.

    Raises:
        ModelError: if it adds more to a text than any tokenizer does, or does not end within the limits.
    """
    for problem in problems_of_added_tokens(directory):
        raise ModelError(problem)
    file = directory / "tokenizer.json"
    if not file.is_file():
        return
    content = read_file(file, LARGEST_JSON)
    record = cache_root() / "tried-tokenizers" / hashlib.sha256(b"%d " % VERSION + content).hexdigest()
    if record.is_file():
        return
    for problem in _problems_of_definition(file, content):
        raise ModelError(problem)
    _try(file)
    with suppress(OSError):
        # Without it, the tokenizer is tried again the next time.
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()


def problems_of_added_tokens(directory: Path) -> Iterator[str]:
    """Yield which file has more added tokens than any tokenizer."""
    for name, keys in (
        ("tokenizer.json", ("added_tokens",)),
        ("tokenizer_config.json", ("added_tokens_decoder", "additional_special_tokens")),
        ("special_tokens_map.json", ("additional_special_tokens",)),
        ("added_tokens.json", ()),
    ):
        file = directory / name
        if not file.is_file():
            continue
        with foreign(ModelError, f"`{file}` is not JSON", "fetch the model again"):
            table = json.loads(read_file(file, LARGEST_JSON))
        if not isinstance(table, dict):
            continue
        for tokens in [table.get(key) for key in keys] or [table]:
            if isinstance(tokens, list | dict) and len(tokens) > MOST_ADDED_TOKENS:
                yield (
                    f"`{file}` adds {len(tokens):,} tokens to the vocabulary, more than the "
                    f"{MOST_ADDED_TOKENS:,} that a tokenizer may; put them into the vocabulary, or take "
                    "another model"
                )


def _problems_of_definition(file: Path, content: bytes) -> Iterator[str]:
    """Yield what a definition's normaliser adds to texts beyond what any does."""
    with foreign(ModelError, f"`{file}` is not JSON", "fetch the model again"):
        definition = json.loads(content)
    if not isinstance(definition, dict):
        return
    growth = 1.0
    for step in _steps(definition.get("normalizer")):
        added = step.get("content", step.get("prepend", ""))
        if not isinstance(added, str):
            continue
        if len(added) > LONGEST_ADDITION:
            yield (
                f"the normaliser of `{file}` puts {len(added):,} characters into texts at a time, and at "
                f"most {LONGEST_ADDITION} are allowed; take another model"
            )
        pattern = step.get("pattern")
        replaced = pattern.get("String", "") if isinstance(pattern, dict) else ""
        growth *= max(1.0, len(added) / max(1, len(str(replaced))))
    if growth > MOST_GROWTH:
        yield (
            f"the normaliser of `{file}` may make {growth:,.0f} characters of one, and at most "
            f"{MOST_GROWTH} are allowed; take another model"
        )


def _steps(normalizer: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a normaliser, those within sequences as well."""
    left = [normalizer]
    while left:
        step = left.pop()
        if isinstance(step, dict):
            yield step
            inner = step.get("normalizers")
            if isinstance(inner, list):
                left += inner


def _try(file: Path) -> None:
    sizes = run_in_limits(
        "tokenize", {"file": str(file.resolve()), "texts": TRIAL_TEXTS}, f"the tokenizer `{file}`"
    )
    for text, (characters, tokens) in zip(TRIAL_TEXTS, sizes, strict=True):
        most = MOST_TOKENS_AROUND + MOST_GROWTH * len(text)
        if characters > most or tokens > most:
            raise ModelError(
                f"the tokenizer `{file}` makes {characters:,} characters and {tokens:,} tokens of a text of "
                f"{len(text)}, which no model's does; take another model"
            )


def require_bounded_expressions(expressions: Sequence[str], names: Sequence[str], file: Path) -> None:
    """Raise `ModelError` if matching these regular expressions of a file with names does not end in time."""
    if expressions:
        asked = {"patterns": list(expressions), "names": list(names)}
        run_in_limits("match", asked, f"matching the regular expressions of `{file}`")


def run_in_limits(task: str, asked: Mapping[str, Any], shown: str) -> Any:
    """Return the answer of a task of `run_in_limits.py`. Raises `ModelError` if it exceeds the limits."""
    command = [sys.executable, "-B", "-P", str(PROGRAM), task, str(MEMORY), str(SECONDS)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            errors="replace",
            # More than the processor time, since the machine may be busy.
            timeout=3 * SECONDS,
            env={**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        done = None
    if done is not None and done.returncode == 0:
        return json.loads(done.stdout)
    if done is not None and done.returncode > 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ModelError(
            f"{shown} failed in a trial: {lines[-1]:.300}; fetch it again, or take another model"
        )
    raise ModelError(
        f"{shown} did not end within {SECONDS} s and {MEMORY >> 30} GB in a trial; take another model"
    )
