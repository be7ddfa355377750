"""How weights are held, saved, read again, merged and refused."""

from __future__ import annotations

import json

import attrs
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentbed import ModelError
from sentbed.helpers import sha256
from sentbed.protocols import BuildContext
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5
from torch.nn.functional import cosine_similarity

ONE_EACH = ("bert", "t5", "opt", "llama", "gpt2")
LORA = LoRA(r=4, dropout=0.0)
DECODER = frozenset({"decoder"})
NOTHING: frozenset[str] = frozenset()

MODEL = {"config.json", "model.safetensors"}
TOKENIZER = {"tokenizer.json", "tokenizer_config.json"}
ADAPTER = {"adapter/adapter_config.json", "adapter/adapter_model.safetensors"}


@pytest.fixture
def batch_of(padded, sentences):
    """The sentences, tokenised for a backbone and padded."""

    def batch(built):
        tokens = built.tokenizer.encode(sentences, 32)
        return padded(tokens, built.tokenizer.pad_id)

    return batch


@pytest.fixture
def rebuild(no_texts, tmp_path):
    """Save a built backbone, and build it again from the saved files."""

    def rebuilt(backbone, built, needs=NOTHING):
        built.save(tmp_path / "saved")
        context = attrs.evolve(no_texts, saved=tmp_path / "saved", needs=needs)
        return backbone.build(context)

    return rebuilt


def forms(built):
    return built.module.eval(), built.inference(built.module, torch.float32)


@torch.no_grad()
def vectors(module, ids, mask):
    """The states of all real tokens, and what the decoder gives, in fp32."""
    states = module(ids, mask)
    rows = states.last_hidden_state[mask.bool()].float()
    if states.decoder_state is None:
        return rows
    return torch.cat([rows, states.decoder_state.float()])


def assert_same_vectors(built, other, batch):
    for module, other_module in zip(forms(built), forms(other), strict=True):
        assert torch.equal(vectors(module, *batch), vectors(other_module, *batch))


@torch.no_grad()
def disturb(built):
    """Change all that is trained, as training would."""
    for parameter in built.module.parameters():
        if parameter.requires_grad:
            noise = torch.randn_like(parameter)
            parameter.add_(noise, alpha=0.05)


def files_in(directory):
    names = set()
    for path in directory.rglob("*"):
        if path.is_file():
            names.add(path.relative_to(directory).as_posix())
    return names


def refusal(backbone, context):
    with pytest.raises(ModelError) as caught:
        backbone.build(context)
    return str(caught.value)


# --- what the model lacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "number"), [("bert", -4), ("llama", 3)])
def test_a_layer_that_the_model_does_not_have_is_refused(
    save_model, backbone_of, no_texts, kind, number
):
    backbone = backbone_of(kind, save_model(kind), layers=(1, number))
    problem = (
        f"`layers` has {number}, the model has the embedding output 0 and layers 1 to 2; "
        "choose among them, or count from the last one, -1"
    )
    assert refusal(backbone, no_texts) == problem
    if kind == "llama":
        assert list(backbone.check()) == [problem]


def test_a_layer_that_a_size_does_not_have_is_a_problem_before_anything_is_built():
    backbone = Opt(init="random", size="125m", layers=(1, -14))
    (problem,) = backbone.check()
    assert problem.startswith("`layers` has -14, ")
    assert not list(attrs.evolve(backbone, layers=(12, -2)).check())


def test_a_tokenizer_without_a_mask_token_is_refused_where_one_is_read(
    save_model, no_texts, edit_json
):
    directory = save_model()
    edit_json(directory / "tokenizer_config.json", mask_token=None)
    context = attrs.evolve(no_texts, needs=frozenset({"mask-token"}))
    message = refusal(Bert(model=str(directory)), context)
    assert "reads a mask token, and the tokenizer has none" in message


