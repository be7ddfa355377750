"""Evaluators: the benchmarks of sentence embeddings."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Finding, KnownData

sentbed_api = "2.0"


@hookimpl
def evaluators() -> list[type]:
    """Return the evaluators of this distribution."""

    from sentbed_evaluators.bitext import Bitext
    from sentbed_evaluators.geometry import Geometry
    from sentbed_evaluators.mteb import MTEB
    from sentbed_evaluators.probing import SentEvalProbing
    from sentbed_evaluators.retrieval import Retrieval
    from sentbed_evaluators.sentbench import SentBench
    from sentbed_evaluators.senteval_sts import SentEvalSTS
    from sentbed_evaluators.sentglue import SentGLUE
    from sentbed_evaluators.sts import STS
    from sentbed_evaluators.throughput import Throughput
    from sentbed_evaluators.transfer import SentEvalTransfer

    return [
        SentEvalSTS,
        SentEvalTransfer,
        SentEvalProbing,
        SentGLUE,
        SentBench,
        STS,
        Geometry,
        Retrieval,
        Bitext,
        MTEB,
        Throughput,
    ]


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the collections of data that the evaluators of this distribution read."""
    from sentbed_evaluators.known_collections import known_collections

    return known_collections()


@hookimpl
def findings() -> list[Finding]:
    """Return which evaluators have their library installed."""
    from sentbed_evaluators.doctor import findings

    return list(findings())
