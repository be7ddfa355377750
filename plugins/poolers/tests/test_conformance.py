"""Every pooler of this distribution keeps the contract of its kind."""

from __future__ import annotations

from typing import Any

import pytest
import sentbed_poolers
from sentbed_testing import check_component, offered

FIELDS: dict[str, list[dict[str, Any]]] = {
    "latent-attention": [{"latents": 16, "heads": 2}, {"latents": 4, "heads": 3, "head_width": 5}],
    "cls-mlp": [{}, {"mlp_only_train": True}],
    "mean-first-last": [{}, {"first": "layer-1"}],
}
"""What is tried beside the defaults."""


@pytest.mark.parametrize(
    ("pooler", "fields"),
    [
        (pooler, fields)
        for pooler in offered(sentbed_poolers.poolers())
        for fields in FIELDS.get(pooler.name, [{}])
    ],
)
def test_a_pooler_keeps_the_contract(pooler: type, fields: dict[str, Any]) -> None:
    report = check_component(pooler, kind="pooler", example=fields)
    # Gradient caching needs a backbone and a runtime, which this distribution does without.
    assert report.not_run.keys() <= {"grad-cache", "jax"}
