"""The 99 of PromptEOL's 300 demonstrations that are sentences of STS-B, read from a copy of its training set.

The sentences themselves are not shipped. `stsb_demonstrations.tsv` has a row for each of them: its number in the
authors' file, the row of STS-B whose first sentence it is (counted from 0), its word, and the beginning of the
sentence's SHA-256. According to the paper, 100 sentences are from STS-B and 200 from a dictionary; the authors'
file has 99 and 201.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from sentbed import DataError
from sentbed.tools import lines_of
from sentbed_common import KnownData, KnownFile, KnownMade

FILE = "demonstrations_stsb.tsv"
GLUE = ("glue", "GLUE", "glue_data")
"""Directories below the data directory that may hold GLUE's `STS-B/train.tsv`."""
SENTENCE = 7
"""Index of the column in GLUE's `STS-B/train.tsv` that has the first sentence of a pair."""


def make_demonstrations(directory: Path) -> Mapping[str, bytes]:
    """Return file name -> content of `FILE`, a table of sentences and words: the candidates of a search.

    `directory` is the directory `icl` of the data directory.

    Raises:
        DataError: if STS-B's training set cannot be read, or if a row of it has another sentence than expected.
    """
    path = _training_set(directory.parent)
    rows_of_stsb = lines_of(path)[1:]
    table = files("sentbed_studies").joinpath("stsb_demonstrations.tsv")
    lines = table.read_text("utf-8").splitlines()
    content = "sentence\tword\n"
    for demonstration in csv.DictReader(lines, delimiter="\t"):
        row = int(demonstration["row"])
        sentence = _first_sentence(rows_of_stsb, row)
        digest = sha256(sentence.encode()).hexdigest()
        if not digest.startswith(demonstration["sha256"]):
            raise DataError(
                f"row {row} does not have the sentence of demonstration {demonstration['number']}; take "
                "GLUE's own file (`sentbed data get glue` downloads it)",
                path,
                row + 2,
            )
        content += f"{sentence}\t{demonstration['word']}\n"
    return {FILE: content.encode()}


def _first_sentence(rows: Sequence[str], row: int) -> str:
    """Return the first sentence of row number `row`; empty if there is no such row or column."""
    if row >= len(rows):
        return ""
    fields = rows[row].split("\t")
    return fields[SENTENCE] if len(fields) > SENTENCE else ""


def _training_set(base: Path) -> Path:
    """Return the path of STS-B's training set below the data directory. Raises `DataError`."""
    for folder in GLUE:
        path = base / folder / "STS-B" / "train.tsv"
        if path.is_file():
            return path
    raise DataError(
        f"`{base}` has no `{GLUE[0]}/STS-B/train.tsv`, from which the demonstrations are made; "
        "`sentbed data get glue` downloads it"
    )


STSB = KnownData(
    name="prompteol-stsb-demonstrations",
    summary=f'those of PromptEOL\'s 300 demonstrations that are of STS-B: candidates = "data:icl/{FILE}"',
    places=("icl",),
    files=(KnownFile(FILE, rows=99, header=True),),
    made=(KnownMade((FILE,), sources=(), make=make_demonstrations),),
    source="https://github.com/kongds/scaling_sentemb",
    licence="that of STS-B",
)
"""Demonstrations from STS-B, made without the network. Those that the paper found best for OPT 125M, 350M, 2.7B,
6.7B and 30B are among them."""
