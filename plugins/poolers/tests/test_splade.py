from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.splade import Splade


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_vectors_and_gradients_are_those_of_sentence_transformers(
    random_states, side, training
):
    theirs = pytest.importorskip(
        "sentence_transformers.sparse_encoder.modules",
        reason="sentence-transformers is not installed; it is in `requirements/`",
    )
    states = random_states([7, 2, 4, 1, 9], width=50, side=side)
    weights = torch.randn(5, 50)
    vectors, gradients = [], []
    for reads_states in (True, False):
        logits = states.last_hidden_state.clone().requires_grad_()
        if reads_states:
            module = Splade().build(50).train(training)
            pooled = module(states._replace(last_hidden_state=logits))
        else:
            features = {
                # It changes its input in place.
                "token_embeddings": logits * 1,
                "attention_mask": states.attention_mask,
            }
            module = theirs.SpladePooling().train(True)
            pooled = module(features)["sentence_embedding"]
        (pooled * weights).sum().backward()
        vectors.append(pooled.detach())
        gradients.append(logits.grad)
    torch.testing.assert_close(vectors[0], vectors[1], rtol=0, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-5)


def test_the_vector_of_known_logits():
    logits = torch.tensor([[[-1.0, 2.0, 0.5], [-3.0, 1.0, 1.5], [9.0, 9.0, 9.0]]])
    vectors = Splade().build(3)(TokenStates(logits, torch.tensor([[1, 1, 0]])))
    expected = torch.tensor([[0.0, 3.0, 2.5]]).log()
    torch.testing.assert_close(vectors, expected.clamp(min=0), rtol=0, atol=1e-6)
