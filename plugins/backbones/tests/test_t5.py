from __future__ import annotations

import attrs
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones._torch.t5 import T5Family
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


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_encoder_states_are_those_of_transformers(
    save_model,
    no_texts,
    padded,
    assert_one_by_one,
    kind,
    side,
):
    directory = save_model(kind)
    built = T5(model=str(directory)).build(no_texts)
    reference = transformers.T5EncoderModel.from_pretrained(directory).eval()
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id, side)
    for module in forms(built):
        states = assert_one_by_one(built, module, reference, TEXTS, ids, mask)
        assert states.decoder_state is None
        assert states.attention_mask is mask
    assert built.width == 32


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_decoders_first_output_is_that_of_transformers(
    save_model,
    with_decoder,
    padded,
    kind,
    side,
):
    directory = save_model(kind)
    built = T5(model=str(directory)).build(with_decoder)
    reference = transformers.T5Model.from_pretrained(directory).eval()
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id, side)
    for module in forms(built):
        states = module(ids, mask)
        assert states.decoder_state.shape == (len(TEXTS), 32)
        for row, text in enumerate(one_by_one(built, TEXTS)):
            expected = reference(input_ids=text, decoder_input_ids=torch.tensor([[0]]))
            found = states.decoder_state[row]
            torch.testing.assert_close(
                found, expected.last_hidden_state[0, 0], rtol=0, atol=1e-5
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


def test_every_weight_gets_a_gradient(
    save_model,
    no_texts,
    with_decoder,
    padded,
):
    for context in (no_texts, with_decoder):
        built = T5(model=str(save_model("t5", str(len(context.needs))))).build(context)
        states = built.module.train()(*padded(built.tokenizer.encode(TEXTS, 64), 0))
        vectors = (
            states.last_hidden_state
            if states.decoder_state is None
            else states.decoder_state
        )
        vectors.square().sum().backward()
        assert [n for n, p in built.module.named_parameters() if p.grad is None] == []


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


@pytest.mark.parametrize(
    "key",
    [
        "encoder.block.1.layer.0.SelfAttention.q.weight",
        "encoder.final_layer_norm.weight",
    ],
)
def test_a_missing_weight_of_the_encoder_is_named_in_both_forms(
    save_model, no_texts, with_decoder, key
):
    directory = save_model("t5")
    save_as(directory, lambda weights: weights.pop(key))
    for context in (no_texts, with_decoder):
        with pytest.raises(
            ModelError, match=f"1 weights missing.*`{key}`; fetch the model again"
        ):
            T5(model=str(directory)).build(context)


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
    for one, other in zip(before, after, strict=True):
        assert all(
            torch.equal(v, other.state_dict()[k]) for k, v in one.state_dict().items()
        )


def test_a_layer_of_the_encoder_that_the_configuration_does_not_count_is_not_dropped(
    save_model, no_texts, edit_json
):
    directory = save_model("t5")
    edit_json(directory / "config.json", num_layers=1)
    with pytest.raises(
        ModelError,
        match=r"0 of another shape, \d+ unused, the first is `encoder.block.1",
    ):
        T5(model=str(directory)).build(no_texts)


def test_texts_may_be_of_any_length(save_model, no_texts):
    built = T5(model=str(save_model("t5"))).build(no_texts)
    assert built.max_length > 100_000
    assert built.module.eval()(
        torch.full((1, 700), 9), None
    ).last_hidden_state.shape == (1, 700, 32)


@pytest.mark.parametrize("kind", KINDS)
def test_the_dropout_can_be_set(save_model, no_texts, kind):
    directory = save_model(kind)
    ids = torch.randint(5, 60, (4, 12))
    for dropout in (0.0, 0.6):
        built = T5(model=str(directory), dropout=dropout).build(no_texts)
        module = built.module.train()
        assert torch.equal(
            *(module(ids, None).last_hidden_state for _ in range(2))
        ) == (dropout == 0)
        assert {p.p for p in module.modules() if isinstance(p, torch.nn.Dropout)} == {
            dropout
        }


# --- random weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("context_needs", [frozenset(), frozenset({"decoder"})])
def test_a_random_t5_is_of_the_version_and_size_that_is_asked_for(
    sentences, version, context_needs
):
    context = BuildContext(lambda: sentences, None, context_needs)
    for size, layers, width in (("tiny", 2, 128), ("mini", 4, 256)):
        built = T5(init="random", size=size, version=version, vocab_size=300).build(
            context
        )
        inner = built.module.model.encoder.block[0].layer[1].DenseReluDense
        assert hasattr(inner, "wi_0") == (version == "1.1")
        assert len(built.module.model.encoder.block) == layers
        assert built.width == width
        states = built.module.eval()(torch.arange(300)[None], None)
        assert torch.isfinite(states.last_hidden_state).all()
        assert (states.decoder_state is None) == (not context_needs)


class Vocabulary:
    """As much of a tokenizer as a configuration needs, with the vocabulary that was published."""

    pad_token_id, bos_token_id, eos_token_id = 0, 1, 1

    def __len__(self):
        return 32128


PUBLISHED = {
    # Of the checkpoints t5-*, and of the encoders in Sentence-T5 (base 110M, large 335M, 3B 1.24B, 11B 4.8B).
    ("1.0", "small"): (60.5e6, 35.3e6),
    ("1.0", "base"): (222.9e6, 110e6),
    ("1.0", "large"): (737.7e6, 335e6),
    ("1.0", "3b"): (2.85e9, 1.24e9),
    ("1.0", "11b"): (11.3e9, 4.8e9),
    # Of the checkpoints t5-v1_1-*, whose output head is not the embedding.
    ("1.1", "small"): (77.0e6, None),
    ("1.1", "base"): (247.6e6, None),
    ("1.1", "large"): (783.2e6, None),
    ("1.1", "3b"): (2.85e9, None),
    ("1.1", "11b"): (11.14e9, None),
}


@pytest.mark.parametrize(("version", "size"), PUBLISHED)
def test_a_named_size_has_as_many_weights_as_was_published(version, size):
    config = T5Family(
        T5(init="random", version=version, size=size), frozenset()
    ).config(Vocabulary())
    whole, encoder = PUBLISHED[version, size]
    head = config.vocab_size * config.d_model if version == "1.1" else 0
    with torch.device("meta"):
        found = count(transformers.T5Model(config))
        found_encoder = count(transformers.T5EncoderModel(config))
    assert found + head == pytest.approx(whole, rel=0.02)
    if encoder is not None:
        assert found_encoder == pytest.approx(encoder, rel=0.02)


def test_a_trained_tokenizer_frames_texts_as_t5s_does(
    sentences,
):
    built = T5(init="random", vocab_size=320).build(BuildContext(lambda: sentences))
    tokenizer = built.tokenizer.original
    assert tokenizer.convert_ids_to_tokens(range(3)) == ["<pad>", "</s>", "<unk>"]
    assert built.tokenizer.pad_id == 0
    ids = built.tokenizer.encode(["the 我 cat", ""], 64)
    first, second = (
        ids.ids[: ids.offsets[1]].tolist(),
        ids.ids[ids.offsets[1] :].tolist(),
    )
    assert second == [1]
    assert first[-1] == 1
    assert not {0, 1, 2} & set(first[:-1])
    assert tokenizer.backend_tokenizer.decode(first[:-1]) == "the 我 cat"
    assert built.tokenizer.encode(["the cat sat on the mat"], 3).ids[-1] == 1
    assert built.module.model.config.vocab_size == len(tokenizer)


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
