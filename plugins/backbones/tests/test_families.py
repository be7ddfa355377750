"""What the backbones `bert`, `opt`, `causal` and `t5` have in common."""

from __future__ import annotations

import attrs
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones._torch.bert import BertFamily
from sentbed_backbones._torch.causal import CausalFamily
from sentbed_backbones._torch.opt import OptFamily
from sentbed_backbones._torch.t5 import T5Family
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.static import Static
from sentbed_backbones.t5 import T5

TEXTS = (
    "The cat sat on the mat.",
    "Rain falls.",
    "",
    "我们 😀",
    "A man is playing a guitar while a woman sings.",
)
DECODER = frozenset({"decoder"})


def forms(built):
    return built.module.eval(), built.inference(built.module, torch.float32)


@pytest.mark.parametrize("backbone", [Bert, Static])
def test_a_tokenizer_of_another_model_is_refused(save_model, no_texts, backbone):
    directory = str(save_model(vocab_size=30_522))
    with pytest.raises(
        ModelError, match=r"tokens, and the model has embeddings for 30,522"
    ):
        backbone(model=directory).build(no_texts)


@pytest.mark.parametrize(
    ("backbone", "kind"), [(Bert, "bert"), (Causal, "phi3"), (Causal, "falcon")]
)
@torch.no_grad()
def test_a_known_architecture_that_brings_code_is_loaded_with_transformers_own_class(
    save_model, no_texts, edit_json, tmp_path, backbone, kind
):
    directory = save_model(kind)
    plain = backbone(model=str(directory)).build(no_texts)
    maps = {"AutoConfig": "own.Config", "AutoModel": "own.Model"}
    edit_json(directory / "config.json", auto_map=maps)
    bringing_code = backbone(model=str(directory))
    assert list(bringing_code.check()) == []
    (remark,) = bringing_code.remarks()
    assert "which does not run" in remark

    with pytest.warns(match="brings Python code of its own, which does not run"):
        built = bringing_code.build(no_texts)
    ids = torch.arange(5, 15)[None]
    states = built.module.eval()(ids, None).last_hidden_state
    expected = plain.module.eval()(ids, None).last_hidden_state
    assert torch.equal(states, expected)
    built.save(tmp_path / "saved")
    assert "auto_map" not in (tmp_path / "saved" / "config.json").read_text()


@pytest.mark.parametrize(
    ("backbone", "kind"),
    [
        (Bert, "bert"),
        (Bert, "roberta"),
        (Bert, "xlm-roberta"),
        (Bert, "camembert"),
        (Bert, "mpnet"),
        (Bert, "electra"),
        (Bert, "distilbert"),
        (Opt, "opt"),
        (Opt, "opt-350m"),
        (Causal, "llama"),
    ],
)
@torch.no_grad()
def test_an_input_of_the_longest_length_fits_the_positions(
    save_model, no_texts, backbone, kind
):
    component = backbone(model=str(save_model(kind)))
    built = component.build(no_texts)
    length = built.max_length
    assert component.most_tokens() == length
    assert length == (
        38 if kind in ("roberta", "xlm-roberta", "camembert", "mpnet") else 40
    )
    for module in forms(built):
        states = module(torch.full((1, length), 7), None).last_hidden_state
        assert states.shape == (1, length, built.width)
    if kind != "llama":
        with pytest.raises((IndexError, RuntimeError)):
            built.module(torch.full((1, length + 1), 7), None)


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("backbone", "kind"),
    [
        (Bert, "bert"),
        (Bert, "distilbert"),
        (Causal, "gpt2"),
        (Causal, "llama"),
        (T5, "t5"),
    ],
)
def test_the_dropout_of_states_and_attention_can_be_set(
    save_model, no_texts, backbone, kind
):
    directory = str(save_model(kind))
    ids = torch.randint(5, 60, (4, 12))
    for dropout in (0.0, 0.6):
        module = backbone(model=directory, dropout=dropout).build(no_texts).module
        module.train()
        first, second = (module(ids, None).last_hidden_state for _ in range(2))
        assert torch.equal(first, second) == (dropout == 0)
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                assert part.p == dropout


