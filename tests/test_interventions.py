"""Token prepending and contrastive prompting, in whole encoders, against loops over a model's blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
import transformers
from random_encoders import random_encoder
from sentbed import Encoder, ModelError
from sentbed._registry.registry import load_plugins
from sentbed.helpers import pad
from sentbed.protocols import BuildContext
from sentbed_poolers.template_prompt import TEMPLATES
from sentbed_studies.study import read_study
from sentbed_testing import SENTENCES
from torch.nn import functional

TEXTS = (
    "A man is playing a guitar",
    'Who said "no"?',
    "Rain falls.",
    "stop!",
    "two small birds in a tree",
)
RULED = (
    "A man is playing a guitar.",
    "Who said 'no'.",
    "Rain falls.",
    "stop!.",
    "two small birds in a tree.",
)
"""The same under the text rules of these papers' code."""
PREPENDED: Mapping[str, str] = {
    "prompt-eol": 'This sentence : <PST> "{text}" means in one word:"',
    "pretended-cot": 'After thinking step by step , this sentence : <PST> "{text}" means in one word:"',
}
"""As the released code of token prepending has them."""
AUXILIARY = 'The irrelevant information of this sentence : "{text}" means in one word:"'

TP = {"use": "token-prepending", "first": 1, "exit": 3}
NS = {"use": "contrastive-prompting", "block": 1, "scale": 3.0}
NR = {"use": "contrastive-prompting", "block": 1, "rule": "norm"}


def built(
    kind,
    intervention,
    prompt=None,
    precision="fp32",
    **more,
):
    """Return a random encoder of four layers; equal seeds give equal weights and tokenizers."""
    backbone = {
        "use": kind,
        "init": "random",
        "size": "mini",
        "vocab_size": 500,
        **more,
    }
    if intervention is not None:
        backbone["intervention"] = intervention
    table = {"backbone": backbone, "pooler": {"use": "prompt-eol"}, "max_length": 24}
    table |= {} if prompt is None else {"prompt": prompt}
    return random_encoder(
        table,
        (*SENTENCES, *TEXTS),
        {"use": "cpu", "threads": 1, "precision": precision},
    )


def keep(point, block, states):
    """Change nothing."""
    return states


