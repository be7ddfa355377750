from __future__ import annotations

import sentbed_evaluators


def test_the_plugin_offers_its_evaluators_by_name() -> None:
    assert list(sentbed_evaluators.evaluators()) == [
        "senteval-sts",
        "senteval-transfer",
        "senteval-probing",
        "sentglue",
        "sentbench",
        "sts",
        "geometry",
        "retrieval",
        "bitext",
        "mteb",
        "next-token",
        "encoding-cost",
        "throughput",
        "memory",
    ]
