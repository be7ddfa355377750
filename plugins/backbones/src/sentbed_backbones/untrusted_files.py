"""Limits for tokenizers that make texts much longer, and for regular expressions that take forever.

A model's files may come from a stranger. Before this process uses a tokenizer, a separate process runs it on
trial texts, within limits of time and memory. A tokenizer that has passed is remembered by the hash of its
definition.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from sentbed import ModelError
from sentbed.helpers import foreign, read_file
from sentbed_common import cache_root, run_program

from sentbed_backbones.model_file_checks import LARGEST_JSON

PROGRAM = Path(__file__).with_name("run_in_limits.py")

SECONDS = 8
"""Largest processor time of a trial, in seconds; the largest tokenizers take one or two."""
MEMORY = 4 << 30
"""Largest memory of a trial, in bytes; the libraries themselves take little of it."""

ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Environment variables that limit a trial to one thread: more would use up its processor time sooner."""

SETTINGS = {
    "tokenizer_config.json": (
        "added_tokens_decoder",
        "additional_special_tokens",
        "extra_special_tokens",
    ),
    "special_tokens_map.json": ("additional_special_tokens", "extra_special_tokens"),
}
"""Keys of the settings that add tokens, by the file beside `tokenizer.json` that has them."""

MOST_ADDED_TOKENS = 20_000
"""Largest number of tokens that are added to the vocabulary. Each is searched for in every text; Gemma has
6,400."""
HIGHEST_NUMBER = 1 << 24
"""Highest number (id) that a token may have. Libraries reserve memory for all numbers up to the highest one;
large vocabularies have 300,000 tokens."""
LONGEST_ADDITION = 100
"""Largest number of characters that a step of a normaliser may insert at a time."""
MOST_GROWTH = 100
"""Largest number of characters that a normaliser may make of one character."""
MOST_TOKENS_AROUND = 1_000
"""Largest number of tokens that a tokenizer may put around a text."""

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

VERSION = 2
"""Version of the trial; raised when the trial becomes stricter, so that every tokenizer is tried again."""


def require_bounded_tokenizer(directory: Path) -> None:
    """Try the tokenizer in a directory, unless a tokenizer with the same definition has passed before.

    Raises:
        ModelError: if it makes a text longer than any real tokenizer does, or if the trial does not end within
            the limits.
    """
    for name, keys in SETTINGS.items():
        file = directory / name
        with _damage_named(file):
            settings = _read_table(file)
            for key in keys:
                _require_few_added_tokens(file, settings.get(key) or ())

    for name in ("added_tokens.json", "vocab.json"):
        file = directory / name
        with _damage_named(file):
            numbers = _read_table(file)
            _require_small_numbers(file, numbers)
            if name == "added_tokens.json":
                _require_few_added_tokens(file, numbers)

    file = directory / "tokenizer.json"
    if not file.is_file():
        return

    content = read_file(file, LARGEST_JSON)
    digest = hashlib.sha256(b"%d " % VERSION + content).hexdigest()
    record = cache_root() / "tried-tokenizers" / digest
    if record.is_file():
        return

    with _damage_named(file):
        _require_bounded_definition(file, json.loads(content))

    _run_on_trial_texts(file)
    with suppress(OSError):
        # Without the record, the tokenizer is tried again the next time.
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()


def _damage_named(file: Path) -> AbstractContextManager[None]:
    """Turn exceptions about the content of a tokenizer's file into a `ModelError`."""
    return foreign(
        ModelError, f"`{file}` is no file of a tokenizer", "fetch the model again"
    )


