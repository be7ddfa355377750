"""Evaluators: the benchmarks of sentence embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import KnownData


@hookimpl
def evaluators() -> Mapping[str, Lazy]:
    """Return the evaluators of this distribution."""
    return {
        "senteval-sts": Lazy(
            "sentbed_evaluators.senteval_sts:SentEvalSTS",
            "Spearman correlation of cosine and gold score, x 100.",
        ),
        "senteval-transfer": Lazy(
            "sentbed_evaluators.transfer:SentEvalTransfer",
            "Accuracy x 100 of a linear classifier on frozen embeddings, as SentEval trains it.",
        ),
        "senteval-probing": Lazy(
            "sentbed_evaluators.probing:SentEvalProbing",
            "SentEval's ten probing tasks (Conneau et al., 2018): accuracy x 100.",
        ),
        "sentglue": Lazy(
            "sentbed_evaluators.sentglue:SentGLUE",
            "SentGLUE (Sentence-T5, section 8): nine tasks of GLUE on its development sets, x 100.",
        ),
        "sentbench": Lazy(
            "sentbed_evaluators.sentbench:SentBench",
            "SentBench (Liu et al., 2023): 18 data sets in three paradigms, accuracy x 100.",
        ),
        "sts": Lazy(
            "sentbed_evaluators.sts:STS",
            "Spearman (`primary`) and Pearson correlation of cosine and gold score, x 100, on one file.",
        ),
        "geometry": Lazy(
            "sentbed_evaluators.geometry:Geometry",
            "Alignment of positive pairs, uniformity and anisotropy of all sentences.",
        ),
        "retrieval": Lazy(
            "sentbed_evaluators.retrieval:Retrieval",
            "nDCG@k, recall@k, MRR@k and MAP x 100 of the documents nearest to each query.",
        ),
        "bitext": Lazy(
            "sentbed_evaluators.bitext:Bitext",
            "Accuracy x 100 of the search for each sentence's translation among all lines of the other file.",
        ),
        "mteb": Lazy(
            "sentbed_evaluators.mteb:MTEB",
            "Tasks of the Massive Text Embedding Benchmark, run by the library `mteb` (the extra `mteb`).",
        ),
        "encoding-cost": Lazy(
            "sentbed_evaluators.encoding_cost:EncodingCost",
            "Cost of encoding the texts of another evaluation, as columns beside a study's scores.",
        ),
        "throughput": Lazy(
            "sentbed_evaluators.throughput:Throughput",
            "Texts per second, by their length in tokens.",
        ),
        "memory": Lazy(
            "sentbed_evaluators.memory:Memory",
            "Memory in GiB that a run has used up to its evaluation, training included.",
        ),
    }


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the collections of data that the evaluators of this distribution read."""
    from sentbed_evaluators.known_collections import known_collections

    return known_collections()
