from __future__ import annotations

import sentbed_evaluators


def test_the_plugin_offers_its_evaluators_by_name() -> None:
    assert [cls.name for cls in sentbed_evaluators.evaluators()] == [
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
        "throughput",
    ]


def test_those_that_take_a_second_encoder_say_so() -> None:
    two_sided = [cls.name for cls in sentbed_evaluators.evaluators() if getattr(cls, "two_sided", False)]
    assert two_sided == ["sts", "geometry", "retrieval", "bitext"]
