"""Losses with the similarity that an encoder names."""

from __future__ import annotations

from types import SimpleNamespace

import attrs
import pytest
import torch
from sentbed.protocols import Similarity, StagePlace, TokenVectors
from sentbed_losses.cosine_mse import CosineMSE
from sentbed_losses.flops import Flops
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.matryoshka import Matryoshka
from sentbed_losses.momentum import Momentum
from sentbed_losses.weighted_sum import WeightedSum


@attrs.frozen
class Near(Similarity):
    """Minus the squared distance."""

    name = "near"

    def similarity(self, first, second):
        return -(first[:, None] - second).square().sum(dim=-1)


@attrs.frozen
class Late(Similarity):
    """MaxSim, written out."""

    name = "late"
    compares = frozenset({"tokens"})

    def similarity(self, first, second):
        rows = []
        for query, of_query in zip(first.vectors, first.mask, strict=True):
            row = []
            for document, of_document in zip(second.vectors, second.mask, strict=True):
                products = query[of_query] @ document[of_document].T
                row.append(products.max(dim=1).values.sum())
            rows.append(torch.stack(row))
        return torch.stack(rows)


def batch(rows=5):
    generator = torch.Generator().manual_seed(3)
    columns = ("anchor", "positive", "negative")
    return {name: torch.randn(rows, 4, generator=generator) for name in columns}


def test_the_encoders_similarity_is_in_the_place_of_the_losss_own():
    columns = batch()
    loss = InfoNCE(temperature=0.7, symmetric=True).compared_by(Near())
    anchor, positive, negative = columns.values()
    near = Near().similarity
    logits = torch.cat([near(anchor, positive), near(anchor, negative)], dim=1) / 0.7
    place = torch.arange(5)
    forward = torch.nn.functional.cross_entropy(logits, place)
    back = torch.nn.functional.cross_entropy(near(positive, anchor) / 0.7, place)
    actual = loss.build(4)(columns).loss
    torch.testing.assert_close(actual, (forward + back) / 2)


def test_losses_within_losses_are_told_of_it():
    inner = InfoNCE(), CosineMSE()
    compared = WeightedSum(losses=inner).compared_by(Near())
    assert compared == WeightedSum(losses=(InfoNCE().compared_by(Near()), CosineMSE()))
    near = InfoNCE().compared_by(Near())
    assert near != InfoNCE()
    assert Matryoshka(InfoNCE(), (4, 2)).compared_by(Near()) == Matryoshka(near, (4, 2))
    assert Flops(InfoNCE()).compared_by(Near()) == Flops(near)


@pytest.mark.parametrize("loss", [InfoNCE, Momentum])
def test_a_loss_does_not_contradict_the_encoder(loss):
    contrary = loss(similarity="cosine").compared_by(Near())
    (problem,) = contrary.misfits(StagePlace(8))
    assert "is `cosine`, and the encoder names `near`" in problem

    silent = loss().compared_by(Near())
    assert list(silent.misfits(StagePlace(8))) == []


def test_in_batch_maxsim_is_sentence_transformers_loss_with_its_gradient():
    losses = pytest.importorskip("sentence_transformers.multi_vector_encoder.losses")
    lengths = {"anchor": [3, 1, 4], "positive": [5, 2, 1], "negative": [2, 3, 4]}
    generator = torch.Generator().manual_seed(0)
    features, columns = [], {}
    for name, counts in lengths.items():
        mask = torch.arange(max(counts)) < torch.tensor(counts)[:, None]
        drawn = torch.randn(3, max(counts), 6, generator=generator)
        ours, theirs = drawn.clone().requires_grad_(), drawn.clone().requires_grad_()
        columns[name] = TokenVectors(ours, mask)
        features.append({"token_embeddings": theirs, "attention_mask": mask})

    def model(features, **_):
        return features

    # Only what the loss calls of a model: its forward pass.
    reference = losses.MultiVectorMultipleNegativesRankingLoss.__new__(
        losses.MultiVectorMultipleNegativesRankingLoss
    )
    torch.nn.Module.__init__(reference)
    settings = SimpleNamespace(
        scale=0.5, mini_batch_size=None, score_mini_batch_size=None
    )
    vars(reference).update(vars(settings))
    scoring = pytest.importorskip("sentence_transformers.multi_vector_encoder.scoring")
    reference.similarity_fct, reference.gather_across_devices = (
        scoring.colbert_scores,
        False,
    )
    reference.model = model
    expected = reference([dict(feature) for feature in features])
    expected.backward()

    actual = InfoNCE(temperature=2.0).compared_by(Late()).build(6)(columns).loss
    actual.backward()
    assert actual.item() == pytest.approx(expected.item(), rel=1e-5)
    for column, feature in zip(columns.values(), features, strict=True):
        torch.testing.assert_close(
            column.vectors.grad, feature["token_embeddings"].grad, atol=1e-6, rtol=1e-5
        )
