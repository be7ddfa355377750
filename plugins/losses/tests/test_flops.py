from __future__ import annotations

import pytest
import torch
from sentbed.protocols import PROGRESS
from sentbed_losses.flops import Flops
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.momentum import Momentum
from sentbed_losses.queue import Queue

INNER = InfoNCE(similarity="dot", temperature=1.0, hard_negatives="batch")
COLUMNS = ("anchor", "positive", "negative")


class Given(torch.nn.Module):
    """A model of sentence-transformers whose vectors come with the features."""

    def forward(self, features):
        return {"sentence_embedding": features["vectors"]}


def sparse_vectors(seed=0):
    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for name in COLUMNS:
        values = torch.randn(6, 20, generator=generator).relu()
        drawn[name] = values.requires_grad_()
    return drawn


def test_value_and_gradient_are_those_of_sentence_transformers():
    losses = pytest.importorskip(
        "sentence_transformers.sparse_encoder.losses",
        reason="sentence-transformers is not installed; it is in `requirements/`",
    )
    weights = {"query": 0.5, "document": 0.25}
    model = Given()
    module = losses.SpladeLoss(
        model,
        losses.SparseMultipleNegativesRankingLoss(model, scale=1.0),
        document_regularizer_weight=weights["document"],
        query_regularizer_weight=weights["query"],
    )
    theirs = sparse_vectors()
    expected = sum(module([{"vectors": value} for value in theirs.values()]).values())
    expected.backward()

    ours = sparse_vectors()
    loss = Flops(
        INNER, query_weight=weights["query"], document_weight=weights["document"]
    )
    output = loss.build(20)(ours)
    output.loss.backward()
    torch.testing.assert_close(output.loss, expected, rtol=0, atol=1e-5)
    for name in COLUMNS:
        torch.testing.assert_close(
            ours[name].grad, theirs[name].grad, rtol=0, atol=1e-5
        )


def test_flops_are_squared_means_of_the_components_sizes():
    vectors = {
        "anchor": torch.tensor([[1.0, 0.0], [3.0, 0.0]]),
        "positive": torch.tensor([[0.0, -2.0], [0.0, 4.0]]),
    }
    metrics = Flops(INNER).build(2)(vectors).metrics
    assert metrics["query_flops"].item() == 4
    assert metrics["document_flops"].item() == 9
    assert metrics["query_active"].item() == 1


@pytest.mark.parametrize(
    ("progress", "share"),
    [(0.0, 0.0), (0.125, 1 / 16), (0.25, 1 / 4), (0.5, 1), (0.9, 1)],
)
def test_the_weights_grow_quadratically_and_stay(progress, share):
    vectors = sparse_vectors()
    loss = Flops(INNER, query_weight=1.0, document_weight=0.0, warmup=0.5)
    assert loss.needs == {"progress"}
    output = loss.build(20)({PROGRESS: torch.tensor(progress), **vectors})
    added = output.loss.item() - output.metrics["info-nce"].item()
    whole = output.metrics["query_flops"].item()
    assert added == pytest.approx(share * whole, abs=1e-4)


def test_documents_that_get_no_gradient_are_a_problem():
    (problem,) = Flops(Momentum(similarity="dot")).check()
    assert "a moving average encodes `positive`" in problem
    assert list(Flops(Queue(similarity="dot")).check()) == []
