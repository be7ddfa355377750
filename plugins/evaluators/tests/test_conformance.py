"""Every evaluator of this distribution keeps the contract of its kind, on small files."""

from __future__ import annotations

import json

import pytest
import sentbed_evaluators
from sentbed_evaluators.glue_files import TASKS as GLUE
from sentbed_evaluators.probing_files import TASKS as PROBING
from sentbed_evaluators.sts import STS
from sentbed_testing import (
    component_rules,
    offered,
    parametrize_with_rules,
)

BUILT = "its sets are built of six collections; `sentbench_sets` tries it on small ones"
DOWNLOADED = "its tasks are downloaded; `test_mteb.py` tries it on tasks of its own"
TIMED = {"repeatable": "its scores are of the machine"}
SKIP = {
    "sentbench": dict.fromkeys(("lists", "scores", "repeatable", "items"), BUILT),
    "mteb": dict.fromkeys(("scores", "repeatable", "items"), DOWNLOADED),
    "throughput": TIMED,
    "memory": TIMED,
    "encoding-cost": {
        **TIMED, "inner": "only the texts of the other evaluator are taken",
    },
}  # fmt: skip
"""Evaluator -> rules that it is exempt from, with the reasons."""


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
        write(f"glue/{GLUE['SST-2'].path(split)}", "sentence\tlabel\n" + rows_of_glue)
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
        "sentbench": {},
        "mteb": {"tasks": ["STSBenchmark"]},
        "throughput": {"lengths": [16], "examples": 4, "repeats": 1, "warmup": 0},
        "memory": {},
        "encoding-cost": {"texts": {"use": "sts", "path": sts}, "sample": 5, "repeats": 1},
    }  # fmt: skip


@parametrize_with_rules(
    [
        component_rules(evaluator, skip=SKIP.get(evaluator.name), must_run=True)
        for evaluator in offered(sentbed_evaluators.evaluators())
    ]
)
def test_an_evaluator_keeps_the_contract(rule, examples):
    rule(example=examples[rule.component.name])


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
