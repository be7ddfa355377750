from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from sentbed_data.readers import columns_of_rows, read_rows


@pytest.fixture
def put(tmp_path):
    """Write a file into the test's directory and return its path."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


@pytest.fixture
def read_columns():
    """Read the columns `names` of a file or a data set."""

    def read(location, names, **options):
        return columns_of_rows(read_rows(location, names, **options), len(names))

    return read


@pytest.fixture
def real():
    """Return the location of real data, or skip the test."""

    def location(name):
        root = os.environ.get("SENTBED_DATA")
        if not root or not (Path(root) / name).exists():
            pytest.skip(f"needs real data: set SENTBED_DATA to a directory with {name}")
        return f"data:{name}"

    return location


# Part of speech, and the words of a sense with how often each was counted; a word's first sense comes first.
SENSES: Sequence[tuple[str, dict[str, int]]] = (
    ("noun", {"house": 40, "dwelling": 3, "abode": 1}),
    ("noun", {"house": 9, "firm": 2}),
    ("noun", {"garden": 5, "kitchen_plot": 0}),
    ("noun", {"saw": 1, "sawing_tool": 0}),
    ("noun", {"can": 3, "tin": 2}),
    ("noun", {"number": 50, "figure": 4}),
    ("noun", {"Earth": 7, "earth": 6, "globe": 1}),
    ("verb", {"see": 100, "perceive": 10}),
    ("verb", {"saw": 1, "cut_through": 0}),
    ("verb", {"shelter": 5, "house": 2}),
    ("adj", {"big": 30, "large": 20}),
    ("adj", {"numb": 2, "unfeeling": 1}),
    ("adv", {"soon": 12, "shortly": 3}),
)


@pytest.fixture
def wordnet(tmp_path):
    """A lexicon of a dozen senses, in WordNet's own file format (wndb(5), cntlist(5))."""
    directory = tmp_path / "dict"
    directory.mkdir()
    numbers = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}
    letters = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
    counts = []
    for part, letter in letters.items():
        data, index = "  1 A lexicon for tests.  \n", defaultdict(list)
        for number, words in enumerate(
            words for word_class, words in SENSES if word_class == part
        ):
            lemmas = " ".join(f"{word} 0" for word in words)
            frames = " 01 + 02 00" if part == "verb" else ""
            line = f"{len(data):08d} {number:02d} {letter} {len(words):02x} {lemmas} 000{frames} | a sense  \n"
            for word, count in words.items():
                if len(data) not in index[word.lower()]:
                    index[word.lower()].append(len(data))
                if count:
                    key = f"{word.lower()}%{numbers[part]}:{number:02d}:00::"
                    counts.append(f"{key} {len(index[word.lower()])} {count}\n")
            data += line
        (directory / f"data.{part}").write_text(data)
        (directory / f"index.{part}").write_text(
            "  1 A lexicon for tests.  \n"
            + "".join(
                f"{word} {letter} {len(at)} 0 {len(at)} 0 {' '.join(f'{place:08d}' for place in at)}  \n"
                for word, at in sorted(index.items())
            )
        )
        (directory / f"{part}.exc").write_text(
            "saw see\nseen see\n" if part == "verb" else ""
        )
    (directory / "cntlist.rev").write_text("".join(sorted(counts)))
    return directory
