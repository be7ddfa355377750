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
TEXTS = (
    "The cat sat on the mat.",
    "Rain falls.",
    "",
    "我们 😀",
    "A man is playing a guitar while a woman sings.",
)


@pytest.fixture
def with_decoder(no_texts):
    return attrs.evolve(no_texts, needs=frozenset({"decoder"}))


def forms(built):
    return built.module.eval(), built.inference(built.module, torch.float32)


def one_by_one(built, texts):
    return [
        torch.from_numpy(built.tokenizer.encode([text], 64).ids).long()[None]
        for text in texts
    ]


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_decoders_first_output_is_that_of_transformers(
    save_model,
    with_decoder,
    padded,
    kind,
    side,
    start,
):
    directory = save_model(kind, decoder_start_token_id=start)
    built = T5(model=str(directory)).build(with_decoder)
    reference = transformers.T5Model.from_pretrained(directory).eval()
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id, side)
    for module in forms(built):
        states = module(ids, mask)
        assert states.decoder_state.shape == (len(TEXTS), 32)
        for row, text in enumerate(one_by_one(built, TEXTS)):
            expected = reference(
                input_ids=text, decoder_input_ids=torch.tensor([[start]])
            )
            state = states.decoder_state[row]
            torch.testing.assert_close(
                state, expected.last_hidden_state[0, 0], rtol=0, atol=1e-5
            )
            tokens = states.last_hidden_state[row][mask[row].bool()]
            torch.testing.assert_close(
                tokens, expected.encoder_last_hidden_state[0], rtol=0, atol=1e-5
            )


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


def test_the_published_files_hold_more_than_the_model_and_are_read(
    save_model, no_texts, with_decoder
):
    """Heads, copies of the embeddings, and relative positions of the attention between the two sides."""
    directory = save_model("t5")

    def add(weights):
        for key in (
            "encoder.embed_tokens.weight",
            "decoder.embed_tokens.weight",
            "lm_head.weight",
        ):
            weights[key] = weights["shared.weight"].clone()
        weights[
            "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
        ] = torch.ones(32, 4)

    before = [
        T5(model=str(directory)).build(context).module
        for context in (no_texts, with_decoder)
    ]
    save_as(directory, add)
    after = [
        T5(model=str(directory)).build(context).module
        for context in (no_texts, with_decoder)
    ]
    for module, other in zip(before, after, strict=True):
        assert all(
            torch.equal(v, other.state_dict()[k])
            for k, v in module.state_dict().items()
        )


def test_texts_may_be_of_any_length(save_model, no_texts):
    built = T5(model=str(save_model("t5"))).build(no_texts)
    assert built.max_length > 100_000
    assert built.module.eval()(
        torch.full((1, 700), 9), None
    ).last_hidden_state.shape == (1, 700, 32)


# --- random weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", ["auto", "balanced", "sequential"])
@torch.no_grad()
def test_random_weights_are_spread_over_devices_too(sentences, spread):
    pytest.importorskip("accelerate")
    context = BuildContext(lambda: sentences)
    states = []
    for device_map in (None, spread):
        torch.manual_seed(5)
        built = T5(init="random", vocab_size=300, device_map=device_map).build(context)
        assert built.dispatched == (device_map is not None)
        module = built.module.eval()
        states.append(
            module(
                torch.tensor([[7, 8, 9, 1]]), torch.ones(1, 4, dtype=torch.long)
            ).last_hidden_state.cpu()
        )
    assert torch.allclose(*states, atol=1e-5)


def test_the_start_token_of_a_random_t5_is_the_padding(
    sentences,
):
    context = BuildContext(lambda: sentences, None, frozenset({"decoder"}))
    module = T5(init="random", vocab_size=300).build(context).module.eval()
    ids = torch.tensor([[7, 8, 9]])
    expected = module.model(
        input_ids=ids, decoder_input_ids=torch.tensor([[0]])
    ).last_hidden_state[:, 0]
    torch.testing.assert_close(module(ids, None).decoder_state, expected)
