"""Time and memory of looking for items of evaluations in a million training lines, and what is counted.

    python benchmarks/overlap.py [--lines 1000000] [--items 40000] [--json FILE]

Lines of 4 to 31 words are drawn from 60,000 words with the frequencies of a language, in a file. Of the items,
1 % are planted among them as they are and 10 % with one word changed. The target is two minutes and 1 GiB for
a million lines, and 2 % of what was planted. One core is used; the peak of memory is that of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sentbed_audit.clean.seen_texts import FEWEST_WORDS, SeenTexts
from sentbed_audit.clean.training_texts import texts_of_file

WORDS = 60_000
MIB = 1024
"""KiB per MiB; the system reports the peak of memory in KiB."""


def lines(count: int, draw: np.random.Generator) -> Iterator[str]:
    """Yield sentences of words whose frequency falls with their rank."""
    frequency = 1 / (np.arange(WORDS) + 10.0)
    below = np.cumsum(frequency) / frequency.sum()
    words = np.array([f"w{number:x}" for number in range(WORDS)])
    for _ in range(count):
        places = np.searchsorted(below, draw.random(draw.integers(4, 32)))
        yield " ".join(words[places])


def measured(file: Path, count: int, item_count: int) -> dict[str, float]:
    """Return seconds, MiB, and how many of the planted items were counted."""
    draw = np.random.default_rng(0)
    items = list(lines(item_count, draw))
    long = [
        place for place, text in enumerate(items) if len(text.split()) >= FEWEST_WORDS
    ]
    planted = draw.choice(long, item_count * 11 // 100, replace=False)
    as_they_are = set(planted[: item_count // 100].tolist())
    with file.open("w") as stream:
        for line in lines(count - len(planted), draw):
            stream.write(f"{line}\n")
        for place in planted.tolist():
            words = items[place].split()
            if place not in as_they_are:
                words[draw.integers(len(words))] = "changed"
            stream.write(f"{' '.join(words)}\n")

    start = time.perf_counter()
    texts = SeenTexts(items)
    texts.look_in(texts_of_file(file))
    exactly, nearly = int(texts.exactly.sum()), int(texts.nearly().sum())
    seconds = time.perf_counter() - start
    return {
        "lines": texts.read,
        "items": item_count,
        "seconds": seconds,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB,
        "planted exactly": len(as_they_are),
        "counted exactly": exactly,
        "planted with a changed word": len(planted) - len(as_they_are),
        "counted nearly": nearly - exactly,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=40_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = measured(
            Path(directory) / "training.txt", arguments.lines, arguments.items
        )
    for name, value in result.items():
        print(f"{name:28s}{value:>12,.1f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
