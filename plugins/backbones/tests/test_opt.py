from __future__ import annotations

import json

import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones._torch.fast_causal import FastCausal
from sentbed_backbones._torch.opt import OptFamily
from sentbed_backbones.opt import Opt

KINDS = {"opt": 32, "opt-350m": 16}
"""Architectures and the width of their last state."""
TEXTS = (
    "The cat sat on the mat.",
    "Rain falls.",
    "",
    "我们 😀",
    "two small birds sing in the tree",
)


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
    built = Opt(model=str(directory), reuse_prefix=reuse_prefix).build(no_texts)
    reference = transformers.OPTModel.from_pretrained(directory).eval()
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id, side)
    for module in (built.module.eval(), built.inference(built.module, torch.float32)):
        assert_one_by_one(built, module, reference, TEXTS, ids, mask)
    assert built.width == KINDS[kind]
    assert built.shares_prefix == reuse_prefix


@pytest.mark.parametrize("kind", KINDS)
def test_an_input_of_the_longest_length_fits_the_positions(save_model, no_texts, kind):
    built = Opt(model=str(save_model(kind))).build(no_texts)
    assert built.max_length == 40
    ids = torch.full((1, built.max_length), 7)
    for module in (built.module.eval(), built.inference(built.module, torch.float32)):
        assert module(ids, None).last_hidden_state.shape == (1, 40, KINDS[kind])
        with pytest.raises((IndexError, RuntimeError)):
            module(torch.full((1, 41), 7), None)


def test_fp32_weights_are_encoded_in_the_packed_form_and_others_as_they_are(
    save_model, no_texts
):
    directory = str(save_model("opt"))
    built = Opt(model=directory).build(no_texts)
    packed = built.inference(built.module, torch.float32)
    assert any(isinstance(part, FastCausal) for part in packed.modules())
    narrow = Opt(model=directory, dtype="bf16").build(no_texts)
    weights = {id(parameter) for parameter in narrow.module.parameters()}
    assert {
        id(p) for p in narrow.inference(narrow.module, torch.float32).parameters()
    } == weights


def test_the_layers_of_a_350m_cannot_be_averaged_with_its_narrower_last_state(
    save_model, no_texts
):
    directory = str(save_model("opt-350m"))
    with pytest.raises(
        ModelError,
        match=r"is 16 wide, those of its layers are 32.*read the last layer alone",
    ):
        Opt(model=directory, layers="first-last").build(no_texts)


def test_the_weights_of_a_language_model_are_read_without_its_head(
    save_model, no_texts
):
    directory = save_model("opt")
    model = transformers.OPTForCausalLM(
        transformers.AutoConfig.from_pretrained(directory)
    )
    model.save_pretrained(directory)
    weights = Opt(model=str(directory)).build(no_texts).module.model.state_dict()
    assert weights.keys() == model.model.state_dict().keys()
    assert all(
        torch.equal(value, weights[key])
        for key, value in model.model.state_dict().items()
    )


def test_a_tokenizer_in_the_files_of_the_hub_puts_the_start_token_first(
    save_model, no_texts
):
    """facebook/opt-* come as `vocab.json` and `merges.txt`, without `tokenizer.json`."""
    directory = save_model("opt")
    content = json.loads((directory / "tokenizer.json").read_text())
    expected = Opt(model=str(directory)).build(no_texts).tokenizer.encode(TEXTS, 64)
    for file in directory.glob("tokenizer*"):
        file.unlink()
    (directory / "vocab.json").write_text(json.dumps(content["model"]["vocab"]))
    merges = "\n".join(" ".join(pair) for pair in content["model"]["merges"])
    (directory / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    settings = {
        "tokenizer_class": "GPT2Tokenizer",
        "add_bos_token": True,
        "add_prefix_space": False,
    }
    settings |= dict.fromkeys(("bos_token", "eos_token", "unk_token"), "</s>") | {
        "pad_token": "<pad>"
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    backbone = Opt(model=str(directory))
    assert list(backbone.check()) == []
    built = backbone.build(no_texts)
    tokens = built.tokenizer.encode(TEXTS, 64)
    assert tokens.ids.tolist() == expected.ids.tolist()
    assert tokens.offsets.tolist() == expected.offsets.tolist()
    assert {int(tokens.ids[start]) for start in tokens.offsets[:-1]} == {0}
    assert built.tokenizer.pad_id == 1


# --- random weights ----------------------------------------------------------------------------------------


def test_a_random_opt_has_the_size_that_is_asked_for(
    sentences,
):
    for size, layers, width in (("tiny", 2, 128), ("mini", 4, 256)):
        built = Opt(init="random", size=size, vocab_size=300).build(
            BuildContext(lambda: sentences)
        )
        decoder = built.module.model.decoder
        assert len(decoder.layers) == layers
        assert decoder.layers[0].fc1.out_features == 4 * width
        assert built.width == width
        assert torch.isfinite(
            built.module.eval()(torch.arange(300)[None], None).last_hidden_state
        ).all()


class Vocabulary:
    """As much of a tokenizer as a configuration needs, with the vocabulary that was published."""

    pad_token_id, bos_token_id, eos_token_id = 1, 2, 2

    def __len__(self):
        return 50272


PUBLISHED = {
    "125m": 125.2e6,
    "350m": 331.2e6,
    "1.3b": 1.316e9,
    "2.7b": 2.652e9,
    "6.7b": 6.658e9,
    "13b": 12.85e9,
    "30b": 29.97e9,
    "66b": 65.72e9,
}
"""Weights of the checkpoints; the 350M of the name has the embeddings at full width."""


@pytest.mark.parametrize("size", PUBLISHED)
def test_a_named_size_has_as_many_weights_as_was_published(size):
    family = OptFamily(Opt(init="random", size=size), frozenset())
    config = family.config(Vocabulary())
    with torch.device("meta"):
        found = sum(
            parameter.numel()
            for parameter in transformers.OPTModel(config).parameters()
        )
    assert found == pytest.approx(PUBLISHED[size], rel=0.02)
    assert family.width(config) == (512 if size == "350m" else config.hidden_size)


def test_the_350m_has_its_norms_behind_and_none_at_the_end():
    config = OptFamily(Opt(init="random", size="350m"), frozenset()).config(
        Vocabulary()
    )
    with torch.device("meta"):
        decoder = transformers.OPTModel(config).decoder
    assert decoder.final_layer_norm is None
    assert (decoder.project_in.in_features, decoder.project_in.out_features) == (
        512,
        1024,
    )
    assert not decoder.layers[0].do_layer_norm_before


def test_a_trained_tokenizer_frames_texts_as_opts_does(
    sentences,
):
    built = Opt(init="random", vocab_size=320).build(BuildContext(lambda: sentences))
    tokenizer = built.tokenizer.original
    assert tokenizer.convert_ids_to_tokens(range(3)) == ["</s>", "<pad>", "<unk>"]
    assert built.tokenizer.pad_id == 1
    tokens = built.tokenizer.encode(["the 我 cat", ""], 64)
    first, second = (
        tokens.ids[: tokens.offsets[1]].tolist(),
        tokens.ids[tokens.offsets[1] :].tolist(),
    )
    assert second == [0]
    assert first[0] == 0
    assert not {0, 1, 2} & set(first[1:])
    assert tokenizer.backend_tokenizer.decode(first[1:]) == "the 我 cat"
    assert built.module.model.config.vocab_size == len(tokenizer)
    assert built.module.model.config.pad_token_id == 1