@torch.no_grad()
def by_a_loop(model, ids, change, layer=-1):
    """The states `(tokens, width)` of a layer of one text, computed block by block."""
    opt = model.config.model_type == "opt"
    tokens = torch.tensor([ids])
    places = torch.arange(len(ids))[None]
    if opt:
        model = model.decoder
        hidden = model.embed_tokens(tokens) + model.embed_positions.weight[places + 2]
    else:
        hidden = model.embed_tokens(tokens)
        turns = model.rotary_emb(hidden, places)
    heads, width = model.config.num_attention_heads, hidden.shape[-1]
    layer_states = [hidden]
    for number, block in enumerate(model.layers):
        hidden = change("block-input", number, hidden)
        norms = (block.self_attn_layer_norm, block.final_layer_norm) if opt else ()
        norms = norms or (block.input_layernorm, block.post_attention_layernorm)
        normed, attention = norms[0](hidden), block.self_attn
        query, key, value = (
            part(normed).view(1, len(ids), heads, -1).transpose(1, 2)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        if not opt:
            query, key = transformers.models.llama.modeling_llama.apply_rotary_pos_emb(
                query, key, *turns
            )
        scores = query @ key.transpose(2, 3) / math.sqrt(width // heads)
        future = torch.ones(len(ids), len(ids)).triu(1).bool()
        joined = (scores.masked_fill(future, -torch.inf).softmax(-1) @ value).transpose(
            1, 2
        )
        joined = change("attention-heads", number, joined.reshape(1, len(ids), width))
        hidden = hidden + (attention.out_proj if opt else attention.o_proj)(joined)
        normed = norms[1](hidden)
        inner = (
            block.fc2(functional.relu(block.fc1(normed))) if opt else block.mlp(normed)
        )
        hidden = hidden + inner
        layer_states.append(hidden)
    layer_states[-1] = (model.final_layer_norm if opt else model.norm)(layer_states[-1])
    return layer_states[layer][0]


def expected(encoder, kind, template, directory, layer=-1):
    """The vectors of all texts under a method, one by one."""
    encoder.backbone.save(directory)
    model = transformers.AutoModel.from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    rows = []
    for text in RULED:
        ids = tokenizer(template.replace("{text}", text))["input_ids"]
        wrong = tokenizer(AUXILIARY.replace("{text}", text))["input_ids"]
        seen = {}
        prepended = -1
        if kind == "TP":
            prepended = ids.index(tokenizer.convert_tokens_to_ids("<PST>"))

        def prepend(point, block, states, at=prepended):
            if point == "block-input" and 1 <= block < 3:
                states[:, at] = states[:, -1]
            return states

        def remember(
            point,
            block,
            states,
            seen=seen,
        ):
            if (point, block) == ("attention-heads", 1):
                seen["v"] = states[:, -1]
            return states

        def steer(
            point,
            block,
            states,
            seen=seen,
        ):
            if (point, block) == ("attention-heads", 1):
                last = states[:, -1].clone()
                steered = last - seen["v"]
                factor = 3.0 if kind == "NS" else last.norm() / (steered.norm() + 1e-7)
                states[:, -1] = factor * steered
            return states

        by_a_loop(model, wrong, remember)
        change = {"none": keep, "TP": prepend, "NS": steer, "NR": steer}[kind]
        rows.append(by_a_loop(model, ids, change, layer)[-1].numpy())
    return np.stack(rows)


CASES = {
    "none": (None, TEMPLATES["prompt-eol"]),
    "TP": (TP, PREPENDED["prompt-eol"]),
    "NS": (NS, TEMPLATES["prompt-eol"]),
    "NR": (NR, TEMPLATES["prompt-eol"]),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "reuse_prefix", [True, pytest.param(False, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("method", CASES)
@pytest.mark.parametrize("kind", ["opt", "causal"])
def test_vectors_are_those_of_a_loop_over_blocks(kind, method, reuse_prefix, tmp_path):
    intervention, template = CASES[method]
    encoder = built(kind, intervention, reuse_prefix=reuse_prefix)
    vectors = encoder.encode(TEXTS)

    np.testing.assert_allclose(
        vectors, expected(encoder, method, template, tmp_path), rtol=0, atol=1e-5
    )

    if method != "none":
        assert abs(vectors - built(kind, None).encode(TEXTS)).max() > 0.01


@pytest.mark.sweep(2)
@pytest.mark.parametrize("layers", [[3], [-2]], ids=str)
@pytest.mark.parametrize("method", ["TP", "NS"])
@pytest.mark.parametrize("kind", ["opt", "causal"])
def test_it_goes_with_a_pass_that_ends_early(kind, method, layers, tmp_path):
    intervention, template = CASES[method]
    encoder = built(kind, intervention, layers=layers)
    right = expected(encoder, method, template, tmp_path, layers[0])

    np.testing.assert_allclose(encoder.encode(TEXTS), right, rtol=0, atol=1e-5)


def test_a_placeholder_is_put_before_the_quotation_mark_byte_for_byte():
    for name, text in PREPENDED.items():
        encoder = built("opt", TP, {"template": name})
        prompt = encoder.recipe.resolved_prompt
        assert prompt is not None
        assert str(prompt.template) == text
        assert prompt.apply("a") == text.replace("{text}", "a.")
    kept = built(
        "opt", TP, {"template": '<PST> This sentence : "{text}" means in one word:"'}
    )
    assert str(kept.recipe.resolved_prompt.template).startswith("<PST> This")


def test_a_placeholder_goes_to_the_sentence_and_not_to_a_demonstration():
    shown = {"text": "A jockey riding a horse.", "word": "Equestrian"}
    encoder = built("opt", TP, {"demonstration": shown})
    prompt = encoder.recipe.resolved_prompt

    assert prompt is not None
    assert prompt.apply("x") == (
        'This sentence : "A jockey riding a horse." means in one word:"Equestrian".'
        'This sentence : <PST> "x." means in one word:"'
    )


def test_a_shared_prefix_ends_before_the_placeholder(encoded_batches):
    encoder = built("opt", TP)
    encoder.encode(TEXTS)
    token = encoder.backbone.tokenizer.placeholder_id
    before = built("opt", None).tokenizer().original.encode(["This sentence :"], 99).ids

    assert all(
        batch.prefix.tolist()[: len(before)] == before.tolist()
        for batch in encoded_batches
    )
    assert not any(token in batch.prefix for batch in encoded_batches)
    assert all(
        (batch.input_ids == token).sum(1).min() == 1 for batch in encoded_batches
    )


def test_every_row_has_its_own_auxiliary_prompt(encoded_batches):
    built("opt", NS).encode(TEXTS)

    assert sum(len(batch.input_ids) for batch in encoded_batches) == len(TEXTS)
    assert all(
        len(batch.auxiliary.input_ids) == len(batch.input_ids)
        for batch in encoded_batches
    )
    assert all(batch.prefix is not None for batch in encoded_batches)


def test_several_prompts_and_an_intervention_are_the_mean_of_each(
    tmp_path,
):
    names = ("knowledge", "pretended-cot")
    both = built("causal", NS, [{"template": name} for name in names]).encode(TEXTS)
    each = [built("causal", NS, {"template": name}).encode(TEXTS) for name in names]

    np.testing.assert_allclose(both, sum(each) / 2, rtol=0, atol=1e-5)


def test_without_auxiliary_prompts_an_encoder_refuses_to_encode(tmp_path):
    built("opt", NS).save(tmp_path / "e")
    loaded = Encoder.load(tmp_path / "e")
    tokens = loaded.tokenizer().encode(TEXTS, 24)

    with pytest.raises(
        ModelError,
        match="`contrastive-prompting` needs an auxiliary prompt for each text",
    ):
        loaded.placed.encode(pad(tokens, np.arange(len(TEXTS)), 0))


def test_a_block_that_a_model_of_the_hub_does_not_run_is_refused_when_built(
    tmp_path,
):
    encoder = built("opt", None)
    encoder.backbone.save(tmp_path / "opt")
    component = attrs.evolve(
        encoder.recipe.backbone,
        init="pretrained",
        model=str(tmp_path / "opt"),
        layers=(1,),
        intervention=load_plugins().load("intervention", "contrastive-prompting")(
            block=2
        ),
    )

    with pytest.raises(
        ModelError, match="acts at block 2, and the pass ends before block 1"
    ):
        component.build(BuildContext(tuple))


PAPERS = Path(__file__).parent.parent / "recipes" / "papers" / "prompts"


def test_the_papers_cells_have_the_blocks_layers_and_factors_of_their_methods():
    cells = read_study(PAPERS / "interventions.toml", check_files=False).runs
    settings = {}
    for cell in cells:
        backbone = cell.recipe.encoders["encoder"].backbone
        if (intervention := backbone.intervention) is not None:
            scale = (
                intervention.scale
                if getattr(intervention, "rule", "") == "scaled"
                else None
            )
            settings[cell.name] = (
                backbone.layer_numbers,
                sorted({block for _, block in intervention.places}),
                scale,
            )
    early, late, last, half = [1, 2, 3, 4, 5, 6], [6], (27,), [4]

    assert settings == {
        "PromptEOL + TP": (last, early, None),
        "Pretended CoT + TP": (last, early, None),
        "Knowledge + TP": ((-2,), early, None),
        "MetaEOL + TP": (last, early, None),
        "PromptEOL + NS": (last, half, 2.0),
        "PromptEOL + NR": (last, half, None),
        "Pretended CoT + NS": (last, late, 3.0),
        "Pretended CoT + NR": (last, late, None),
        "Knowledge + NS": ((-2,), late, 3.0),
        "Knowledge + NR": ((-2,), late, None),
        "CK + NS": (last, late, 3.0),
        "CK + NR": (last, late, None),
    }
