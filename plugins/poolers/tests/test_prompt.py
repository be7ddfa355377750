from __future__ import annotations

import pytest
import torch
from sentbed_poolers.prompt import Prompt
from sentbed_poolers.prompt_eol import PromptEOL


@pytest.mark.parametrize("pooler", [Prompt(), PromptEOL()], ids=str)
def test_the_vector_is_the_state_of_the_last_real_token(random_states, pooler):
    states = random_states([5, 2, 1])
    expected = states.last_hidden_state[[0, 1, 2], [4, 1, 0]]
    assert torch.equal(pooler.build(6)(states), expected)


@pytest.mark.parametrize(
    ("pooler", "expected"),
    [
        (Prompt(), "This sentence : \"Is it 'late'.\" means"),
        (PromptEOL(), 'This sentence : "Is it \'late\'." means in one word:"'),
    ],
    ids=str,
)
def test_the_prompt_is_that_of_the_paper_where_the_recipe_says_nothing(
    pooler, expected
):
    resolved = pooler.prompt.resolve()
    assert resolved is not None
    assert resolved.apply('Is it "late"?') == expected
