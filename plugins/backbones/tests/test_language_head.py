"""The output embedding against that of transformers' whole model, with random weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext
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


@pytest.mark.parametrize("kind", [*CAUSAL, *MASKED])
def test_the_output_embedding_is_that_of_transformers(
    save_whole, backbone_of, no_texts, kind
):
    directory, whole = save_whole(kind)
    built = backbone_of(kind, directory).build(no_texts)
    embedding = built.output_embedding()
    assert embedding.dtype == np.float32
    expected = whole.get_output_embeddings().weight.detach()
    np.testing.assert_array_equal(embedding, expected.numpy())


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
    assert not backbone.predicts


def test_one_whose_head_is_in_its_files_or_is_its_embedding_says_so():
    assert Opt(init="random").predicts
    assert Causal(model="hub/llama").predicts
    assert Bert(model="hub/bert").predicts


def test_a_backbone_without_a_head_says_what_to_use(sentences):
    built = T5(init="random", vocab_size=320).build(BuildContext(lambda: sentences))
    with pytest.raises(
        ModelError, match="`t5` has no language-modelling head; use a causal one"
    ):
        built.output_embedding()


@pytest.mark.parametrize("tied", [False, True])
def test_a_trained_embedding_is_the_output_embedding_where_both_are_tied(
    save_whole, no_texts, tmp_path, tied
):
    directory, whole = save_whole("llama", tie_word_embeddings=tied)
    backbone = Causal(model=str(directory))
    built = backbone.build(no_texts)
    with torch.no_grad():
        built.model.get_input_embeddings().weight.mul_(2)
    built.save(tmp_path / "saved")
    restored = backbone.build(BuildContext(tuple, tmp_path / "saved"))
    expected = whole.lm_head.weight.detach().numpy() * (1 + tied)
    np.testing.assert_array_equal(built.output_embedding(), expected)
    np.testing.assert_array_equal(restored.output_embedding(), expected)


def test_files_without_the_head_are_refused(save_model, no_texts):
    built = Causal(model=str(save_model("llama", "alone"))).build(no_texts)
    with pytest.raises(
        ModelError, match=r"alone` has no `lm_head\.weight`.*saved with it"
    ):
        built.output_embedding()
