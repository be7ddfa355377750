"""The collections of data that the evaluators read, for `sentbed data`: files, sizes, digests and sources.

`known.tsv` lists the files of each collection. For each file, it has the number of rows, published or counted,
and the digests of copies that have this number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import attrs
from sentbed_common import KnownArchive, KnownData, KnownFile, KnownMade

from sentbed_evaluators import glue_files, probing_files, senteval_sts_files

_HUB = "https://huggingface.co/datasets/princeton-nlp/datasets-for-simcse/resolve/main"
_PROBING = (
    "https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing"
)
_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_MRPC = "https://dl.fbaipublicfiles.com/senteval/senteval_data"

_GLUE_ARCHIVES = (
    (
        "CoLA",
        "CoLA.zip",
        "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
    ),
    (
        "SST-2",
        "SST-2.zip",
        "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
    ),
    (
        "STS-B",
        "STS-B.zip",
        "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
    ),
    (
        "QQP",
        "QQP-clean.zip",
        "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
    ),
    (
        "MNLI",
        "MNLI.zip",
        "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
    ),
    (
        "QNLI",
        "QNLIv2.zip",
        "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
    ),
    (
        "RTE",
        "RTE.zip",
        "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
    ),
    (
        "WNLI",
        "WNLI.zip",
        "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
    ),
)
"""Folder of a task, its archive, and the SHA-256 of the archive, as the library `datasets` lists them for its
data set `glue`."""

_DBPEDIA = KnownArchive(
    "https://s3.amazonaws.com/fast-ai-nlp/dbpedia_csv.tgz",
    sha256="42db5221ddedddb673a4cabcc5f3a7d869714c878bcfe4ba94b29d14aa38e417",
)
"""The digest is the one that the library `datasets` lists for its data set `dbpedia_14`."""

_SPRING = "cloze_test_val__spring2016 - cloze_test_ALL_val.csv"


def known_collection(name: str) -> KnownData:
    """Return the collection with this name."""
    (collection,) = (known for known in known_collections() if known.name == name)
    return collection


@cache
def known_collections() -> tuple[KnownData, ...]:
    """Return all collections of this distribution."""
    return (_senteval(), _probing(), _glue(), *_sentbench())


def _senteval() -> KnownData:
    """Return SentEval's STS, SICK and transfer tasks."""
    known_files = _files("senteval")
    return KnownData(
        name="senteval",
        summary="STS12-16, STS-B, SICK, transfer tasks, tokenised; senteval-sts, senteval-transfer",
        places=senteval_sts_files.ROOTS,
        files=tuple(known_files.values()),
        source="https://github.com/facebookresearch/SentEval",
        archives=(KnownArchive(f"{_HUB}/senteval.tar"),),
        licence="each task its own; several for research only",
        advice="SentEval's `data/downstream/get_transfer_data.bash` makes the same files",
    )


def _probing() -> KnownData:
    """Return SentEval's probing tasks."""
    # Balancing the classes made files a few rows longer or shorter; a larger gap means truncation.
    rows = sum(probing_files.SPLITS.values())
    rows -= len(probing_files.SPLITS) * probing_files.TOLERANCE
    known_files = []
    for file, _ in probing_files.TASKS.values():
        url = f"{_PROBING}/{file}"
        known_files.append(
            KnownFile(
                file,
                rows=rows,
                at_least=True,
                url=url,
            )
        )
    return KnownData(
        name="senteval-probing",
        summary="the ten probing tasks, 120,000 sentences each, in one file a task; senteval-probing",
        places=probing_files.ROOTS,
        files=tuple(known_files),
        source="https://github.com/facebookresearch/SentEval/tree/main/data/probing",
        licence="made from the Toronto Book Corpus; SentEval's own is BSD",
    )


