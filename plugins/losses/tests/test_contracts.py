"""Every loss of this distribution keeps the contract of its kind."""

from __future__ import annotations

from typing import Any

import pytest
import sentbed_losses
import torch
from sentbed.tools import component_of
from sentbed_losses.info_nce import InfoNCE
from sentbed_testing import LossContract, offered

EVERYTHING: dict[str, Any] = {
    "temperature": {"initial": 0.5},
    "symmetric": True,
    "hard_negatives": "own",
    "mask_duplicates": True,
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
        {"loss": {"use": "similarity-kl", "temperature": 0.5}, "dimensions": [4]},
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
"""Fields of the examples of a loss; its defaults if it is not here."""
LOSSES = []
for loss in offered(sentbed_losses.losses()):
    first, *others = FIELDS.get(loss.name, [{}])
    LOSSES.append(pytest.param((loss, first), id=loss.name))
    for fields in others:
        LOSSES.append(
            pytest.param((loss, fields), id=loss.name, marks=pytest.mark.slow)
        )


class TestLosses(LossContract):
    """Every loss; those with other fields than the first ones are slow tests."""

    @pytest.fixture(params=LOSSES)
    def component(self, request):
        cls, fields = request.param
        return component_of(cls, fields)

    def test_vectors_in_bf16(self, component, module):
        """The loss of narrow vectors is in fp32, and that of the same vectors in fp32 but for rounding."""
        narrow, wide = {}, {}
        for name, value in self.inputs(component).items():
            narrow[name] = wide[name] = value
            if value.is_floating_point():
                narrow[name] = value.to(torch.bfloat16)
                wide[name] = narrow[name].to(torch.float32)

        output = self.first_step(component, module, narrow)
        assert output.loss.dtype == torch.float32
        expected = self.first_step(component, module, wide).loss
        torch.testing.assert_close(output.loss, expected, rtol=1e-2, atol=1e-3)


class TestHardness(LossContract):
    """A loss that weighs hard negatives by their hardness."""

    component = InfoNCE(temperature=0.5, hardness=5.0)

    @pytest.mark.skip(reason="`hardness` stops the gradient of a negative's weight")
    def test_gradient(self):
        """The weight of a negative is a constant."""
