"""The distributions of this project, and what each of them offers.

Only messages are made of it: which distribution to install where something is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OURS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "sentbed-backbones": frozenset({"backbone/bert", "backbone/t5", "backbone/opt", "backbone/causal"}),
        "sentbed-poolers": frozenset(
            {
                "pooler/first",
                "pooler/cls-mlp",
                "pooler/mean",
                "pooler/mean-first-last",
                "pooler/last",
                "pooler/decoder",
                "pooler/mask",
                "pooler/prompt",
                "pooler/prompt-eol",
            }
        ),
        "sentbed-losses": frozenset(
            {"loss/info-nce", "loss/queue", "loss/momentum", "loss/classification", "loss/nli-softmax"}
        ),
        "sentbed-data": frozenset(
            {
                "data/pairs",
                "data/triplets",
                "data/dropout",
                "data/sample",
                "data/nsp",
                "data/synonyms",
                "data/crop",
                "data/delete",
                "data/parallel",
                "data/nli",
                "data/qa",
                "data/mix",
            }
        ),
        "sentbed-interop": frozenset(
            {
                "exporter/sentence-transformers",
                "exporter/hub",
                "exporter/onnx",
                "importer/sentence-transformers",
                "importer/simcse",
                "importer/peft",
            }
        ),
        "sentbed-jobs": frozenset({"executor/local", "executor/ray"}),
        "sentbed-trackers": frozenset({"tracker/tensorboard", "tracker/mlflow"}),
        "sentbed-evaluators": frozenset(
            {
                "evaluator/senteval-sts",
                "evaluator/senteval-transfer",
                "evaluator/senteval-probing",
                "evaluator/sentglue",
                "evaluator/sentbench",
                "evaluator/sts",
                "evaluator/geometry",
                "evaluator/retrieval",
                "evaluator/bitext",
                "evaluator/mteb",
                "evaluator/throughput",
            }
        ),
        "sentbed-hardware": frozenset(
            {
                "runtime/cpu",
                "runtime/cuda",
                "runtime/tpu",
                "optimizer/adamw",
                "optimizer/adafactor",
                "schedule/constant",
                "schedule/linear",
                "schedule/linear-after-hold",
                "schedule/cosine",
            }
        ),
    }
)
"""What the distributions of this project offer, to name the one to install; a test keeps it true."""

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "cache": "sentbed-workbench",
        "compare": "sentbed-report",
        "data": "sentbed-data",
        "diff": "sentbed-workbench",
        "doctor": "sentbed-workbench",
        "encode": "sentbed-corpus",
        "evaluate": "sentbed-workbench",
        "explain": "sentbed-workbench",
        "export": "sentbed-interop",
        "import": "sentbed-interop",
        "new": "sentbed-workbench",
        "plan": "sentbed-workbench",
        "reproduce": "sentbed-studies",
        "schema": "sentbed-workbench",
        "search": "sentbed-studies",
        "study": "sentbed-studies",
        "table": "sentbed-report",
    }
)
"""Subcommand -> the distribution that offers it."""

TABLES: Mapping[str, str] = MappingProxyType(
    {
        "bootstrap": "sentbed-report",
        "report": "sentbed-report",
        "search": "sentbed-studies",
        "study": "sentbed-studies",
    }
)
"""Top-level table of a recipe -> the distribution that offers it."""

DISTRIBUTIONS = (*sorted({*OURS, *COMMANDS.values(), *TABLES.values()}), "sentbed-testing")
"""The distributions of this project beside core."""