@pytest.mark.parametrize(
    ("backbone", "kind", "needs"),
    [(Bert, "bert", frozenset()), (T5, "t5", frozenset()), (T5, "t5", DECODER)],
)
def test_every_weight_gets_a_gradient_in_fp32(
    save_model, no_texts, padded, backbone, kind, needs
):
    directory = save_model(kind)
    file = directory / "model.safetensors"
    weights = {key: value.half() for key, value in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})
    context = attrs.evolve(no_texts, needs=needs)
    built = backbone(model=str(directory)).build(context)
    ids, mask = padded(built.tokenizer.encode(TEXTS, 16), built.tokenizer.pad_id)
    states = built.module.train()(ids, mask)
    vectors = states.last_hidden_state
    if needs:
        vectors = states.decoder_state
    vectors.square().sum().backward()
    for name, parameter in built.module.named_parameters():
        assert parameter.dtype == torch.float32, name
        assert parameter.grad is not None, name


@pytest.mark.parametrize(
    ("backbone", "kind", "key"),
    [
        (Bert, "bert", "encoder.layer.1.output.dense.weight"),
        (Bert, "bert", "embeddings.LayerNorm.bias"),
        (Opt, "opt", "decoder.layers.1.fc1.weight"),
        (Causal, "llama", "layers.1.mlp.up_proj.weight"),
        (T5, "t5", "encoder.block.1.layer.0.SelfAttention.q.weight"),
        (T5, "t5", "encoder.final_layer_norm.weight"),
    ],
)
def test_a_missing_weight_is_named_and_not_made_up(
    save_model, no_texts, backbone, kind, key
):
    directory = save_model(kind)
    file = directory / "model.safetensors"
    weights = load_file(file)
    del weights[key]
    save_file(weights, file, {"format": "pt"})
    contexts = [no_texts]
    if backbone is T5:
        contexts.append(attrs.evolve(no_texts, needs=DECODER))
    for context in contexts:
        with pytest.raises(
            ModelError,
            match="1 weights missing, 0 of another shape, 0 unused, the first is "
            f"`{key}`; fetch the model again$",
        ):
            backbone(model=str(directory)).build(context)


@pytest.mark.parametrize(
    ("backbone", "kind", "settings", "layer"),
    [
        (Bert, "bert", {"num_hidden_layers": 1}, "encoder.layer.1"),
        (T5, "t5", {"num_layers": 1}, "encoder.block.1"),
    ],
)
def test_a_layer_that_the_configuration_does_not_count_is_not_dropped(
    save_model, no_texts, edit_json, backbone, kind, settings, layer
):
    directory = save_model(kind)
    edit_json(directory / "config.json", **settings)
    with pytest.raises(
        ModelError,
        match=rf"0 weights missing, 0 of another shape, \d+ unused, .* `{layer}\.",
    ):
        backbone(model=str(directory)).build(no_texts)


# --- random weights ----------------------------------------------------------------------------------------


class Vocabulary:
    """As much of a tokenizer as a configuration needs."""

    pad_token_id, bos_token_id, eos_token_id = 0, 1, 2

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


PUBLISHED = {
    # Turc et al. (2019), with the layer behind [CLS].
    (BertFamily, transformers.BertModel, 30522): {
        Bert(size="tiny"): 4.4e6,
        Bert(size="mini"): 11.3e6,
        Bert(size="small"): 29.1e6,
        Bert(size="medium"): 41.7e6,
        Bert(size="base"): 110.1e6,
        Bert(size="large"): 336e6,
    },
    # The checkpoints; the 350M of the name has the embeddings at full width.
    (OptFamily, transformers.OPTModel, 50272): {
        Opt(size="125m"): 125.2e6,
        Opt(size="350m"): 331.2e6,
        Opt(size="1.3b"): 1.316e9,
        Opt(size="2.7b"): 2.652e9,
        Opt(size="6.7b"): 6.658e9,
        Opt(size="13b"): 12.85e9,
        Opt(size="30b"): 29.97e9,
        Opt(size="66b"): 65.72e9,
    },
    # Touvron et al. (2023), table 2, the head with which it predicts words included.
    (CausalFamily, transformers.LlamaForCausalLM, 32000): {
        Causal(size="7b"): 6.738e9,
        Causal(size="13b"): 13.02e9,
        Causal(size="30b"): 32.53e9,
        Causal(size="65b"): 65.29e9,
    },
    # The checkpoints t5-*.
    (T5Family, transformers.T5Model, 32128): {
        T5(version="1.0", size="small"): 60.5e6,
        T5(version="1.0", size="base"): 222.9e6,
        T5(version="1.0", size="large"): 737.7e6,
        T5(version="1.0", size="3b"): 2.85e9,
        T5(version="1.0", size="11b"): 11.3e9,
        # The checkpoints t5-v1_1-*, less the output head, which is not the embedding.
        T5(version="1.1", size="small"): 77.0e6 - 32128 * 512,
        T5(version="1.1", size="base"): 247.6e6 - 32128 * 768,
        T5(version="1.1", size="large"): 783.2e6 - 32128 * 1024,
        T5(version="1.1", size="3b"): 2.85e9 - 32128 * 2048,
        T5(version="1.1", size="11b"): 11.14e9 - 32128 * 4096,
    },
    # The encoders in Sentence-T5.
    (T5Family, transformers.T5EncoderModel, 32128): {
        T5(version="1.0", size="small"): 35.3e6,
        T5(version="1.0", size="base"): 110e6,
        T5(version="1.0", size="large"): 335e6,
        T5(version="1.0", size="3b"): 1.24e9,
        T5(version="1.0", size="11b"): 4.8e9,
    },
}


