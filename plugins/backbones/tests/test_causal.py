from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentbed_backbones._torch.shared_prefix import SharedPrefixStates
from sentbed_backbones.causal import Causal

KINDS = ("llama", "llama-grouped", "gpt2", "mistral", "opt")


def test_a_prefix_is_reused_if_the_recipe_says_so(save_model, no_texts):
    for kind in KINDS:
        directory = str(save_model(kind, kind))
        for reuse in (True, False):
            built = Causal(model=directory, reuse_prefix=reuse).build(no_texts)
            module = built.inference(built.module, torch.float32)
            assert isinstance(module, SharedPrefixStates) == reuse


@pytest.mark.parametrize("kind", ["gpt2", "opt"])
def test_the_form_for_encoding_is_a_copy(save_model, no_texts, kind):
    built = Causal(model=str(save_model(kind))).build(no_texts)
    module = built.inference(built.module.train(), torch.bfloat16)
    assert {p.dtype for p in module.parameters()} == {torch.bfloat16}
    assert not any(p.requires_grad for p in module.parameters())
    assert not module.training
    assert built.module.training
    assert {p.dtype for p in built.module.parameters()} == {torch.float32}
    assert all(p.requires_grad for p in built.module.parameters())


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_causal_masks_in_old_files_are_no_weights(save_model, no_texts, prefix):
    """The files of GPT-2 hold its masks, in each layer."""
    directory = save_model("gpt2")
    file = directory / "model.safetensors"
    weights = load_file(file)
    old = {prefix + key: value for key, value in weights.items()}
    for layer in range(2):
        old[f"{prefix}h.{layer}.attn.bias"] = torch.ones(1, 1, 40, 40).tril()
        old[f"{prefix}h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(old, file, {"format": "pt"})
    loaded = Causal(model=str(directory)).build(no_texts).module.model.state_dict()
    assert loaded.keys() == weights.keys()
    assert all(torch.equal(value, weights[key]) for key, value in loaded.items())