# --- precision ---------------------------------------------------------------------------------------------

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def mean_cosine(left, right):
    return float(cosine_similarity(left, right).mean())


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("kind", "init", "dtype"),
    [
        ("bert", "pretrained", "fp16"),
        ("t5", "pretrained", "fp16"),
        ("opt", "random", "bf16"),
        ("t5", "pretrained", "bf16"),
        ("llama", "pretrained", "bf16"),
        ("gpt2", "pretrained", "bf16"),
    ],
)
def test_weights_are_held_in_the_precision_that_is_asked_for(
    save_model, backbone_of, no_texts, batch_of, kind, init, dtype
):
    directory = save_model(kind)
    built = backbone_of(kind, directory, dtype=dtype, init=init).build(no_texts)
    for name, parameter in built.module.named_parameters():
        # fp16 overflows in T5's `wo`: transformers holds these weights in fp32.
        if dtype != "fp16" or ".wo." not in name:
            assert parameter.dtype == DTYPES[dtype], name
    assert built.origin["dtype"] == dtype
    batch = batch_of(built)
    training, encoding = forms(built)
    narrow = vectors(encoding, *batch)
    assert torch.equal(narrow, vectors(training, *batch))
    if init == "pretrained":
        plain = backbone_of(kind, directory).build(no_texts)
        assert mean_cosine(narrow, vectors(forms(plain)[0], *batch)) >= 0.999


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", ONE_EACH)
def test_fp32_weights_are_encoded_in_bf16_where_the_runtime_asks(
    save_model, backbone_of, no_texts, batch_of, kind
):
    built = backbone_of(kind, save_model(kind)).build(no_texts)
    batch = batch_of(built)
    wide = vectors(built.inference(built.module, torch.float32), *batch)
    narrow = vectors(built.inference(built.module, torch.bfloat16), *batch)
    assert not torch.equal(wide, narrow)
    assert mean_cosine(wide, narrow) >= 0.999


# --- saved -------------------------------------------------------------------------------------------------


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("kind", "needs", "dtype"),
    [
        ("bert", NOTHING, "fp32"),
        ("t5", DECODER, "fp32"),
        ("opt", NOTHING, "bf16"),
        ("t5-1.1", NOTHING, "fp32"),
        ("opt-350m", NOTHING, "fp32"),
        ("llama", NOTHING, "fp32"),
        ("gpt2", NOTHING, "fp32"),
    ],
)
def test_what_is_saved_is_rebuilt_with_the_same_vectors(
    save_model, backbone_of, no_texts, batch_of, rebuild, tmp_path, kind, needs, dtype
):
    backbone = backbone_of(kind, save_model(kind), dtype=dtype)
    built = backbone.build(attrs.evolve(no_texts, needs=needs))
    disturb(built)
    again = rebuild(backbone, built, needs)
    saved = tmp_path / "saved"
    assert files_in(saved) == MODEL | TOKENIZER
    assert (again.width, again.max_length) == (built.width, built.max_length)
    batch = batch_of(built)
    ids, mask = batch
    other_ids, other_mask = batch_of(again)
    assert torch.equal(ids, other_ids)
    assert torch.equal(mask, other_mask)
    assert_same_vectors(built, again, batch)
    digest = sha256(saved / "model.safetensors")
    assert again.origin["sha256"] == {"model.safetensors": digest}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("lora", [None, LORA], ids=["plain", "lora"])
@pytest.mark.parametrize(
    "backbone",
    [
        Bert(init="random", vocab_size=300),
        T5(init="random", vocab_size=300, version="1.0"),
        Opt(init="random", vocab_size=300),
        Causal(init="random", vocab_size=300, dtype="bf16"),
    ],
    ids=lambda backbone: backbone.name,
)
def test_a_random_backbone_is_rebuilt_without_its_texts(
    sentences, batch_of, rebuild, tmp_path, backbone, lora
):
    backbone = attrs.evolve(backbone, lora=lora)
    built = backbone.build(BuildContext(lambda: sentences))
    disturb(built)
    again = rebuild(backbone, built)
    expected = MODEL | TOKENIZER
    if lora is not None:
        expected |= ADAPTER
    assert files_in(tmp_path / "saved") == expected
    for name in load_file(tmp_path / "saved" / "model.safetensors"):
        assert "lora_" not in name
        assert "base_" not in name
    batch = batch_of(built)
    assert_same_vectors(built, again, batch)
    # What was read is saved once more.
    assert_same_vectors(built, rebuild(backbone, again), batch)