@pytest.mark.parametrize("family", PUBLISHED, ids=lambda family: family[1].__name__)
def test_a_named_size_has_as_many_weights_as_was_published(family):
    kind, model_class, vocabulary_size = family
    for backbone, published in PUBLISHED[family].items():
        config = kind(backbone, frozenset()).config(Vocabulary(vocabulary_size))
        with torch.device("meta"):
            model = model_class(config)
        count = sum(parameter.numel() for parameter in model.parameters())
        assert count == pytest.approx(published, rel=0.02), backbone


@pytest.mark.parametrize(
    ("backbone", "specials", "start", "end"),
    [
        (Causal, ["<unk>", "<s>", "</s>"], [1], []),
        (Opt, ["</s>", "<pad>", "<unk>"], [0], []),
        (T5, ["<pad>", "</s>", "<unk>"], [], [1]),
    ],
)
def test_a_trained_tokenizer_frames_texts_as_the_published_one_does(
    sentences, backbone, specials, start, end
):
    context = BuildContext(lambda: sentences)
    built = backbone(init="random", vocab_size=320).build(context)
    tokenizer = built.tokenizer.original
    assert tokenizer.convert_ids_to_tokens(range(3)) == specials
    if "<pad>" in specials:
        assert built.tokenizer.pad_id == specials.index("<pad>")
        assert built.module.model.config.pad_token_id == built.tokenizer.pad_id
    assert built.module.model.config.vocab_size == len(tokenizer)

    tokens = built.tokenizer.encode(["the 我 cat", ""], 64)
    text = tokens.ids[: tokens.offsets[1]].tolist()
    empty = tokens.ids[tokens.offsets[1] :].tolist()
    assert empty == start + end
    inner = text[len(start) : len(text) - len(end)]
    assert text == start + inner + end
    assert min(inner) > 2
    assert tokenizer.backend_tokenizer.decode(inner) == "the 我 cat"
    cut = built.tokenizer.encode(["the cat sat on the mat"], 3).ids.tolist()
    assert cut[: len(start)] == start
    assert cut[len(cut) - len(end) :] == end


@pytest.mark.parametrize("kind", ["bert", "opt", "gpt2"])
def test_fp32_weights_are_encoded_in_a_copy_and_others_as_they_are(
    save_model, backbone_of, no_texts, kind
):
    directory = save_model(kind)
    built = backbone_of(kind, directory).build(no_texts)
    module = built.inference(built.module.train(), torch.bfloat16)
    assert not module.training
    for parameter in module.parameters():
        assert parameter.dtype == torch.bfloat16
        assert not parameter.requires_grad
    assert built.module.training
    for parameter in built.module.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.requires_grad

    narrow = backbone_of(kind, directory, dtype="bf16").build(no_texts)
    encoding = narrow.inference(narrow.module, torch.float32)
    for parameter, same in zip(
        narrow.module.parameters(), encoding.parameters(), strict=True
    ):
        assert parameter is same


def test_the_layers_of_a_350m_cannot_be_averaged_with_its_narrower_last_state(
    save_model, no_texts
):
    with pytest.raises(
        ModelError,
        match=r"is 16 wide, those of its layers are 32.*read the last layer alone",
    ):
        Opt(model=str(save_model("opt-350m")), layers="first-last").build(no_texts)


def test_the_350m_has_its_norms_behind_and_none_at_the_end():
    family = OptFamily(Opt(init="random", size="350m"), frozenset())
    config = family.config(Vocabulary(50272))
    with torch.device("meta"):
        decoder = transformers.OPTModel(config).decoder
    assert decoder.final_layer_norm is None
    assert decoder.project_in.in_features == family.width(config) == 512
    assert not decoder.layers[0].do_layer_norm_before
