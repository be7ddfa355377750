"""PromptEOL's demonstrations that are sentences of STS-B's training set, made from a copy of that set.

`stsb_demonstrations.tsv` has no sentence: for each of them its number among the 300 of the authors' file,
the row of STS-B whose first sentence it is (counted from 0), its word, and the beginning of the sentence's
sha256. The paper says 100 of STS-B and 200 of a dictionary; the file has 99 and 201.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from sentbed import DataError
from sentbed_common import KnownData, KnownFile, KnownMade

FILE = "demonstrations_stsb.tsv"
GLUE = ("glue", "GLUE", "glue_data")
"""Directories below the data directory that may hold GLUE's `STS-B/train.tsv`."""
SENTENCE = 7
"""Column of GLUE's `STS-B/train.tsv` with the first sentence."""


def make_demonstrations(directory: Path) -> Mapping[str, bytes]:
    """Return the content of `FILE`: a table of sentences and words, candidates of a search.

    `directory` is `icl` below the data directory.

    Raises:
        DataError: if STS-B's training set is not there, or a row of it is another one.
    """
    path = _training_set(directory.parent)
    lines = path.read_text("utf-8").split("\n")[1:]
    rows = ["sentence\tword"]
    facts = (
        files("sentbed_studies").joinpath("stsb_demonstrations.tsv").read_text("utf-8")
    )
    for fact in csv.DictReader(facts.splitlines(), delimiter="\t"):
        row = int(fact["row"])
        fields = lines[row].split("\t") if row < len(lines) else []
        sentence = fields[SENTENCE] if len(fields) > SENTENCE else ""
        if not sha256(sentence.encode()).hexdigest().startswith(fact["sha256"]):
            raise DataError(
                f"row {row} does not have the sentence of demonstration {fact['number']}; take GLUE's own "
                "file (`sentbed data get glue` downloads it)",
                path,
                row + 2,
            )
        rows.append(f"{sentence}\t{fact['word']}")
    return {FILE: ("\n".join(rows) + "\n").encode()}


def _training_set(base: Path) -> Path:
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
"""Made without the network; the winners of OPT 125M, 350M, 2.7B, 6.7B and 30B are among them."""
