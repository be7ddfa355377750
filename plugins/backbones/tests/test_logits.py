"""A backbone whose pooler reads the logits of the vocabulary."""

from __future__ import annotations

import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext, EncoderRecipe
from sentbed.tools import load_plugins
from sentbed_backbones.bert import Bert

LOGITS = frozenset({"logits"})
KINDS = ("bert", "roberta", "distilbert", "electra", "modernbert")


@pytest.fixture
def save_with_head(save_model):
    """Save a random masked language model, with its head."""

    def save(kind):
        directory = save_model(kind)
        config = transformers.AutoConfig.from_pretrained(directory)
        model = transformers.AutoModelForMaskedLM.from_config(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, float(parameter.ndim == 1), 0.2)
        model.save_pretrained(directory)
        return directory

    return save


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_states_are_the_logits_of_transformers(
    save_with_head,
    padded,
    sentences,
    tmp_path,
    kind,
):
    directory = save_with_head(kind)
    backbone = Bert(model=str(directory))
    built = backbone.build(BuildContext(tuple, needs=LOGITS))
    built.save(tmp_path / "saved")
    again = backbone.build(BuildContext(tuple, tmp_path / "saved", LOGITS))

    reference = transformers.AutoModelForMaskedLM.from_pretrained(directory).eval()
    tokens = built.tokenizer.encode(sentences, 32)
    ids, mask = padded(tokens, built.tokenizer.pad_id)
    output = reference(input_ids=ids, attention_mask=mask)
    expected = output.logits[mask.bool()]
    modules = [
        built.module.eval(),
        built.inference(built.module, torch.float32),
        again.module.eval(),
    ]
    for module in modules:
        states = module(ids, mask)
        torch.testing.assert_close(
            states.last_hidden_state[mask.bool()], expected, rtol=0, atol=1e-5
        )
    assert built.width == expected.shape[1]


@pytest.mark.parametrize("kind", KINDS)
def test_files_without_a_head_are_refused(save_model, kind):
    backbone = Bert(model=str(save_model(kind)))
    with pytest.raises(ModelError, match="no masked-language-modelling head"):
        backbone.build(BuildContext(tuple, needs=LOGITS))


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
@torch.no_grad()
def test_a_new_head_gives_products_of_normed_states_with_the_embeddings(
    save_model, sentences, tmp_path, kind
):
    directory = str(save_model(kind))
    backbone = Bert(model=directory, masked_head="new")
    built = backbone.build(BuildContext(tuple, needs=LOGITS))
    plain = Bert(model=directory).build(BuildContext(tuple))
    tokens = plain.tokenizer.encode(sentences[:1], 32)
    ids = torch.tensor(tokens.ids).long()[None]
    states = plain.module.eval()(ids, None)
    bent = torch.nn.functional.gelu(states.last_hidden_state)
    normed = torch.nn.functional.layer_norm(bent, bent.shape[-1:], eps=1e-12)
    embeddings = plain.module.model.get_input_embeddings().weight
    logits = built.module.eval()(ids, None)
    torch.testing.assert_close(
        logits.last_hidden_state, normed @ embeddings.T, rtol=0, atol=1e-3
    )

    # Weights of the head that training has changed are read again, and none is filled anew.
    biases = ("predictions.bias", "lm_head.bias", "vocab_projector.bias")
    weights = built.module.named_parameters(remove_duplicate=False)
    for name, weight in weights:
        if name.endswith(biases):
            weight.fill_(0.5)
    built.save(tmp_path / "saved")
    again = backbone.build(BuildContext(tuple, tmp_path / "saved", LOGITS))
    moved = again.module.eval()(ids, None)
    torch.testing.assert_close(
        moved.last_hidden_state, logits.last_hidden_state + 0.5, rtol=0, atol=1e-4
    )


def test_random_weights_have_a_random_head(sentences):
    context = BuildContext(lambda: sentences, needs=LOGITS)
    built = Bert(init="random", vocab_size=200).build(context)
    assert built.width == len(built.tokenizer.original)
    trained = dict(built.module.named_parameters())
    assert any("predictions" in name for name in trained)


def test_layers_to_read_are_refused():
    pooler = load_plugins().load("pooler", "splade")()
    backbone = Bert(init="random", layers=(1,))
    problems = backbone.misfits(EncoderRecipe(backbone, pooler))
    assert "logits of the last layer" in next(problems)
