"""Every evaluator of this distribution keeps the contract of its kind, on small files."""

from __future__ import annotations

import json

import pytest
import sentbed_evaluators
from sentbed.tools import component_of
from sentbed_evaluators.bitext import Bitext
from sentbed_evaluators.geometry import Geometry
from sentbed_evaluators.probing_files import TASKS as PROBING
from sentbed_evaluators.retrieval import Retrieval
from sentbed_evaluators.sts import STS, SentEvalSTS
from sentbed_testing import ComponentContract, EvaluatorContract, offered


def _lines(name, count=20):
    return "".join(f"{name} says {k} things\n" for k in range(count))


@pytest.fixture
def examples(write, tmp_path):
    pairs = "sentence1\tsentence2\tscore\n" + "".join(
        f"a {k}\tb {k}\t{k % 6}\n" for k in range(30)
    )
    sts = str(write("pairs.tsv", pairs))
    parallel = [
        str(write("dev.en", _lines("she"))),
        str(write("dev.zh", _lines("they"))),
    ]
    for name in ("corpus", "queries"):
        rows = [{"_id": f"{name}{k}", "text": f"{name} {k}"} for k in range(9)]
        write(f"beir/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    judged = "".join(f"queries{k}\tcorpus{k}\t1\n" for k in range(9))
    write("beir/qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + judged)
    stsb = "".join(f"g\tf\ty\t{k}\t{k % 5}.0\tsays {k}\tother {k}\n" for k in range(20))
    write("downstream/STS/STSBenchmark/sts-test.csv", stsb)
    for kind in ("pos", "neg"):
        write(f"downstream/MR/rt-polarity.{kind}", _lines(kind, 30))
    file, _ = PROBING["Length"]
    write(
        f"probing/{file}",
        "".join(
            f"{part}\t{'CAB'[k % 3]}\t{part} {k}\n"
            for part in ("tr", "va", "te")
            for k in range(30)
        ),
    )
    for split in ("train", "dev"):
        rows_of_glue = "".join(f"{split} says {k}\t{k % 2}\n" for k in range(60))
        write(f"glue/SST-2/{split}.tsv", "sentence\tlabel\n" + rows_of_glue)
    return {
        "sts": {"path": sts},
        "geometry": {"path": sts},
        "retrieval": {"path": str(tmp_path / "beir")},
        "bitext": {"parallel": parallel},
        "senteval-sts": {
            "tasks": ["STSB"], "data_dir": str(tmp_path / "downstream"), "check_sizes": False,
        },
        "senteval-transfer": {
            "tasks": ["MR"], "mode": "fast", "data_dir": str(tmp_path / "downstream"), "check_sizes": False,
        },
        "senteval-probing": {
            "tasks": ["Length"], "mode": "fast", "data_dir": str(tmp_path / "probing"), "check_sizes": False,
        },
        "sentglue": {
            "tasks": ["SST-2"], "mode": "fast", "data_dir": str(tmp_path / "glue"), "check_sizes": False,
        },
        "sentbench": {
            "paradigms": ["single"], "tasks": ["MR"], "data_dir": str(tmp_path / "downstream"),
        },
        "mteb": {"tasks": ["STSBenchmark"]},
        "encoding-cost": {"texts": {"use": "sts", "path": sts}, "sample": 5, "repeats": 1},
    }  # fmt: skip


ELSEWHERE = ("sentbench", "mteb", "encoding-cost")
"""Evaluators that need six collections, a download or an engine. Each has tests of its own."""
OTHERS = []
WITH_OWN_TESTS = []
for evaluator in offered(sentbed_evaluators.evaluators()):
    if evaluator.name in ELSEWHERE:
        WITH_OWN_TESTS.append(evaluator)
    else:
        OTHERS.append(evaluator)


class TestEvaluators(EvaluatorContract):
    @pytest.fixture(params=OTHERS)
    def component(self, request, examples):
        return component_of(request.param, examples[request.param.name])


class TestOtherEvaluators(ComponentContract):
    @pytest.fixture(params=WITH_OWN_TESTS)
    def component(self, request, examples):
        return component_of(request.param, examples[request.param.name])


def test_those_that_take_a_second_encoder_say_so(
    examples,
):
    examples["encoding-cost"]["texts"] = STS(examples["sts"]["path"])
    evaluators = [
        evaluator(**examples[evaluator.name])
        for evaluator in offered(sentbed_evaluators.evaluators())
    ]
    assert [evaluator.name for evaluator in evaluators if evaluator.two_sided] == [
        "sts",
        "geometry",
        "retrieval",
        "bitext",
    ]


@pytest.mark.parametrize(
    ("evaluator", "development"),
    [
        (STS("x"), False),
        (STS("x", split="test"), False),
        (STS("x", split="dev"), True),
        (Retrieval("x"), False),
        (Retrieval("x", split="train"), True),
        (Bitext(("a", "b")), False),
        (Bitext(("a", "b"), split="dev"), True),
        (Geometry(), False),
        (Geometry(task="SICKR-train"), True),
        (Geometry("x", task="STSB-dev"), False),
        (Geometry("x", split="dev"), True),
        (Geometry(parallel=("a", "b"), split="train"), True),
        (SentEvalSTS(), False),
        (SentEvalSTS(("STSB-dev", "SICKR-dev", "SICKR-train")), True),
        (SentEvalSTS(("STSB-dev", "STSB")), False),
    ],
)
def test_only_data_that_is_said_to_be_for_development_chooses_checkpoints(
    evaluator, development
):
    assert evaluator.development is development