# --- adapters and four bits --------------------------------------------------------------------------------

NF4 = {"quantization": "nf4"}
WIDE = {
    "bert": {"hidden_size": 64},
    "opt": {"hidden_size": 64, "ffn_dim": 128, "word_embed_proj_dim": 64},
}
"""Layers that are wide enough for blocks of 64 weights in 4 bits."""


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("bert", {"lora": LORA}),
        ("opt", {"lora": LORA, "dtype": "bf16"}),
        ("opt", {"lora": LORA, **NF4}),
        ("opt", NF4),
        ("t5", {"lora": LORA}),
        ("t5", {"lora": LORA, **NF4}),
        ("llama", {"lora": LORA}),
        ("llama", {"lora": LORA, **NF4}),
        ("gpt2", {"lora": LORA}),
        ("gpt2", {"lora": LORA, **NF4}),
    ],
    ids=str,
)
def test_over_a_pretrained_model_the_adapter_and_the_hashes_of_the_base_are_saved(
    save_model, backbone_of, no_texts, batch_of, rebuild, tmp_path, kind, fields
):
    directory = save_model(kind, **WIDE.get(kind, {}))
    backbone = backbone_of(kind, directory, **fields)
    assert list(backbone.check()) == []
    built = backbone.build(no_texts)
    disturb(built)
    again = rebuild(backbone, built)
    saved = tmp_path / "saved"
    expected = {"base.json"} | TOKENIZER
    if "lora" in fields:
        expected |= ADAPTER
        content = (saved / "adapter" / "adapter_config.json").read_text()
        assert str(directory) not in content
    assert files_in(saved) == expected
    base = directory / "model.safetensors"
    hashes = {"sha256": {"model.safetensors": sha256(base)}}
    assert json.loads((saved / "base.json").read_text()) == hashes

    batch = batch_of(built)
    assert_same_vectors(built, again, batch)
    bare = attrs.evolve(backbone, lora=None).build(no_texts)
    adapted = vectors(forms(built)[1], *batch)
    unadapted = vectors(forms(bare)[1], *batch)
    is_same = torch.allclose(adapted, unadapted, atol=1e-2)
    assert is_same == ("lora" not in fields)
    for name, parameter in again.module.named_parameters():
        assert parameter.requires_grad == ("lora_" in name)

    weights = load_file(base)
    name = next(iter(weights))
    weights[name].view(-1)[0] += 1
    save_file(weights, base, {"format": "pt"})
    message = refusal(backbone, attrs.evolve(no_texts, saved=saved))
    assert f"was trained on other weights than those of `{directory}`" in message


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_training_goes_on_from_an_adapter_of_peft(
    save_model, backbone_of, no_texts, batch_of, rebuild, tmp_path, kind
):
    directory = save_model(kind)
    first = backbone_of(kind, directory, lora=LORA).build(no_texts)
    disturb(first)
    first.model.save_pretrained(tmp_path / "peft", save_embedding_layers=False)
    backbone = backbone_of(kind, directory, adapter=str(tmp_path / "peft"))
    assert list(backbone.check()) == []
    built = backbone.build(no_texts)
    weights = tmp_path / "peft" / "adapter_model.safetensors"
    assert built.origin["adapter"] == {"adapter_model.safetensors": sha256(weights)}
    batch = batch_of(built)
    assert_same_vectors(first, built, batch)
    disturb(built)
    weights.unlink()
    assert_same_vectors(rebuild(backbone, built), built, batch)


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("kind", "needs"), [("t5", DECODER), *[(kind, NOTHING) for kind in ONE_EACH]]
)
def test_a_merged_backbone_is_a_plain_one_with_the_same_vectors(
    save_model, backbone_of, no_texts, batch_of, rebuild, tmp_path, kind, needs
):
    backbone = backbone_of(kind, save_model(kind), lora=LORA)
    built = backbone.build(attrs.evolve(no_texts, needs=needs))
    disturb(built)
    component, merged = built.merged()
    assert component == attrs.evolve(backbone, lora=None)
    assert merged.origin["merged"] is True
    assert "sha256" not in merged.origin
    again = rebuild(component, merged, needs)
    assert files_in(tmp_path / "saved") == MODEL | TOKENIZER
    batch = batch_of(built)
    expected = vectors(forms(built)[0], *batch)
    for module in (forms(built)[1], *forms(merged), *forms(again)):
        torch.testing.assert_close(vectors(module, *batch), expected, rtol=0, atol=1e-5)


