"""Every data source of this distribution keeps the contract of its kind, on small files."""

from __future__ import annotations

import pytest
import sentbed_data
from sentbed.tools import component_of
from sentbed_data.dropout import Dropout
from sentbed_data.nli import Nli
from sentbed_testing import DataContract, offered

TRIPLETS = "pkg:sentbed_data/sample/triplets.csv"
LINES = "\n".join(
    f"The {noun} number {k} is big and soon in the house."
    for k in range(30)
    for noun in ("cat", "dog")
)
NLI = "sentence1\tsentence2\tgold_label\n" + "".join(
    f"p{k}\th{k} {label}\t{label}\n"
    for k in range(9)
    for label in ("entailment", "neutral", "contradiction")
)
SCORED = "sentence1\tsentence2\tscore\n" + "".join(
    f"a {k}\tb {k}\t{k % 6}\n" for k in range(20)
)
QA = "qtext,label,atext\n" + "".join(f"q{k},{k % 2},answer {k}\n" for k in range(20))


@pytest.fixture
def examples(put, nltk_data):
    lines, others = put("lines.txt", LINES), put("others.txt", LINES.upper())
    sample, columns = {"use": "sample"}, {"anchor": "sent0", "positive": "sent1"}
    return {
        "pairs": {"path": TRIPLETS, **columns},
        "triplets": {"path": TRIPLETS},
        "dropout": {"path": lines},
        "crop": {"path": lines},
        "delete": {"path": lines},
        "synonyms": {"path": lines},
        "nsp": {"path": lines},
        "parallel": {"anchor": lines, "positive": others},
        "clean-pairs": {
            "source": {"use": "parallel", "anchor": lines, "positive": others},
            "max_ratio": 3.0,
        },
        "nli": {"path": put("nli.tsv", NLI), "build": "labelled"},
        "qa": {"path": put("qa.csv", QA)},
        "scored": {"path": put("scored.tsv", SCORED), "score_range": [0, 5]},
        "for-teacher": {
            "source": {
                "use": "scored",
                "path": put("scored.tsv", SCORED),
                "score_range": [0, 5],
            }
        },
        "mix": {"sources": [sample, {"use": "pairs", "path": TRIPLETS, **columns}]},
        "sample": {},
    }


class TestSources(DataContract):
    @pytest.fixture(params=offered(sentbed_data.data_sources()))
    def component(self, request, examples):
        return component_of(request.param, examples[request.param.name])


class TestBuiltRows(DataContract):
    @pytest.fixture(params=["triplets", "pairs"])
    def component(self, request, put):
        return Nli(path=put("nli.tsv", NLI), build=request.param)


class TestStream(DataContract):
    @pytest.fixture
    def component(self, put):
        return Dropout(path=put("lines.txt", LINES), stream=True)
