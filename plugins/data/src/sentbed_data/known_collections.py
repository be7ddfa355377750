"""The known collections of files for the data sources: where they come from, and how to check them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from sentbed.errors import DataError
from sentbed_common import KnownData, KnownFile

_HUB = "https://huggingface.co/datasets/princeton-nlp/datasets-for-simcse"
_3AM = "https://raw.githubusercontent.com/MaxyLee/3AM/HEAD/data"
_CNSD = "https://github.com/pluto-junzeng/CNSD"
_CNSD_STS = "https://raw.githubusercontent.com/shuxinyin/SimCSE-Pytorch/HEAD/data/STS-B"
_UN = "https://conferences.unite.un.org/uncorpus"

_3AM_DIGESTS = {
    "train.en": (
        23_931,
        "3b839b554de9aa369a199d1f1e42779a3c9c3491a9396c5b5b1a0bbd815db175",
    ),
    "train.zh": (
        23_931,
        "ef6664af8f0fdfef14ca55ba832b20a73fdcb2576c2de41913f2c53c2f15708d",
    ),
    "val.en": (
        1000,
        "7143a3ba2e84454b72df30e7248cac15168273c0735d0483360e6b2699e9fabd",
    ),
    "val.zh": (
        1000,
        "4bb831d994db78b14a2a652cfc6baad264d9d16ccdc4b5650092f94e3bc6af7d",
    ),
    "test.en": (
        1000,
        "a9706d20793389013cbec6e9a4ee9e7b19472fea7bb48589653daae21e07ae3a",
    ),
    "test.zh": (
        1000,
        "989e2c342f4462bbeae71430ad5d7cc557fdcc3e517fdfb3e20a6d2b35d42a53",
    ),
}
_CNSD_STS_DIGESTS = {
    "cnsd-sts-train.txt": (
        5231,
        "68a8f758d0c678fb12398d1c56220988ef044175b7227147bfa0c8e08edcdb2d",
    ),
    "cnsd-sts-dev.txt": (
        1458,
        "04aca7d45648569ab1e752dc2aa29f432bd3ec610ab7e849df47fdfa9b2ac6a5",
    ),
    "cnsd-sts-test.txt": (
        1361,
        "db7bc060e89b850df2f5250a28ea582452a9df1a9d52e2d94ff0adbf3de4d3fb",
    ),
}


def _files_with_digests(
    url: str,
    digests: Mapping[str, tuple[int, str]],
    prefix: str = "",
) -> tuple[KnownFile, ...]:
    """Return known files below `url` with their numbers of rows and their digests."""
    files = []
    for name, (rows, digest) in digests.items():
        files.append(
            KnownFile(
                f"{prefix}{name}",
                rows=rows,
                sha256=(digest,),
                url=f"{url}/{name}",
            )
        )

    return tuple(files)


KNOWN = (
    KnownData(
        name="3am",
        summary='captions in English and Chinese: parallel, anchor = "data:enzh/3am.train.en"',
        places=("enzh",),
        files=_files_with_digests(_3AM, _3AM_DIGESTS, "3am."),
        source="https://github.com/MaxyLee/3AM",
        licence="MIT",
    ),
    KnownData(
        name="cnsd-nli",
        summary="SNLI and MNLI in Chinese, of which the translation-pairs paper makes 315,298 triplets: nli, "
        'path = ["data:cnsd/cnsd_snli_v1.0.train.jsonl", "data:cnsd/cnsd_multil_train.jsonl"]',
        places=("cnsd",),
        files=(
            KnownFile("cnsd_snli_v1.0.train.jsonl"),
            KnownFile("cnsd_multil_train.jsonl"),
        ),
        source=_CNSD,
        licence="for research only",
        advice=f"{_CNSD} links to the download, of which `cnsd_snli_v1.0.train.jsonl` and "
        "`cnsd_multil_train.jsonl` are needed",
    ),
    KnownData(
        name="cnsd-sts",
        summary='STS-B in Chinese: sts, path = "data:cnsd/cnsd-sts-dev.txt", separator = "||"',
        places=("cnsd",),
        files=_files_with_digests(_CNSD_STS, _CNSD_STS_DIGESTS),
        source=_CNSD,
        licence="for research only",
    ),
    KnownData(
        name="nli-for-simcse",
        summary='SNLI and MNLI as triplets with hard negatives: triplets, path = "data:nli_for_simcse.csv"',
        places=(".",),
        files=(
            KnownFile(
                "nli_for_simcse.csv",
                rows=275_601,
                header=True,
                url=f"{_HUB}/resolve/main/nli_for_simcse.csv",
            ),
        ),
        source=_HUB,
    ),
    KnownData(
        name="wiki1m-for-simcse",
        summary='a million sentences of Wikipedia: dropout, path = "data:wiki1m_for_simcse.txt"',
        places=(".",),
        files=(
            KnownFile(
                "wiki1m_for_simcse.txt",
                rows=1_000_000,
                url=f"{_HUB}/resolve/main/wiki1m_for_simcse.txt",
            ),
        ),
        source=_HUB,
    ),
    KnownData(
        name="aic-en-zh",
        summary='AI Challenger\'s pairs of English and Chinese: parallel, anchor = "data:aic/aic.en"',
        places=("aic",),
        files=(KnownFile("aic.en"), KnownFile("aic.zh")),
        source="https://arxiv.org/abs/1711.06475",
        advice="https://arxiv.org/abs/1711.06475 is what the translation-pairs paper cites for it; write the "
        "sentences to `aic.en` and, line by line, their translations to `aic.zh`",
    ),
    KnownData(
        name="translation2019zh",
        summary="pairs of English and Chinese of nlp_chinese_corpus: parallel, "
        'anchor = "data:translation2019zh/train.en"',
        places=("translation2019zh",),
        files=(KnownFile("train.en"), KnownFile("train.zh")),
        source="https://github.com/brightmart/nlp_chinese_corpus",
        advice="https://github.com/brightmart/nlp_chinese_corpus links to it, an object a line; write its "
        "`english` to `train.en` and, line by line, its `chinese` to `train.zh`",
    ),
    KnownData(
        name="un-corpus-en-zh",
        summary="documents of the United Nations in English and Chinese: parallel, anchor = "
        '"data:un/UNv1.0.en-zh.en"; the first 1,000 pairs of its devset: geometry',
        places=("un",),
        files=(
            KnownFile("UNv1.0.en-zh.en", rows=15_886_041),
            KnownFile("UNv1.0.en-zh.zh", rows=15_886_041),
            KnownFile(
                "UNv1.0.devset.en",
                rows=1000,
                at_least=True,
                optional=True,
            ),
            KnownFile(
                "UNv1.0.devset.zh",
                rows=1000,
                at_least=True,
                optional=True,
            ),
        ),
        source=_UN,
        licence="free, with the United Nations named as the source",
        advice=f"{_UN} links to the archives of English and Chinese and of the test sets; unpack them",
    ),
    KnownData(
        name="wmt20-en-zh",
        summary="WMT20's pairs of English and Chinese, of which one paper's cleaning leaves 19,442,200: "
        'clean-pairs of parallel, anchor = "data:wmt/wmt20.en"',
        places=("wmt",),
        files=(KnownFile("wmt20.en"), KnownFile("wmt20.zh")),
        source="http://www.statmt.org/wmt20/",
        licence="each corpus its own",
        advice="http://www.statmt.org/wmt20/translation-task.html links to its corpora; write the sentences "
        "of all of them to `wmt20.en` and, line by line, their translations to `wmt20.zh`",
    ),
)
"""The collections of this distribution."""


def with_remedy(error: DataError, location: str) -> str:
    """Return an error's message; for a file of a known collection, also how to get the file."""
    match = known_file(location)
    if match is None:
        return str(error)

    collection, _ = match
    return f"{error}; {collection.how_to_get}"


def known_file(location: str) -> tuple[KnownData, KnownFile] | None:
    """Return the collection and the known file that a location `data:PATH` names; None if it names none."""
    for collection in KNOWN:
        for place, file in product(collection.places, collection.files):
            path = f"{place}/{file.path}".removeprefix("./")
            if location == f"data:{path}":
                return collection, file

    return None