def _read_table(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if there is no file."""
    if not file.is_file():
        return {}

    table: dict[str, Any] = json.loads(read_file(file, LARGEST_JSON))
    return table


def _require_bounded_definition(file: Path, definition: Mapping[str, Any]) -> None:
    """Raise `ModelError` for too many added tokens, too high numbers, or a normaliser that makes texts longer."""
    tokens = definition.get("added_tokens") or ()
    _require_few_added_tokens(file, tokens)
    for token in tokens:
        _require_small_numbers(file, {token["content"]: token["id"]})

    vocabulary = definition["model"]["vocab"]
    # The vocabulary of a Unigram model is a list; a token's number is its index.
    if isinstance(vocabulary, dict):
        _require_small_numbers(file, vocabulary)

    _require_bounded_normalizer(file, definition.get("normalizer"))


def _require_few_added_tokens(file: Path, tokens: Collection[Any]) -> None:
    if len(tokens) > MOST_ADDED_TOKENS:
        raise ModelError(
            f"`{file}` adds {len(tokens):,} tokens to the vocabulary, more than the "
            f"{MOST_ADDED_TOKENS:,} that a tokenizer may; put them into the vocabulary, or take another model"
        )


def _require_small_numbers(file: Path, vocabulary: Mapping[str, float]) -> None:
    """Raise `ModelError` if a token of a vocabulary (token -> number) has too high a number."""
    for token, number in vocabulary.items():
        if number > HIGHEST_NUMBER:
            raise ModelError(
                f"`{file}` gives the token {token!r:.80} the number {number:,}, and at most "
                f"{HIGHEST_NUMBER:,} is allowed; fetch the model again, or take another"
            )


def _require_bounded_normalizer(file: Path, normalizer: Any) -> None:
    """Raise `ModelError` if a normaliser inserts more characters than any real normaliser does."""
    growth = 1.0
    for step in normalizer_steps(normalizer):
        added = step.get("content", step.get("prepend", ""))
        if len(added) > LONGEST_ADDITION:
            raise ModelError(
                f"the normaliser of `{file}` puts {len(added):,} characters into texts at a time, and at "
                f"most {LONGEST_ADDITION} are allowed; take another model"
            )

        replaced = step.get("pattern", {}).get("String", "")
        growth *= max(1.0, len(added) / max(1, len(replaced)))

    if growth > MOST_GROWTH:
        raise ModelError(
            f"the normaliser of `{file}` may make {growth:,.0f} characters of one, and at most "
            f"{MOST_GROWTH} are allowed; take another model"
        )


def normalizer_steps(normalizer: Any) -> list[Mapping[str, Any]]:
    """Return the steps of a normaliser's definition in order, also those in nested sequences; [] for None."""
    if normalizer is None:
        return []

    if "normalizers" not in normalizer:
        return [normalizer]

    steps = []
    for part in normalizer["normalizers"]:
        steps += normalizer_steps(part)

    return steps


def _run_on_trial_texts(file: Path) -> None:
    """Raise `ModelError` if a `tokenizer.json` makes a trial text too long, or exceeds the limits."""
    sizes = run_in_limits(
        "tokenize",
        {"file": str(file.resolve()), "texts": TRIAL_TEXTS},
        f"the tokenizer `{file}`",
    )
    for text, (characters, tokens) in zip(TRIAL_TEXTS, sizes, strict=True):
        most = MOST_TOKENS_AROUND + MOST_GROWTH * len(text)
        if characters > most or tokens > most:
            raise ModelError(
                f"the tokenizer `{file}` makes {characters:,} characters and {tokens:,} tokens of a text of "
                f"{len(text)}, which no model's does; take another model"
            )


def require_bounded_expressions(
    expressions: Sequence[str],
    names: Sequence[str],
    file: Path,
) -> None:
    """Raise `ModelError` if matching the regular expressions in `file` with these names takes too long."""
    if expressions:
        shown = f"matching the regular expressions of `{file}`"
        run_in_limits("match", {"patterns": expressions, "names": names}, shown)


def run_in_limits(
    task: str,
    task_arguments: Mapping[str, Any],
    shown: str,
) -> Any:
    """Run a task of `run_in_limits.py` and return its result; `shown` says in messages what is tried.

    Raises:
        ModelError: if the task fails or exceeds the limits.
    """
    arguments = [task, str(MEMORY), str(SECONDS)]
    too_much = f"{shown} did not end within {SECONDS} s and {MEMORY >> 30} GB in a trial; take another model"
    try:
        # The time limit is longer than the processor time, since other programs may use the processor too.
        done = run_program(
            PROGRAM, arguments, 3 * SECONDS, ONE_THREAD, json.dumps(task_arguments)
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(too_much) from error

    if done.returncode < 0:
        raise ModelError(too_much)

    if done.returncode > 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ModelError(
            f"{shown} failed in a trial: {lines[-1]:.300}; fetch it again, or take another model"
        )

    return json.loads(done.stdout)
