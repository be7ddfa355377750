"""Echo (arXiv 2402.15449): a sentence twice, pooled over the second time, against a loop in transformers."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
import transformers
from sentbed import Encoder, ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_poolers.template_prompt import TEMPLATES
from sentbed_testing import SENTENCES

LENGTH = 12
"""Tokens of a sentence; one of the texts is longer."""
TEXTS = (
    "A man is playing a guitar",
    'Who said "no"?',
    "Rain falls.",
    "two small birds sing in a tree beside the house where the children play " * 2,
    "the the the",
    "Rewrite the sentence: the sentence",
    "",
)
OWN = 'First "{text}" and then "{text}" again.'
"""A template with text behind the second sentence, and quotation marks that merge with a sentence's own."""
TEMPLATE = {
    "echo": TEMPLATES["echo"],
    "document": TEMPLATES["echo-document"],
    "own": OWN,
}
KINDS = {"opt": Opt, "causal": Causal}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Directories of a random OPT and a random LLaMA."""
    directories = {}
    for kind, cls in KINDS.items():
        torch.manual_seed(3)
        directories[kind] = tmp_path_factory.mktemp("models") / kind
        built = cls(init="random", size="mini", vocab_size=500).build(
            BuildContext(lambda: (*SENTENCES, *TEXTS))
        )
        built.save(directories[kind])
    return directories


def encoder_of(
    model,
    pooler="mean",
    template=OWN,
    runtime=None,
    **backbone,
):
    table = {
        "backbone": {"use": model.name, "model": str(model), **backbone},
        "pooler": {"use": pooler},
        "prompt": {"template": template},
        "max_length": LENGTH,
    }
    return Encoder.of(table, runtime or {"use": "cpu", "threads": 1})


@cache
def loaded(directory):
    model = transformers.AutoModel.from_pretrained(directory).eval()
    return model, transformers.AutoTokenizer.from_pretrained(directory)


@torch.no_grad()
def by_a_loop(directory, pooler, template, texts, layer=-1):
    """One text at a time, pooled as the authors' code does: over the second sentence and what follows it."""
    model, tokenizer = loaded(directory)
    rows = []
    for text in texts:
        offsets = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True
        )["offset_mapping"]
        cut = text[: offsets[LENGTH - 1][1]] if len(offsets) > LENGTH else text
        before, between, behind = template.split("{text}")
        prompt = f"{before}{cut}{between}{cut}{behind}".strip()
        inputs = tokenizer(prompt, return_tensors="pt", return_offsets_mapping=True)
        ends = inputs.pop("offset_mapping")[0, :, 1]
        mask = (ends > len(f"{before}{cut}{between}")).float()
        # Nothing is left of an empty sentence at the end of a prompt: the last token stands for it.
        mask[-1] = 1
        hidden = model(**inputs, output_hidden_states=True).hidden_states[layer][0]
        if pooler == "mean":
            rows.append((hidden * mask[:, None]).sum(0) / mask.sum())
        else:
            rows.append(hidden[mask.nonzero().max()])
    return torch.stack(rows).numpy()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("template", TEMPLATE)
@pytest.mark.parametrize("pooler", ["mean", "last"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_sentence_and_what_follows_it_are_pooled(
    kind,
    pooler,
    template,
    models,
    encoded_batches,
):
    expected = by_a_loop(models[kind], pooler, TEMPLATE[template], TEXTS)
    for reuse in (True, False):
        vectors = encoder_of(
            models[kind], pooler, TEMPLATE[template], reuse_prefix=reuse
        ).encode(TEXTS[:-1])
        np.testing.assert_allclose(vectors, expected[:-1], rtol=0, atol=1e-5)
        if reuse:
            assert min(len(batch.prefix) for batch in encoded_batches) >= 4
        else:
            assert all(batch.prefix is None for batch in encoded_batches)
        encoded_batches.clear()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_sentence_has_a_vector(kind, models):
    for template in TEMPLATE.values():
        expected = by_a_loop(models[kind], "mean", template, TEXTS)
        vectors = encoder_of(models[kind], "mean", template).encode(TEXTS)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)


def test_other_layers_are_read_under_the_same_span(models):
    vectors = encoder_of(models["opt"], layers=[2]).encode(TEXTS)
    np.testing.assert_allclose(
        vectors, by_a_loop(models["opt"], "mean", OWN, TEXTS, 2), rtol=0, atol=1e-5
    )


def test_a_sentence_needs_its_positions_twice(models):
    encoder = encoder_of(models["opt"])
    template = int(encoder.tokenizer().encode([""], LENGTH).lengths[0])
    longest = (encoder.backbone.max_length - template) // 2
    encoder.require_positions(longest)

    with pytest.raises(
        ModelError, match=f"and repeats it; .* set `max_length` to {longest} or less"
    ):
        encoder.require_positions(longest + 1)
