"""Evaluators: the benchmarks of sentence embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl

if TYPE_CHECKING:
    from sentbed_common import KnownData


@hookimpl
def evaluators() -> Mapping[str, str]:
    """Return the evaluators of this distribution."""
    return {
        "senteval-sts": "sentbed_evaluators.sts:SentEvalSTS",
        "senteval-transfer": "sentbed_evaluators.transfer:SentEvalTransfer",
        "senteval-probing": "sentbed_evaluators.probing:SentEvalProbing",
        "sentglue": "sentbed_evaluators.sentglue:SentGLUE",
        "sentbench": "sentbed_evaluators.sentbench:SentBench",
        "sts": "sentbed_evaluators.sts:STS",
        "geometry": "sentbed_evaluators.geometry:Geometry",
        "retrieval": "sentbed_evaluators.retrieval:Retrieval",
        "bitext": "sentbed_evaluators.bitext:Bitext",
        "mteb": "sentbed_evaluators.mteb:MTEB",
        "encoding-cost": "sentbed_evaluators.encoding_cost:EncodingCost",
    }


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the collections of data that the evaluators of this distribution read."""
    from sentbed_common import read_collections

    return read_collections("sentbed_evaluators")
