"""The head's logits against those of transformers' whole model, with random weights."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones._torch import language_head
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5

TEXTS = ("The cat sat on the mat.", "Rain falls.", "two small birds sing in the tree")
CAUSAL = ("opt", "opt-350m", "llama", "llama-grouped", "mistral", "gpt2")
MASKED = ("bert", "roberta", "distilbert", "electra")


@pytest.fixture
def save_whole(save_model):
    """Save a model with its head; every weight is drawn, and no bias is 0."""

    def save(kind, name="model", **config):
        directory = save_model(kind, name, **config)
        auto = (
            transformers.AutoModelForCausalLM
            if kind in CAUSAL
            else transformers.AutoModelForMaskedLM
        )
        model = auto.from_config(transformers.AutoConfig.from_pretrained(directory))
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, float(parameter.ndim == 1), 0.2)
        model.save_pretrained(directory)
        return directory, model.eval()

    return save


def backbone_of(kind, **fields):
    classes = {
        "opt": Opt,
        **dict.fromkeys(CAUSAL[2:], Causal),
        **dict.fromkeys(MASKED, Bert),
    }
    return classes.get(kind.removesuffix("-350m"), Opt)(**fields)


@torch.no_grad()
def both(built, whole):
    """Our logits of the last token of each text, and those of the whole model, one text at a time."""
    ours, theirs = [], []
    for text in TEXTS:
        ids = torch.from_numpy(built.tokenizer.encode([text], 30).ids).long()[None]
        states = built.module.eval()(ids, None).last_hidden_state[:, -1]
        ours.append(states.numpy())
        theirs.append(whole(input_ids=ids).logits[0, -1].numpy())
    return built.logits(np.concatenate(ours)), np.stack(theirs)


@pytest.mark.parametrize("kind", [*CAUSAL, *MASKED])
def test_logits_are_those_of_transformers(save_whole, no_texts, kind):
    directory, whole = save_whole(kind)
    backbone = backbone_of(kind, model=str(directory))
    assert backbone.traits.predicts
    built = backbone.build(no_texts)
    ours, theirs = both(built, whole)
    assert (ours.shape, ours.dtype) == ((len(TEXTS), len(built.vocabulary)), np.float32)
    assert np.ptp(theirs) > 1
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [*CAUSAL, *MASKED])
def test_the_output_embedding_is_that_of_transformers(save_whole, no_texts, kind):
    directory, whole = save_whole(kind)
    built = backbone_of(kind, model=str(directory)).build(no_texts)
    embedding = built.output_embedding()
    assert embedding.dtype == np.float32
    np.testing.assert_array_equal(
        embedding, whole.get_output_embeddings().weight.detach().numpy()
    )
    if kind in CAUSAL:
        states = (
            np.random.default_rng(0).normal(size=(3, built.width)).astype(np.float32)
        )
        np.testing.assert_allclose(
            states @ embedding.T, built.logits(states), atol=1e-5
        )


@pytest.mark.parametrize("tied", [False, True])
def test_a_head_is_tied_to_the_embedding_where_its_configuration_says_so(
    save_whole, no_texts, tied
):
    """After training, a tied head has the trained embedding, and another one is as in the files."""
    directory, whole = save_whole("llama", tie_word_embeddings=tied)
    built = Causal(model=str(directory)).build(no_texts)
    states = np.random.default_rng(0).normal(size=(2, 32)).astype(np.float32)
    before = built.logits(states)
    with torch.no_grad():
        built.model.get_input_embeddings().weight.mul_(2)
        expected = whole.lm_head(torch.from_numpy(states)).numpy()
    np.testing.assert_allclose(before, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        built.logits(states), expected * (1 + tied), rtol=0, atol=1e-5
    )


def test_what_a_model_does_to_its_logits_is_done(save_model, no_texts, tmp_path):
    """Gemma 2 bends its logits; its head is run as transformers runs it."""
    config = transformers.Gemma2Config(
        vocab_size=320, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, intermediate_size=32, final_logit_softcapping=2.0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    whole = transformers.AutoModelForCausalLM.from_config(config).eval()
    for parameter in whole.parameters():
        torch.nn.init.normal_(parameter, float(parameter.ndim == 1), 0.5)
    whole.save_pretrained(tmp_path / "gemma")
    for file in save_model("llama").glob("tokenizer*"):
        shutil.copy(file, tmp_path / "gemma")
    ours, theirs = both(Causal(model=str(tmp_path / "gemma")).build(no_texts), whole)
    assert 1 < np.abs(theirs).max() <= 2
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_a_restored_encoder_has_the_head_of_its_model(save_whole, no_texts, tmp_path):
    directory, whole = save_whole("llama")
    backbone = Causal(model=str(directory))
    backbone.build(no_texts).save(tmp_path / "saved")
    restored = backbone.build(BuildContext(tuple, tmp_path / "saved"))
    np.testing.assert_allclose(*both(restored, whole), rtol=0, atol=1e-5)


def test_a_model_with_an_adapter_has_the_head_of_its_base(save_whole, no_texts):
    directory, whole = save_whole("opt")
    built = Opt(model=str(directory), lora=LoRA(r=2)).build(no_texts)
    np.testing.assert_allclose(
        *both(built, whole), rtol=0, atol=1e-5
    )  # a new adapter changes nothing


def test_a_random_opt_predicts_with_its_embedding(sentences):
    built = Opt(init="random", vocab_size=320).build(BuildContext(lambda: sentences))
    states = np.random.default_rng(0).normal(size=(3, built.width)).astype(np.float32)
    words = built.model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_allclose(
        built.logits(states), states @ words.T, rtol=0, atol=1e-5
    )
    assert built.logits(states[:0]).shape == (0, len(words))


def test_many_states_are_scored_in_parts(sentences, monkeypatch):
    built = Opt(init="random", vocab_size=320).build(BuildContext(lambda: sentences))
    states = np.random.default_rng(0).normal(size=(7, built.width)).astype(np.float32)
    whole = built.logits(states)
    monkeypatch.setattr(language_head, "LOGITS", 2 * whole.shape[1])
    np.testing.assert_allclose(built.logits(states), whole, rtol=0, atol=1e-6)


def test_the_vocabulary_is_the_text_of_each_token(save_whole, no_texts):
    directory, whole = save_whole("opt")
    built = Opt(model=str(directory)).build(no_texts)
    assert len(built.vocabulary) == whole.config.vocab_size
    ids = built.tokenizer.encode(["The cat sat"], 30).ids.tolist()
    assert "".join(built.vocabulary[token] for token in ids[1:]) == "The cat sat"
    assert built.vocabulary[-1] == built.vocabulary[len(built.vocabulary) - 1]
    assert built.vocabulary[:2] == [built.vocabulary[0], built.vocabulary[1]]
    with pytest.raises(IndexError):
        built.vocabulary[len(built.vocabulary)]


@pytest.mark.parametrize(
    "backbone",
    [
        Causal(init="random"),
        Bert(init="random"),
        T5(init="random"),
        Opt(init="random", layers="first-last"),
        Causal(model="hub/llama", layers=(1,)),
    ],
    ids=str,
)
def test_one_without_weights_of_a_head_or_of_other_layers_does_not_say_that_it_predicts(
    backbone,
):
    assert not backbone.traits.predicts


def test_one_whose_head_is_in_its_files_or_is_its_embedding_says_so():
    assert Opt(init="random").traits.predicts
    assert Causal(model="hub/llama").traits.predicts
    assert Bert(model="hub/bert").traits.predicts


def test_files_without_the_head_are_refused_when_it_is_needed(
    save_whole, save_model, no_texts
):
    states = np.zeros((1, 32), np.float32)
    built = Causal(model=str(save_model("llama", "alone"))).build(no_texts)
    with pytest.raises(
        ModelError, match=r"alone` has no `lm_head\.weight`.*saved with it"
    ):
        built.logits(states)
    directory, _ = save_whole("bert")
    file = directory / "model.safetensors"
    weights = load_file(file)
    weights["cls.predictions.transform.dense.bias"] = torch.zeros(7)
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ModelError, match=r"has the shape \(7,\).*\(32,\)"):
        Bert(model=str(directory)).build(no_texts).logits(states)


def test_old_names_of_norms_are_known(save_whole, no_texts):
    """The files of the first BERT call the weight and bias of a norm gamma and beta."""
    directory, whole = save_whole("bert")
    file = directory / "model.safetensors"
    old = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for key, value in load_file(file).items()
    }
    assert "cls.predictions.transform.LayerNorm.gamma" in old
    save_file(old, file, {"format": "pt"})
    np.testing.assert_allclose(
        *both(Bert(model=str(directory)).build(no_texts), whole), rtol=0, atol=1e-5
    )


def test_a_backbone_without_a_head_says_what_to_use(sentences):
    built = T5(init="random", vocab_size=320).build(BuildContext(lambda: sentences))
    with pytest.raises(
        ModelError, match="`t5` has no language-modelling head; use a causal one"
    ):
        built.logits(np.zeros((1, built.width), np.float32))
