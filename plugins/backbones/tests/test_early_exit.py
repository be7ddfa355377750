"""A causal backbone runs no block after the last layer that is read, and gives the full pass's states."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed_backbones._torch.token_states import CausalStates, blocks_of
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt

BLOCKS = 4
KINDS = {
    "opt": {"num_hidden_layers": BLOCKS},
    "llama": {"num_hidden_layers": BLOCKS},
    "mistral": {"num_hidden_layers": BLOCKS},
    "gpt2": {"n_layer": BLOCKS},
}

TEXTS = ("The cat sat on the mat.", "Rain falls.", "nothing at all")
READ: dict[Any, int] = {
    (0,): 0,
    (1,): 1,
    (-2,): 3,
    (1, 3): 3,
    (-5, 2): 2,
    (4,): 4,
    "first-last": 4,
    "last": 4,
}
"""`layers` -> the number of blocks that have to run."""


def forms(built):
    """The module for training, the one for encoding, and the one that a compiler gets."""
    return [
        built.module.eval(),
        built.inference(built.module, torch.float32),
        built.inference(built.module, torch.float32, traceable=True),
    ]


def runs(module, call):
    """Return what `call` returns, and how many blocks it has run."""
    part = next(p for p in module.modules() if isinstance(p, CausalStates))
    calls = []
    hooks = [
        b.register_forward_hook(lambda *_: calls.append(1))
        for b in blocks_of(part.model)
    ]
    try:
        return call(), len(calls)
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("layers", READ, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_no_block_runs_after_the_last_layer_that_is_read_and_the_states_are_the_full_passs(
    save_model, no_texts, padded, kind, layers
):
    directory = save_model(kind, **KINDS[kind])
    built = Causal(model=str(directory), layers=layers).build(no_texts)
    reference = transformers.AutoModel.from_pretrained(directory).eval()
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id)
    numbers = {"last": (-1,), "first-last": (1, -1)}.get(layers, layers)
    for module in forms(built):
        states, count = runs(module, lambda module=module: module(ids, mask))
        assert count == READ[layers]
        for row, length in enumerate(mask.sum(1).tolist()):
            hidden = reference(
                input_ids=ids[row, None, :length], output_hidden_states=True
            ).hidden_states
            expected = sum(hidden[number][0] for number in numbers) / len(numbers)
            token_states = states.last_hidden_state[row, :length]
            # Kernels add in orders of their own, and states of OPT are large.
            largest = max(1.0, expected.abs().max().item())
            torch.testing.assert_close(
                token_states, expected, rtol=0, atol=1e-5 * largest
            )


def test_blocks_that_do_not_run_are_neither_trained_nor_lost_when_saved(
    save_model, no_texts, tmp_path
):
    built = Causal(model=str(save_model("llama", **KINDS["llama"])), layers=(2,)).build(
        no_texts
    )
    ids = torch.tensor([[3, 4, 5]])
    built.module.train()(ids, None).last_hidden_state.square().sum().backward()
    blocks = blocks_of(built.model)
    trained = [all(p.grad is not None for p in block.parameters()) for block in blocks]
    frozen = [not any(p.requires_grad for p in block.parameters()) for block in blocks]
    assert trained == [True, True, False, False]
    assert frozen == [False, False, True, True]
    built.save(tmp_path / "saved")
    saved = transformers.AutoModel.from_pretrained(tmp_path / "saved")
    assert saved.config.num_hidden_layers == BLOCKS


@torch.no_grad()
def test_a_model_whose_blocks_cannot_be_found_is_refused(save_model):
    model = transformers.AutoModel.from_pretrained(save_model("llama"))
    model.config.num_hidden_layers = 7
    with pytest.raises(ModelError, match=r"has 0 lists of 7 blocks, expected one"):
        CausalStates(model, True, 1)(torch.tensor([[3, 4]]), None)


@pytest.mark.parametrize(
    ("backbone", "problem"),
    [
        (
            Opt(init="random", size="125m", layers=(13,)),
            "`layers` has 13, .* layers 1 to 12; choose",
        ),
        (
            Causal(init="random", size="7b", layers=(1, -34)),
            "`layers` has -34, .* layers 1 to 32; choose",
        ),
    ],
)
def test_a_layer_that_the_size_does_not_have_is_a_problem_before_anything_is_built(
    backbone, problem
):
    (message,) = backbone.check()
    assert re.match(problem, message)
    assert not list(attrs.evolve(backbone, layers=(12, -2)).check())


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_layer_that_a_local_model_does_not_have_is_a_problem(save_model, kind):
    backbone = Causal(model=str(save_model(kind)), layers=(3,))
    (problem,) = backbone.check()
    assert problem.startswith(
        "`layers` has 3, the model has the embedding output 0 and layers 1 to 2; "
    )
