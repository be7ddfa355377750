from __future__ import annotations

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentbed.protocols import BuildContext
from sentbed_backbones._torch.causal import CausalFamily
from sentbed_backbones._torch.fast_causal import FastCausal
from sentbed_backbones._torch.token_states import SharedPrefixStates
from sentbed_backbones.causal import Causal

KINDS = ("llama", "llama-grouped", "gpt2", "mistral", "opt")
PLAIN = ("gpt2", "mistral")
"""Architectures without a packed form."""
TEXTS = (
    "The cat sat on the mat.",
    "Rain falls.",
    "",
    "我们 😀",
    "two small birds sing in the tree",
)
PREFIX = torch.tensor([21, 22, 23, 24, 25, 26, 27, 28])


def forms(built):
    return built.module.eval(), built.inference(built.module, torch.float32)


def one_by_one(built, texts):
    return [
        torch.from_numpy(built.tokenizer.encode([text], 64).ids).long()[None]
        for text in texts
    ]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("reuse_prefix", [True, False])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_states_are_those_of_transformers_one_text_at_a_time(
    save_model,
    no_texts,
    padded,
    assert_one_by_one,
    kind,
    side,
    reuse_prefix,
):
    directory = save_model(kind)
    built = Causal(model=str(directory), reuse_prefix=reuse_prefix).build(no_texts)
    reference = transformers.AutoModel.from_pretrained(directory).eval()
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id, side)
    assert not mask.all()
    for module in forms(built):
        assert_one_by_one(built, module, reference, TEXTS, ids, mask)
    assert (built.width, built.max_length) == (32, 40)
    assert built.shares_prefix == reuse_prefix


@pytest.mark.parametrize("layers", ["last", "first-last"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_prefix_that_is_computed_once_gives_the_same_states(
    save_model,
    no_texts,
    padded,
    kind,
    layers,
):
    directory = save_model(kind)
    built = Causal(model=str(directory), layers=layers).build(no_texts)
    module = built.inference(built.module, torch.float32)
    reference = transformers.AutoModel.from_pretrained(directory).eval()
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id)
    numbers = {"last": (-1,), "first-last": (1, -1)}[layers]
    for prefix in (PREFIX, PREFIX.flip(0), PREFIX[:5], PREFIX):
        states = module(ids, mask, prefix)
        assert states.attention_mask.shape == (len(TEXTS), len(prefix) + ids.shape[1])
        for row, text in enumerate(one_by_one(built, TEXTS)):
            whole = torch.cat([prefix[None], text], 1)
            hidden = reference(input_ids=whole, output_hidden_states=True).hidden_states
            expected = sum(hidden[number][0] for number in numbers) / len(numbers)
            found = states.last_hidden_state[row][states.attention_mask[row].bool()]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_the_form_for_encoding_is_packed_where_there_is_one(save_model, no_texts):
    for kind in KINDS:
        directory = str(save_model(kind, kind))
        for reuse in (True, False):
            built = Causal(model=directory, reuse_prefix=reuse).build(no_texts)
            module = built.inference(built.module, torch.float32)
            is_packed = any(isinstance(part, FastCausal) for part in module.modules())
            assert is_packed == (kind not in PLAIN)
            assert isinstance(module, SharedPrefixStates) == reuse


@pytest.mark.parametrize("kind", PLAIN)
def test_the_plain_form_for_encoding_is_a_copy(save_model, no_texts, kind):
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
    found = Causal(model=str(directory)).build(no_texts).module.model.state_dict()
    assert found.keys() == weights.keys()
    assert all(torch.equal(value, weights[key]) for key, value in found.items())


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_weights_of_a_language_model_are_read_without_its_head(
    save_model, no_texts, kind
):
    directory = save_model(kind)
    config = transformers.AutoConfig.from_pretrained(directory)
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(directory)
    found = Causal(model=str(directory)).build(no_texts).module.model.state_dict()
    expected = model.base_model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(value, expected[key]) for key, value in found.items())


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_the_dropout_can_be_set(save_model, no_texts, kind):
    directory = save_model(kind)
    ids = torch.randint(5, 60, (4, 12))
    for dropout in (0.0, 0.6):
        built = Causal(model=str(directory), dropout=dropout).build(no_texts)
        module = built.module.train()
        assert torch.equal(
            *(module(ids, None).last_hidden_state for _ in range(2))
        ) == (dropout == 0)


# --- random weights ----------------------------------------------------------------------------------------


def test_a_random_llama_has_the_size_that_is_asked_for(
    sentences,
):
    for size, layers, width in (("tiny", 2, 128), ("mini", 4, 256)):
        built = Causal(init="random", size=size, vocab_size=300).build(
            BuildContext(lambda: sentences)
        )
        assert type(built.module.model) is transformers.LlamaModel
        assert len(built.module.model.layers) == layers
        assert built.width == width
        assert torch.isfinite(
            built.module.eval()(torch.arange(300)[None], None).last_hidden_state
        ).all()


class Vocabulary:
    """As much of a tokenizer as a configuration needs, with the vocabulary that was published."""

    pad_token_id, bos_token_id, eos_token_id = None, 1, 2

    def __len__(self):
        return 32000


PUBLISHED = {"7b": 6.738e9, "13b": 13.02e9, "30b": 32.53e9, "65b": 65.29e9}
"""Weights of LLaMA, the head with which it predicts words included (Touvron et al., 2023, table 2)."""


@pytest.mark.parametrize("size", PUBLISHED)
def test_a_named_size_has_as_many_weights_as_was_published(size):
    config = CausalFamily(Causal(init="random", size=size), frozenset()).config(
        Vocabulary()
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    found = sum(parameter.numel() for parameter in model.parameters())
    assert found == pytest.approx(PUBLISHED[size], rel=0.002)


def test_a_trained_tokenizer_frames_texts_as_llamas_does(
    sentences,
):
    built = Causal(init="random", vocab_size=320).build(BuildContext(lambda: sentences))
    tokenizer = built.tokenizer.original
    assert tokenizer.convert_ids_to_tokens(range(3)) == ["<unk>", "<s>", "</s>"]
    tokens = built.tokenizer.encode(["the 我 cat", ""], 64)
    first, second = (
        tokens.ids[: tokens.offsets[1]].tolist(),
        tokens.ids[tokens.offsets[1] :].tolist(),
    )
    assert second == [1]
    assert first[0] == 1
    assert not {0, 1, 2} & set(first[1:])
    assert tokenizer.backend_tokenizer.decode(first[1:]) == "the 我 cat"
    assert built.module.model.config.vocab_size == len(tokenizer)
