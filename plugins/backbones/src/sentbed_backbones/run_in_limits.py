"""Program that runs one task with a model's files, within limits of memory and time.

`untrusted_files.py` starts it with the arguments TASK, MEMORY (bytes) and SECONDS. It reads the task's
parameters from standard input and prints the result, both as JSON. It imports neither torch nor sentbed, so
that it starts in a fraction of a second.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any


def limit_resources(memory: int, seconds: int) -> None:
    """Limit this process's memory (bytes) and processor time, if the system supports it."""
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
    """Return for each text its number of characters after normalisation and its number of tokens.

    `file` is the path of a `tokenizer.json`.
    """
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
    """Match each pattern with each name, without a result: the caller wants to know whether this ends."""
    for pattern in patterns:
        expression = re.compile(pattern)
        for name in names:
            expression.fullmatch(name)


def main() -> None:
    """Run the task that the arguments name."""
    task, memory, seconds = sys.argv[1:]
    limit_resources(int(memory), int(seconds))
    arguments: dict[str, Any] = json.load(sys.stdin)
    tasks: dict[str, Callable[..., Any]] = {"tokenize": tokenize, "match": match}
    print(json.dumps(tasks[task](**arguments)))


if __name__ == "__main__":
    main()
