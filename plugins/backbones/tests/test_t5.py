from __future__ import annotations

import attrs
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones.t5 import T5

KINDS = ("t5", "t5-1.1")


@pytest.fixture
def with_decoder(no_texts):
    return attrs.evolve(no_texts, needs=frozenset({"decoder"}))


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("init", ["pretrained", "random"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_is_there_only_where_the_pooler_reads_it(
    save_model,
    no_texts,
    with_decoder,
    kind,
    init,
):
    directory = save_model(kind)
    config = transformers.AutoConfig.from_pretrained(directory)
    encoder = T5(model=str(directory), init=init).build(no_texts).module
    both = T5(model=str(directory), init=init).build(with_decoder).module
    assert not [name for name, _ in encoder.named_parameters() if "decoder" in name]
    assert [name for name, _ in both.named_parameters() if "decoder" in name]
    assert count(encoder) == count(transformers.T5EncoderModel(config))
    assert count(both) == count(transformers.T5Model(config))


def save_as(directory, change):
    file = directory / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file, {"format": "pt"})


def test_files_with_only_an_encoder_are_enough_for_its_poolers(
    save_model, no_texts, tmp_path
):
    directory = save_model("t5")
    whole = T5(model=str(directory)).build(no_texts)
    save_as(
        directory,
        lambda w: [w.pop(key) for key in list(w) if key.startswith("decoder.")],
    )
    alone = T5(model=str(directory)).build(no_texts)
    assert alone.module.state_dict().keys() == whole.module.state_dict().keys()
    assert all(
        torch.equal(v, whole.module.state_dict()[k])
        for k, v in alone.module.state_dict().items()
    )


@pytest.mark.parametrize("saved_by", ["us", "transformers"])
def test_files_with_only_an_encoder_are_refused_where_the_decoder_is_read(
    save_model,
    no_texts,
    with_decoder,
    tmp_path,
    saved_by,
):
    directory = save_model("t5")
    if saved_by == "us":
        T5(model=str(directory)).build(no_texts).save(directory)
    else:
        transformers.T5EncoderModel.from_pretrained(directory).save_pretrained(
            directory
        )
    with pytest.raises(ModelError) as caught:
        T5(model=str(directory)).build(with_decoder)
    message = str(caught.value)
    assert "weights missing" in message
    assert message.endswith(
        "name the whole model, or choose a pooler that reads the encoder"
    )


def test_a_missing_weight_of_the_decoder_matters_only_where_it_is_read(
    save_model, no_texts, with_decoder
):
    directory = save_model("t5")
    key = "decoder.block.0.layer.2.DenseReluDense.wi.weight"
    save_as(directory, lambda weights: weights.pop(key))
    T5(model=str(directory)).build(no_texts)
    with pytest.raises(ModelError, match=f"1 weights missing.*`{key}`"):
        T5(model=str(directory)).build(with_decoder)


def test_texts_may_be_of_any_length(save_model, no_texts):
    built = T5(model=str(save_model("t5"))).build(no_texts)
    assert built.max_length > 100_000
    assert built.module.eval()(
        torch.full((1, 700), 9), None
    ).last_hidden_state.shape == (1, 700, 32)


@pytest.mark.parametrize("spread", ["auto", "balanced", "sequential"])
@torch.no_grad()
def test_random_weights_are_spread_over_devices_too(sentences, spread):
    pytest.importorskip("accelerate")
    context = BuildContext(lambda: sentences)
    ids = torch.tensor([[7, 8, 9, 1]])
    mask = torch.ones_like(ids)
    rows = []
    for device_map in (None, spread):
        torch.manual_seed(5)
        backbone = T5(init="random", vocab_size=300, device_map=device_map)
        built = backbone.build(context)
        assert built.dispatched == (device_map is not None)
        states = built.module.eval()(ids, mask)
        rows.append(states.last_hidden_state.cpu())

    assert torch.allclose(*rows, atol=1e-5)
