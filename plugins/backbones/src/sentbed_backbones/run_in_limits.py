"""A program of its own: does once, within limits, what a model's files ask for.

It is started by `strangers_files.py` with a task, bytes of memory and seconds, reads JSON from standard input
and writes JSON. It needs neither torch nor sentbed, so that it starts in a fraction of a second.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any


def limit_resources(memory: int, seconds: int) -> None:
    """Limit this process's memory (bytes) and processor time, where the system can."""
    if sys.platform == "win32":
        return

    import resource

    for kind, limit in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        lowest = limit
        if hard != resource.RLIM_INFINITY:
            lowest = min(limit, hard)

        resource.setrlimit(kind, (lowest, lowest))


def tokenize(file: str, texts: list[str]) -> list[list[int]]:
    """Return the characters of each text after normalisation, and its tokens, by a `tokenizer.json`."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    sizes = []
    for text in texts:
        normalized = text
        if tokenizer.normalizer is not None:
            normalized = tokenizer.normalizer.normalize_str(text)

        sizes.append([len(normalized), len(tokenizer.encode(text).ids)])

    return sizes


def match(patterns: list[str], names: list[str]) -> None:
    """Match each pattern with each name: only that it ends is of interest."""
    for pattern in patterns:
        expression = re.compile(pattern)
        for name in names:
            expression.fullmatch(name)


def main() -> None:
    """Do the task that the arguments name."""
    task, memory, seconds = sys.argv[1:]
    limit_resources(int(memory), int(seconds))
    arguments: dict[str, Any] = json.load(sys.stdin)
    tasks: dict[str, Callable[..., Any]] = {"tokenize": tokenize, "match": match}
    print(json.dumps(tasks[task](**arguments)))


if __name__ == "__main__":
    main()
