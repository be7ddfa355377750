"""Every loss of this distribution keeps the contract of its kind."""

from __future__ import annotations

from typing import Any

import pytest
import sentbed_losses
from sentbed_testing import component_rules, offered, parametrize_with_rules

EVERYTHING: dict[str, Any] = {
    "temperature": {"initial": 0.5},
    "symmetric": True,
    "margin": 0.1,
    "hard_negative_weight": 2.0,
    "mask_duplicates": True,
    "false_negative_threshold": 0.8,
}
STOPPED = {
    "gradient": "`hardness` stops the gradient of the similarity that weighs a negative"
}
NCE: dict[str, Any] = {"use": "info-nce", "temperature": 0.5}
FIELDS: dict[str, list[dict[str, Any]]] = {
    "info-nce": [{}, EVERYTHING, {"hard_negatives": "own"}, {"hard_negatives": "none"}],
    "queue": [{"size": 8}, {"size": 8, **EVERYTHING}],
    "momentum": [{"size": 8}, {"size": 8, "in_batch": False}],
    "nli-softmax": [{}, {"product": True}],
    "cosent": [{}, {"rows": "triplets", "temperature": 0.5}],
    "angle": [{}, {"rows": "triplets", "temperature": 0.5}],
    "matryoshka": [
        {"loss": NCE, "dimensions": [8, 4, 2]},
        {
            "loss": {"use": "queue", "size": 8},
            "dimensions": [8, 3],
            "weights": [1.0, 0.5],
        },
        {"loss": {"use": "momentum", "size": 8}, "dimensions": [8, 3]},
        {"loss": {"use": "gist", "temperature": 0.5}, "dimensions": [4]},
        {
            "loss": {"use": "sum", "losses": [NCE, {"use": "spread-out"}]},
            "dimensions": [8, 4],
        },
    ],
    "sum": [
        {"losses": [NCE, {"use": "spread-out"}], "weights": [1.0, 0.1]},
        {"losses": [NCE, {"use": "cosent"}, {"use": "angle"}]},
        {"losses": [{"use": "queue", "size": 8}, {**NCE, "mask_duplicates": True}]},
        {"losses": [NCE, NCE, {"use": "distill"}]},
        {
            "losses": [
                {"use": "matryoshka", "loss": NCE, "dimensions": [8, 4]},
                {"use": "nli-softmax"},
            ]
        },
    ],
    "flops": [
        {"loss": NCE, "query_weight": 0.1, "document_weight": 0.1},
        {"loss": {"use": "queue", "size": 8}, "warmup": 0.5},
    ],
    "spread-out": [{}, {"excess": False, "mean_weight": 0.0, "aggregation": "sum"}],
    "distill": [{}, {"distance": "l2"}, {"distance": "cosine"}],
    "similarity-kl": [
        {"temperature": 0.5},
        {"candidates": "row", "temperature": 0.5, "similarity": "dot"},
    ],
    "margin-mse": [{}, {"similarity": "cosine"}],
    "gist": [
        {"temperature": 0.5},
        {"temperature": 0.5, "margin": 0.1, "margin_kind": "relative"},
    ],
}
"""What is tried; the defaults where nothing is said."""

LOSSES = {loss.name: loss for loss in offered(sentbed_losses.losses())}


@parametrize_with_rules(
    [
        component_rules(loss, example=FIELDS.get(name, [{}])[0], must_run=True)
        for name, loss in LOSSES.items()
    ]
)
def test_a_loss_keeps_the_contract(rule):
    rule()


@pytest.mark.slow
@parametrize_with_rules(
    [
        component_rules(loss, example=fields)
        for name, loss in LOSSES.items()
        for fields in FIELDS.get(name, [{}])
    ]
)
def test_a_loss_keeps_the_contract_with_other_fields(
    rule,
):
    rule()


@pytest.mark.slow
@parametrize_with_rules(
    [
        component_rules(
            LOSSES[name],
            example={"hardness": 5.0, "hardness_of": of, "temperature": 0.5},
            skip=STOPPED,
        )
        for name in ("info-nce", "queue")
        for of in ("own", "others", "all")
    ]
)
def test_a_loss_with_hardness_keeps_it_but_for_the_stopped_gradient(
    rule,
):
    rule()
