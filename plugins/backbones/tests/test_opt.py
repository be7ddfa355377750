from __future__ import annotations

import json

import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed_backbones._torch.opt import OptFamily
from sentbed_backbones.opt import Opt

TEXTS = (
    "The cat sat on the mat.",
    "Rain falls.",
    "",
    "我们 😀",
    "two small birds sing in the tree",
)


def test_fp32_weights_are_encoded_in_a_copy_and_others_as_they_are(
    save_model, no_texts
):
    directory = str(save_model("opt"))
    built = Opt(model=directory).build(no_texts)
    copied = built.inference(built.module, torch.float32)
    originals = {id(parameter) for parameter in built.module.parameters()}
    assert originals.isdisjoint(id(parameter) for parameter in copied.parameters())
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


class Vocabulary:
    """As much of a tokenizer as a configuration needs, with the vocabulary that was published."""

    pad_token_id, bos_token_id, eos_token_id = 1, 2, 2

    def __len__(self):
        return 50272


def test_the_350m_has_its_norms_behind_and_none_at_the_end():
    family = OptFamily(Opt(init="random", size="350m"), frozenset())
    config = family.config(Vocabulary())
    assert family.width(config) == 512
    with torch.device("meta"):
        decoder = transformers.OPTModel(config).decoder
    assert decoder.final_layer_norm is None
    assert (decoder.project_in.in_features, decoder.project_in.out_features) == (
        512,
        1024,
    )
    assert not decoder.layers[0].do_layer_norm_before
