"""Every loss of this distribution keeps the contract of its kind."""

from __future__ import annotations

from typing import Any

import pytest
import sentbed_losses
from sentbed_testing import check_component, offered

EVERYTHING: dict[str, Any] = {
    "temperature": {"initial": 0.5},
    "symmetric": True,
    "margin": 0.1,
    "hard_negative_weight": 2.0,
    "mask_duplicates": True,
    "false_negative_threshold": 0.8,
}
FIELDS: dict[str, list[dict[str, Any]]] = {
    "info-nce": [{}, EVERYTHING],
    "queue": [{"size": 8}, {"size": 8, **EVERYTHING}],
    "momentum": [{"size": 8}, {"size": 8, "in_batch": False}],
    "nli-softmax": [{}, {"product": True}],
}
"""What is tried; the defaults where nothing is said."""


@pytest.mark.parametrize(
    ("loss", "fields"),
    [(loss, fields) for loss in offered(sentbed_losses.losses()) for fields in FIELDS.get(loss.name, [{}])],
)
def test_a_loss_keeps_the_contract(loss: type, fields: dict[str, Any]) -> None:
    report = check_component(loss, kind="loss", example=fields)
    # Gradient caching needs a backbone and a runtime, which this distribution does without.
    assert report.not_run.keys() <= {"grad-cache", "jax"}
