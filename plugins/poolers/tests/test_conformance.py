"""Every pooler and transform of this distribution keeps the contract of its kind."""

from __future__ import annotations

from typing import Any

import pytest
import sentbed_poolers
from sentbed_testing import check_component, offered

FIELDS: dict[str, list[dict[str, Any]]] = {
    "latent-attention": [
        {"latents": 16, "heads": 2},
        {"latents": 4, "heads": 3, "head_width": 5},
    ],
    "cls-mlp": [{}, {"mlp_only_train": True}],
    "mean-first-last": [{}, {"first": "layer-1"}],
}
"""What is tried beside the defaults."""


CACHED = {"grad-cache": "the slow tests have it: it trains on an engine"}


@pytest.mark.parametrize("pooler", offered(sentbed_poolers.poolers()))
def test_a_pooler_keeps_the_contract(pooler: type) -> None:
    example = FIELDS.get(pooler.name, [{}])[0]
    report = check_component(pooler, kind="pooler", example=example, skip=CACHED)
    assert report.not_run.keys() <= {"grad-cache", "jax"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooler", "fields"),
    [
        (pooler, fields)
        for pooler in offered(sentbed_poolers.poolers())
        for fields in FIELDS.get(pooler.name, [{}])
    ],
)
def test_a_pooler_keeps_the_contract_with_other_fields_and_with_gradient_caching(
    pooler: type, fields: dict[str, Any]
) -> None:
    report = check_component(pooler, kind="pooler", example=fields)
    # Gradient caching needs a backbone and a runtime, which this distribution does without.
    assert report.not_run.keys() <= {"grad-cache", "jax"}


TRANSFORMS: dict[str, list[dict[str, Any]]] = {
    "embed-filter": [{}, {"tau": 4}, {"first": 0}, {"reduce": False}],
    "whitening": [
        {"data": {"use": "sample"}},
        {"data": {"use": "sample"}, "dimensions": 3, "max_texts": 60},
    ],
}


@pytest.mark.parametrize(
    ("transform", "fields"),
    [
        (transform, fields)
        for transform in offered(sentbed_poolers.transforms())
        for fields in TRANSFORMS[transform.name]
    ],
)
def test_a_transform_keeps_the_contract(
    transform: type, fields: dict[str, Any]
) -> None:
    if "data" in fields:
        pytest.importorskip("sentbed_data")
    report = check_component(transform, kind="transform", example=fields)
    # The filter is fitted on no texts.
    assert report.not_run.keys() <= {"equal-vectors"}