# --- refusals ----------------------------------------------------------------------------------------------

STRANGE = {
    "mamba": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "vocab_size": 200,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "bart": {
        "d_model": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "vocab_size": 200,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 2,
        "decoder_ffn_dim": 2,
    },
}
"""Architectures of no backbone here."""


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("component", "kind", "suitable"),
    [
        (Bert, "t5", "t5"),
        (Bert, "llama", "causal"),
        (T5, "bert", "bert"),
        (Causal, "mamba", None),
        (T5, "opt", "causal"),
        (Opt, "llama", "causal"),
        (Causal, "bert", "bert"),
        (Causal, "t5", "t5"),
        (Bert, "bart", None),
    ],
)
def test_a_model_of_another_kind_is_refused_with_a_way_out(
    save_model, no_texts, component, kind, suitable
):
    if kind in STRANGE:
        directory = save_model("bert")
        config = transformers.AutoConfig.for_model(kind, **STRANGE[kind])
        transformers.AutoModel.from_config(config).save_pretrained(directory)
    else:
        directory = save_model(kind)
    backbone = component(model=str(directory))
    message = refusal(backbone, no_texts)
    expected = f"the model in `{directory}` is a `{kind}`, which the backbone `{component.name}` does not take; "
    assert message.startswith(expected)
    advice = "choose another model"
    if suitable is not None:
        advice += f", or the backbone `{suitable}`"
    assert message.endswith(advice)
    assert refusal(attrs.evolve(backbone, init="random"), no_texts) == message
    assert refusal(backbone, attrs.evolve(no_texts, shapes_only=True)) == message


@pytest.mark.parametrize("component", [Bert, Causal], ids=lambda cls: cls.name)
def test_without_texts_there_is_no_random_backbone(component):
    message = refusal(component(init="random"), BuildContext(tuple))
    assert "there is no text to train a tokenizer on" in message


@pytest.mark.parametrize("kind", ["t5", "gpt2"])
def test_a_text_with_a_token_beyond_the_models_embeddings_is_refused_and_others_are_not(
    save_model, backbone_of, no_texts, sentences, kind
):
    directory = save_model(kind)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    expected = tokenizer(list(sentences))["input_ids"]
    tokenizer.add_tokens(["<unused>"])
    tokenizer.add_special_tokens({"pad_token": "<padding>"})
    tokenizer.save_pretrained(directory)
    size = tokenizer.convert_tokens_to_ids("<unused>")
    built = backbone_of(kind, directory).build(no_texts)
    ids = built.tokenizer.encode(sentences, 64).ids.tolist()
    assert ids == [number for row in expected for number in row]
    assert built.tokenizer.pad_id < size
    message = (
        f"the token '<unused>', number {size}, and the model has embeddings for {size}"
    )
    with pytest.raises(ModelError, match=message):
        built.tokenizer.encode(["a cat", "a <unused> cat"], 64)
    with pytest.raises(ModelError, match=message):
        built.tokenizer.encode_from(["a <unused> cat"], [0])
