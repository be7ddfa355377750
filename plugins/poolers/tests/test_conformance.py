"""Every pooler and transform of this distribution keeps the contract of its kind."""

from __future__ import annotations

from typing import Any

import pytest
import sentbed_poolers
from sentbed_testing import (
    component_rules,
    offered,
    parametrize_with_rules,
)

FIELDS: dict[str, list[dict[str, Any]]] = {
    "latent-attention": [
        {"latents": 16, "heads": 2},
        {"latents": 4, "heads": 3, "head_width": 5},
    ],
    "cls-mlp": [{}, {"mlp_only_train": True}],
    "mean-first-last": [{}, {"first": "layer-1"}],
}
"""What is tried beside the defaults."""


@parametrize_with_rules(
    [
        component_rules(pooler, example=FIELDS.get(pooler.name, [{}])[0], must_run=True)
        for pooler in offered(sentbed_poolers.poolers())
    ]
)
def test_a_pooler_keeps_the_contract(rule):
    rule()


@pytest.mark.slow
@parametrize_with_rules(
    [
        component_rules(pooler, example=fields)
        for pooler in offered(sentbed_poolers.poolers())
        for fields in FIELDS.get(pooler.name, [{}])
    ]
)
def test_a_pooler_keeps_the_contract_with_other_fields(
    rule,
):
    rule()


TRANSFORMS: dict[str, list[dict[str, Any]]] = {
    "embed-filter": [{}, {"tau": 4}, {"first": 0}, {"reduce": False}],
    "whitening": [
        {"data": {"use": "sample"}},
        {"data": {"use": "sample"}, "dimensions": 3, "max_texts": 60},
    ],
}


def transforms():
    """Yield the rules of each transform, with each of its fields."""
    for transform in offered(sentbed_poolers.transforms()):
        skip = {}
        if transform.name == "embed-filter":
            skip["equal-vectors"] = "the filter is fitted on no texts"
        for fields in TRANSFORMS[transform.name]:
            yield component_rules(transform, example=fields, skip=skip, must_run=True)


@parametrize_with_rules(transforms())
def test_a_transform_keeps_the_contract(rule):
    if "data" in rule.subject.example:
        pytest.importorskip("sentbed_data")
    rule()
