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
    prefix, suffix = (
        part.replace("{mask}", built.tokenizer.mask_token) for part in TEMPLATE
    )
    return [f"{prefix}{sentence}{suffix}".strip() for sentence in sentences]


def by_hand(model, tokenizer, prompts, first):
    """Each prompt alone: its mask token's state less that of the template, its end moved by the sentence."""
    begin = tokenizer(TEMPLATE[0].strip(), add_special_tokens=False)["input_ids"]
    end = tokenizer(
        TEMPLATE[1].replace("{mask}", tokenizer.mask_token), add_special_tokens=False
    )["input_ids"]
    rows = []
    for prompt in prompts:
        ids = tokenizer(prompt)["input_ids"]
        assert ids[1 : 1 + len(begin)] == begin
        assert ids[-1 - len(end) : -1] == end
        template = [ids[0], *begin, *end, ids[-1]]
        sentence = len(ids) - len(template)
        places = [first + place for place in range(1 + len(begin))]
        places += [
            first + 1 + len(begin) + sentence + place for place in range(len(end) + 1)
        ]
        state = model(torch.tensor([ids])).last_hidden_state[
            0, ids.index(tokenizer.mask_token_id)
        ]
        alone = model(
            torch.tensor([template]), position_ids=torch.tensor([places])
        ).last_hidden_state
        rows.append(state - alone[0, template.index(tokenizer.mask_token_id)])
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
    for module in (built.module.eval(), built.inference(built.module, torch.float32)):
        with torch.no_grad():
            state = module(*batch).mask_state
        torch.testing.assert_close(state, expected, rtol=1e-4, atol=1e-5)
    plain = Bert(model=str(directory)).build(
        BuildContext(tuple, needs=frozenset({"mask-token"}))
    )
    with torch.no_grad():
        assert (plain.module.eval()(*batch).mask_state - expected).abs().max() > 0.1


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_both_passes_are_trained(save_model, padded, sentences, kind):
    directory = save_model(kind, max_position_embeddings=80)
    built = Bert(model=str(directory), dropout=0.0).build(context("template-alone"))
    batch = padded(
        built.tokenizer.encode(prompted(sentences, built), 60), built.tokenizer.pad_id
    )
    built.module.train()(*batch).mask_state.pow(2).sum().backward()
    model = transformers.AutoModel.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    by_hand(model, tokenizer, prompted(sentences, built), FIRST[kind]).pow(
        2
    ).sum().backward()
    trained = dict(built.model.named_parameters())
    gradients = {
        name: value.grad
        for name, value in model.named_parameters()
        if value.grad is not None
    }
    assert any("position_embeddings" in name for name in gradients)
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        torch.testing.assert_close(
            trained[name].grad, gradient, rtol=1e-4, atol=1e-5 * max(1.0, scale)
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
