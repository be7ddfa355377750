"""Similarities against sentence-transformers' functions."""

from __future__ import annotations

import pytest
import torch
from sentbed.protocols import Similarity, TokenVectors
from sentbed_poolers.cosine import Cosine
from sentbed_poolers.dot import Dot
from sentbed_poolers.euclidean import Euclidean
from sentbed_poolers.manhattan import Manhattan
from sentbed_poolers.maxsim import MaxSim

OF_VECTORS: dict[str, Similarity] = {
    "cos_sim": Cosine(),
    "dot_score": Dot(),
    "euclidean_sim": Euclidean(),
    "manhattan_sim": Manhattan(),
}


def util():
    return pytest.importorskip("sentence_transformers.util")


def vectors(rows, seed):
    return torch.randn(rows, 7, generator=torch.Generator().manual_seed(seed))


def tokens(lengths, seed):
    """Return token vectors of length 1, with NaN for padding."""
    shape = (len(lengths), max(lengths), 5)
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    unit = torch.nn.functional.normalize(drawn, dim=-1)
    return TokenVectors(unit, mask)


@pytest.mark.parametrize("name", OF_VECTORS)
def test_vectors_are_compared_as_by_sentence_transformers(name):
    similarity, first, second = OF_VECTORS[name], vectors(6, 0), vectors(4, 1)
    ready = similarity.normalize(first), similarity.normalize(second)
    torch.testing.assert_close(
        similarity.similarity(*ready), getattr(util(), name)(first, second)
    )
    pairs = similarity.pairwise(ready[0][:4], ready[1])
    expected = getattr(util(), f"pairwise_{name}")(first[:4], second)
    torch.testing.assert_close(pairs, expected)


@pytest.mark.parametrize("mean", [False, True])
def test_maxsim_is_that_of_sentence_transformers(mean):
    queries, documents = tokens([3, 1, 4], 0), tokens([5, 2, 1], 1)
    similarity = MaxSim(mean=mean)
    masks = {"a_mask": queries.mask, "b_mask": documents.mask}
    expected = util().maxsim(
        queries.vectors, documents.vectors, **masks, length_normalize=mean
    )
    torch.testing.assert_close(similarity.similarity(queries, documents), expected)
    torch.testing.assert_close(
        similarity.pairwise(queries, documents), expected.diagonal()
    )


def test_a_document_without_tokens_is_below_every_other():
    documents = tokens([2, 2], 1)
    empty = TokenVectors(
        documents.vectors, documents.mask & torch.tensor([[True], [False]])
    )
    similarities = MaxSim().similarity(tokens([3], 0), empty)
    assert similarities[0, 1] == -1e9 < similarities[0, 0]
