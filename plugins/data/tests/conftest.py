from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest


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


PARTS_OF_SPEECH = {
    "noun": (1, "n"),
    "verb": (2, "v"),
    "adj": (3, "a"),
    "adv": (4, "r"),
}
"""Name in the files' names -> number and letter in the files."""


TAGGED = (
    "The/DT big/JJ house/NN ,/, soon/RB !/.",
    "The/DT houses/NNS saw/VBD a/DT number/NN ./.",
    "Big/JJ HOUSE/NN",
    "BIG/JJ garden/NN seen/VBN on/IN earth/NN ./.",
)


@pytest.fixture
def nltk_data(tmp_path, monkeypatch):
    """NLTK's data: a lexicon of a dozen senses, and a tagger that is trained on the words of the tests."""
    import nltk

    root = tmp_path / "nltk_data"
    monkeypatch.setattr(nltk.data, "path", [str(root)])
    write_wordnet(root / "corpora" / "wordnet")
    write_tagger(root / "taggers" / "averaged_perceptron_tagger_eng")
    return root


def write_tagger(directory):
    """Train a tagger, and write it in NLTK's own format."""
    from nltk.tag.perceptron import PerceptronTagger

    sentences = []
    for line in TAGGED * 30:
        sentences.append([tuple(pair.rsplit("/", 1)) for pair in line.split()])

    trained = PerceptronTagger(load=False)
    trained.train(sentences)
    directory.mkdir(parents=True)
    parts = {
        "weights": trained.model.weights,
        "tagdict": trained.tagdict,
        "classes": sorted(trained.classes),
    }

    for name, part in parts.items():
        (directory / f"{directory.name}.{name}.json").write_text(json.dumps(part))


def write_wordnet(directory):
    """Write a lexicon in WordNet's own file format (wndb(5), cntlist(5))."""
    directory.mkdir(parents=True)
    names = "".join(f"{number:02d}\tname\t1\n" for number in range(45))
    (directory / "lexnames").write_text(names)
    (directory / "index.sense").write_text("")
    counts = []
    for part, (number, letter) in PARTS_OF_SPEECH.items():
        data = "  1 A lexicon for tests; WordNet 3.0 Copyright  \n"
        index = defaultdict(list)
        frames = ""
        exceptions = ""
        if part == "verb":
            frames = " 01 + 02 00"
            exceptions = "saw see\nseen see\n"

        senses = [words for part_of_sense, words in SENSES if part_of_sense == part]
        for sense, words in enumerate(senses):
            start = len(data)
            lemmas = " ".join(f"{word} 0" for word in words)
            for word, count in words.items():
                starts = index[word.lower()]
                if start not in starts:
                    starts.append(start)

                if count:
                    key = f"{word.lower()}%{number}:{sense:02d}:00::"
                    counts.append(f"{key} {len(starts)} {count}\n")

            data += f"{start:08d} {sense:02d} {letter} {len(words):02x} {lemmas}"
            data += f" 000{frames} | a sense  \n"

        lines = "  1 A lexicon for tests; WordNet 3.0 Copyright  \n"
        for word, starts in sorted(index.items()):
            places = " ".join(f"{start:08d}" for start in starts)
            size = len(starts)
            lines += f"{word} {letter} {size} 0 {size} 0 {places}  \n"

        (directory / f"data.{part}").write_text(data)
        (directory / f"index.{part}").write_text(lines)
        (directory / f"{part}.exc").write_text(exceptions)

    (directory / "cntlist.rev").write_text("".join(sorted(counts)))