def _glue() -> KnownData:
    """Return GLUE's nine tasks."""
    known_files = _files("glue")
    mrpc = tuple(path for path in known_files if path.startswith("MRPC/"))
    originals = (
        KnownFile(
            "MRPC/msr_paraphrase_train.txt",
            rows=4076,
            header=True,
            sha256=(
                "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
            ),
            url=f"{_MRPC}/msr_paraphrase_train.txt",
        ),
        KnownFile(
            "MRPC/msr_paraphrase_test.txt",
            rows=1725,
            header=True,
            sha256=(
                "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
            ),
            url=f"{_MRPC}/msr_paraphrase_test.txt",
        ),
        KnownFile(
            "MRPC/dev_ids.tsv",
            sha256=(
                "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
            ),
            url=f"{_GLUE}/mrpc_dev_ids.tsv",
        ),
    )
    return KnownData(
        name="glue",
        summary="GLUE's nine tasks with their development sets; sentglue",
        places=glue_files.ROOTS,
        files=tuple(known_files.values()),
        source="https://gluebenchmark.com",
        archives=tuple(
            KnownArchive(f"{_GLUE}/{archive}", f"{folder}/", digest)
            for folder, archive, digest in _GLUE_ARCHIVES
        ),
        made=(KnownMade(mrpc, originals, split_mrpc),),
        licence="each task its own",
    )


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


def _sentbench() -> tuple[KnownData, ...]:
    """Return the six sources of SentBench's pair and contrast sets."""
    swag = "https://raw.githubusercontent.com/rowanz/swagaf/master/data"
    emotions = "https://raw.githubusercontent.com/google-research/google-research/master/goemotions/data"
    style = "https://raw.githubusercontent.com/harsh19/Shakespearizing-Modern-English/master/data"
    # The bucket's name is really spelt this way.
    questions = "https://s3.amazonaws.com/commensenseqa"
    return (
        _source(
            "swag",
            ("swag", "swagaf/data"),
            "which ending follows a caption",
            "https://github.com/rowanz/swagaf",
            url=swag,
        ),
        _source(
            "dbpedia",
            ("dbpedia", "dbpedia_csv"),
            "Wikipedia abstracts in 14 classes",
            "https://www.dbpedia.org",
            archives=(_DBPEDIA,),
            licence="CC BY-SA and GFDL",
        ),
        _source(
            "goemotions",
            ("goemotions", "goemotions/data"),
            "Reddit comments in 28 emotions",
            "https://github.com/google-research/google-research/tree/master/goemotions",
            url=emotions,
        ),
        _source(
            "rocstories",
            ("rocstories", "ROCStories"),
            "which ending a story of four sentences has",
            "https://www.cs.rochester.edu/nlp/rocstories/",
            licence="free for those who fill in the form",
            advice="fill in the form at https://www.cs.rochester.edu/nlp/rocstories/, and put the validation "
            "file of the Story Cloze Test into `rocstories` below `SENTBED_DATA`, under the name that it has",
        ),
        _source(
            "styletransfer",
            ("styletransfer", "Shakespearizing-Modern-English/data"),
            "Shakespeare's lines and modern ones",
            "https://github.com/harsh19/Shakespearizing-Modern-English",
            url=style,
        ),
        _source(
            "commonsenseqa",
            ("commonsenseqa", "csqa"),
            "questions of common sense with five answers",
            "https://www.tau-nlp.org/commonsenseqa",
            url=questions,
        ),
    )


def _source(
    name: str,
    places: tuple[str, ...],
    summary: str,
    page: str,
    url: str | None = None,
    archives: tuple[KnownArchive, ...] = (),
    licence: str = "",
    advice: str = "",
) -> KnownData:
    """Return a source of SentBench; `page` is its web page, `url` the folder that has its files."""
    return KnownData(
        name=name,
        summary=f"{summary}; sentbench",
        places=places,
        files=tuple(_files(name, url).values()),
        source=page,
        archives=archives,
        licence=licence,
        advice=advice,
    )


def _files(collection: str, url: str | None = None) -> dict[str, KnownFile]:
    """Read the files of a collection from `known.tsv`; `url` is the URL of the folder that has them."""
    table = files("sentbed_evaluators").joinpath("known.tsv").read_text("utf-8")
    known_files = {}
    for line in table.splitlines()[1:]:
        name, path, rows, header, optional, digests = line.split("\t")
        if name != collection:
            continue
        file = KnownFile(
            path,
            header=header == "1",
            sha256=tuple(filter(None, digests.split(","))),
            others=_others(path),
            optional=optional == "1",
        )
        if rows:
            file = attrs.evolve(file, rows=int(rows))
        if url is not None:
            file = attrs.evolve(file, url=f"{url}/{path}")
        known_files[path] = file
    return known_files


def _others(path: str) -> tuple[str, ...]:
    """Return the other paths at which a file is accepted."""
    if path.startswith("STS/STSBenchmark/"):
        return (path.removeprefix("STS/"),)
    return (_SPRING,) if path.startswith("cloze_test_val") else ()
