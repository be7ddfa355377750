"""The mask token's state less that of the template alone, held against a loop over the sentences."""

from __future__ import annotations

import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert

TEMPLATE = ("this sentence : ' ", " ' means{mask}.")
FIRST = {"bert": 0, "roberta": 2}
"""Position of a text's first token; padding has 1 in RoBERTa."""


def context(needs, template=TEMPLATE):
    return BuildContext(
        tuple, needs=frozenset({"mask-token", needs}), template=template
    )


def prompted(sentences, built):
    before, behind = TEMPLATE
    behind = behind.replace("{mask}", built.tokenizer.mask_token)
    prompts = []
    for sentence in sentences:
        prompt = f"{before}{sentence}{behind}"
        prompts.append(prompt.strip())

    return prompts


def by_hand(model, tokenizer, prompts, first):
    """Each prompt alone: its mask token's state less that of the template, its end moved by the sentence."""
    before, behind = TEMPLATE
    behind = behind.replace("{mask}", tokenizer.mask_token)
    begin = tokenizer(before.strip(), add_special_tokens=False)["input_ids"]
    end = tokenizer(behind, add_special_tokens=False)["input_ids"]
    mask_id = tokenizer.mask_token_id
    rows = []
    for prompt in prompts:
        ids = tokenizer(prompt)["input_ids"]
        assert ids[1 : 1 + len(begin)] == begin
        assert ids[-1 - len(end) : -1] == end
        template = [ids[0], *begin, *end, ids[-1]]
        sentence = len(ids) - len(template)
        places = []
        for place in range(len(template)):
            moved = 0
            if place > len(begin):
                moved = sentence
            places.append(first + place + moved)

        whole = model(torch.tensor([ids]))
        alone = model(torch.tensor([template]), position_ids=torch.tensor([places]))
        state = whole.last_hidden_state[0, ids.index(mask_id)]
        noise = alone.last_hidden_state[0, template.index(mask_id)]
        rows.append(state - noise)
    return torch.stack(rows)


@pytest.mark.parametrize("need", ["template-alone", "template-alone-from-0"])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_mask_state_is_less_that_of_the_template_alone(
    save_model,
    padded,
    sentences,
    kind,
    need,
):
    directory = save_model(kind, max_position_embeddings=80)
    built = Bert(model=str(directory)).build(context(need))
    tokens = built.tokenizer.encode(prompted(sentences, built), 60)
    assert len(set(tokens.lengths.tolist())) > 1
    batch = padded(tokens, built.tokenizer.pad_id)
    model = transformers.AutoModel.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    first = FIRST[kind] if need == "template-alone" else 0
    with torch.no_grad():
        expected = by_hand(model, tokenizer, prompted(sentences, built), first)
    encoding = built.inference(built.module, torch.float32)
    for module in (built.module.eval(), encoding):
        with torch.no_grad():
            state = module(*batch).mask_state
        torch.testing.assert_close(state, expected, rtol=1e-4, atol=1e-5)

    needs = frozenset({"mask-token"})
    plain = Bert(model=str(directory)).build(BuildContext(tuple, needs=needs))
    with torch.no_grad():
        state = plain.module.eval()(*batch).mask_state
    difference = (state - expected).abs()
    assert difference.max() > 0.1


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_both_passes_are_trained(save_model, padded, sentences, kind):
    directory = save_model(kind, max_position_embeddings=80)
    built = Bert(model=str(directory), dropout=0.0).build(context("template-alone"))
    tokens = built.tokenizer.encode(prompted(sentences, built), 60)
    batch = padded(tokens, built.tokenizer.pad_id)
    states = built.module.train()(*batch)
    states.mask_state.pow(2).sum().backward()
    model = transformers.AutoModel.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    prompts = prompted(sentences, built)
    expected = by_hand(model, tokenizer, prompts, FIRST[kind])
    expected.pow(2).sum().backward()
    trained = dict(built.model.named_parameters())
    gradients = {}
    for name, value in model.named_parameters():
        if value.grad is not None:
            gradients[name] = value.grad

    assert any("position_embeddings" in name for name in gradients)
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        tolerance = 1e-5 * max(1.0, scale)
        torch.testing.assert_close(
            trained[name].grad,
            gradient,
            rtol=1e-4,
            atol=tolerance,
        )


def test_a_model_without_given_positions_is_refused(save_model):
    backbone = Bert(model=str(save_model("roformer", max_position_embeddings=80)))
    with pytest.raises(ModelError, match="takes no positions"):
        backbone.build(context("template-alone"))


def test_a_template_whose_parts_are_joined_without_the_sentence_is_refused(
    save_model,
):
    backbone = Bert(model=str(save_model("bert", max_position_embeddings=80)))
    with pytest.raises(
        ModelError, match=r"does not begin with its first part.*put punctuation"
    ):
        backbone.build(context("template-alone", ("the sen", "tence means{mask}.")))
