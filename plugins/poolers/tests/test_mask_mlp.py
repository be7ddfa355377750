from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from sentbed_poolers.mask import Mask
from sentbed_poolers.mask_mlp import MaskMLP


def layer(width):
    generator = torch.Generator().manual_seed(1)
    return {
        "pooler.dense.weight": torch.randn(width, width, generator=generator)
        / width**0.5,
        "pooler.dense.bias": torch.randn(width, generator=generator),
    }


@pytest.mark.parametrize("only_train", [False, True])
def test_the_vector_is_the_mask_state_after_the_layer_of_the_file(
    random_states, tmp_path, only_train
):
    weights = layer(8)
    save_file(weights, tmp_path / "model.safetensors")
    pooler = MaskMLP(mlp=str(tmp_path / "model.safetensors"), mlp_only_train=only_train)
    assert list(pooler.check()) == []
    drawn = torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
    states = random_states([7, 2, 4], width=8)._replace(mask_state=drawn)
    expected = torch.tanh(
        states.mask_state @ weights["pooler.dense.weight"].T
        + weights["pooler.dense.bias"]
    )
    module = pooler.build(8)
    torch.testing.assert_close(module.train()(states), expected, rtol=0, atol=1e-6)
    at_test = states.mask_state if only_train else expected
    torch.testing.assert_close(module.eval()(states), at_test, rtol=0, atol=1e-6)
    assert pooler.at_test == ("mask" if only_train else None)


@pytest.mark.parametrize("pooler", [Mask, MaskMLP])
def test_denoising_needs_the_template_alone(pooler):
    plain = {"mask-token", "template"}
    assert pooler().needs == plain
    assert pooler(denoise=True).needs == {*plain, "template-alone"}
    from_zero = pooler(denoise=True, template_positions="zero")
    assert from_zero.needs == {*plain, "template-alone-from-0"}
    assert pooler(template_positions="zero").needs == plain
