"""The collections of data that the evaluators read, which `known.toml` describes for `sentbed data`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sentbed_common import KnownData, read_collections


def known_collection(name: str) -> KnownData:
    """Return the collection with this name."""
    for collection in read_collections("sentbed_evaluators"):
        if collection.name == name:
            return collection

    raise KeyError(name)


def split_mrpc(directory: Path) -> Mapping[str, bytes]:
    """Return GLUE's files of MRPC, made from Microsoft's files; `dev_ids.tsv` lists the development rows."""
    folder = directory / "MRPC"
    head, *rows = _lines(folder / "msr_paraphrase_train.txt")
    ids = set()
    for line in _lines(folder / "dev_ids.tsv"):
        ids.add(tuple(line.rstrip(b"\r\n").split(b"\t")[:2]))

    train, dev = [head], [head]
    for row in rows:
        is_dev = tuple(row.split(b"\t")[1:3]) in ids
        part = dev if is_dev else train
        part.append(row)

    test = [b"index\t#1 ID\t#2 ID\t#1 String\t#2 String\n"]
    for number, row in enumerate(_lines(folder / "msr_paraphrase_test.txt")[1:]):
        without_label = row.partition(b"\t")[2]
        test.append(b"%d\t%s" % (number, without_label))

    return {
        "MRPC/train.tsv": b"".join(train),
        "MRPC/dev.tsv": b"".join(dev),
        "MRPC/test.tsv": b"".join(test),
    }


def _lines(file: Path) -> list[bytes]:
    """Return the lines of a file as bytes, with their ends."""
    return file.read_bytes().splitlines(keepends=True)
