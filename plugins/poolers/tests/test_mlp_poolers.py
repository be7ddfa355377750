from __future__ import annotations

import pytest
import sentbed
import torch
from safetensors.torch import save_file
from sentbed_poolers.cls_mlp import ClsMLP
from sentbed_poolers.mask import Mask
from sentbed_poolers.mask_mlp import MaskMLP
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import BertConfig, BertModel


def drawn_weights(width):
    """Weights large enough for tanh to bend, and a bias that is not zero."""
    generator = torch.Generator().manual_seed(1)
    return {
        "dense.weight": torch.randn(width, width, generator=generator) / width**0.5,
        "dense.bias": torch.randn(width, generator=generator),
    }


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_vector_is_that_of_sentence_transformers_with_the_same_weights(
    random_states, side
):
    states = random_states([7, 2, 4, 1, 9], width=8, side=side)
    weights = drawn_weights(8)
    pooling = Pooling(8, pooling_mode="cls")
    dense = Dense(8, 8, activation_function=torch.nn.Tanh())
    dense.linear.load_state_dict(
        {"weight": weights["dense.weight"], "bias": weights["dense.bias"]}
    )
    features = {
        "token_embeddings": states.last_hidden_state,
        "attention_mask": states.attention_mask,
    }
    ours = ClsMLP().build(8)
    ours.load_state_dict(weights)
    theirs = dense(pooling(features))["sentence_embedding"]
    torch.testing.assert_close(ours(states), theirs, rtol=0, atol=1e-6)


def test_weights_are_drawn_with_deviation_one_fiftieth_and_the_bias_is_zero():
    torch.manual_seed(0)
    dense = ClsMLP().build(256).dense
    # 65,536 draws: the deviation is known to about 0.3 %, the mean to 8e-5.
    assert dense.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert dense.weight.mean().item() == pytest.approx(0, abs=4e-4)
    # Of a uniform distribution with this deviation, none would be beyond 0.035; of a normal one, 8 %.
    assert (dense.weight.abs() > 0.035).float().mean().item() == pytest.approx(
        0.080, abs=0.01
    )
    assert not dense.bias.any()


@pytest.mark.parametrize("mlp_only_train", [False, True])
def test_the_layer_and_its_width_are_those_of_training_and_perhaps_of_encoding(
    random_states, mlp_only_train
):
    states = random_states([5, 2, 1])
    pooler = ClsMLP(mlp_only_train=mlp_only_train, mlp_width=9)
    module = pooler.build(6)
    first = states.last_hidden_state[:, 0]
    in_training = torch.tanh(first @ module.dense.weight.T)
    encoded = in_training
    if mlp_only_train:
        encoded = first
    assert pooler.trained_width(6) == in_training.shape[1] == 9
    assert pooler.output_width(6) == encoded.shape[1]
    assert pooler.at_test == ("first" if mlp_only_train else None)
    torch.testing.assert_close(module.train()(states), in_training, rtol=0, atol=1e-6)
    torch.testing.assert_close(module.eval()(states), encoded, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mlp_only_train", [False, True])
def test_the_layer_of_a_mask_state_is_in_training_and_perhaps_in_encoding(
    random_states, mlp_only_train
):
    pooler = MaskMLP(mlp_only_train=mlp_only_train)
    module = pooler.build(8)
    module.load_state_dict(drawn_weights(8))
    drawn = torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
    states = random_states([7, 2, 4], width=8)._replace(mask_state=drawn)

    in_training = torch.tanh(drawn @ module.dense.weight.T + module.dense.bias)
    encoded = in_training
    if mlp_only_train:
        encoded = drawn
    assert pooler.at_test == ("mask" if mlp_only_train else None)
    torch.testing.assert_close(module.train()(states), in_training, rtol=0, atol=1e-6)
    torch.testing.assert_close(module.eval()(states), encoded, rtol=0, atol=1e-6)


@pytest.mark.parametrize("pooler", [Mask, MaskMLP])
def test_denoising_needs_the_template_alone(pooler):
    plain = {"mask-token", "template"}
    assert pooler().needs == plain
    assert pooler(denoise=True).needs == {*plain, "template-alone"}
    from_zero = pooler(denoise=True, template_positions="zero")
    assert from_zero.needs == {*plain, "template-alone-from-0"}
    assert pooler(template_positions="zero").needs == plain


def test_the_layer_is_that_of_a_released_model(random_states, tmp_path):
    model = BertModel(
        BertConfig(
            vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2
        )
    )
    torch.nn.init.normal_(model.pooler.dense.bias)
    model.save_pretrained(tmp_path)
    states = random_states([7, 2, 4], width=8)
    pooler = ClsMLP(pretrained=True)
    module = pooler.build(8)
    pooler.load_pretrained(module, tmp_path)
    torch.testing.assert_close(
        module(states), model.pooler(states.last_hidden_state), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("prefix", ["", "bert.", "roberta."])
@pytest.mark.parametrize("layer", ["pooler.dense", "mlp.dense"])
def test_the_layer_is_that_of_the_model_in_the_backbones_directory(
    tmp_path, prefix, layer
):
    weight, bias = torch.arange(6.0).reshape(3, 2), torch.tensor([1.0, -1.0, 0.5])
    other = {
        f"{prefix}pooler.dense.weight": -weight,
        f"{prefix}pooler.dense.bias": -bias,
    }
    chosen = {f"{prefix}{layer}.weight": weight}
    # A sharded model may have a layer's weight and its bias in two files.
    save_file({**other, **chosen}, tmp_path / "model-00001-of-00002.safetensors")
    save_file(
        {f"{prefix}{layer}.bias": bias}, tmp_path / "model-00002-of-00002.safetensors"
    )
    pooler = ClsMLP(pretrained=True, mlp_width=3)
    module = pooler.build(2)
    pooler.load_pretrained(module, tmp_path)
    assert torch.equal(module.dense.weight, weight)
    assert torch.equal(module.dense.bias, bias)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"encoder.weight": torch.eye(2)}, "has no MLP .* take `pretrained` out"),
        (
            {"mlp.dense.weight": torch.eye(2)},
            r'`mlp.dense` .* does not fit (.|\n)*Missing key.* "bias"',
        ),
        (
            {"pooler.dense.weight": torch.eye(3), "pooler.dense.bias": torch.zeros(3)},
            r"`pooler.dense` .* does not fit (.|\n)*size mismatch for weight",
        ),
    ],
)
def test_a_model_without_such_a_layer_is_refused(tmp_path, weights, problem):
    save_file(weights, tmp_path / "model.safetensors")
    pooler = ClsMLP(pretrained=True)
    with pytest.raises(sentbed.ModelError, match=problem):
        pooler.load_pretrained(pooler.build(2), tmp_path)
