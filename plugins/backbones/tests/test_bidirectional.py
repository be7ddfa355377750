"""Decoders whose tokens attend to the whole text."""

from __future__ import annotations

import attrs
import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt

KINDS = ("llama", "llama-grouped", "mistral", "gpt2", "opt", "opt-350m")
TEXTS = (
    "The cat sat on the mat.",
    "Rain falls.",
    "",
    "我们 😀",
    "two small birds sing in the tree",
)


def component(kind):
    return Opt if kind.startswith("opt") else Causal


def backbone(kind, directory, **fields):
    return component(kind)(model=str(directory), attention="bidirectional", **fields)


def forms(built):
    """The module for training, the one for encoding, and the one that a compiler gets."""
    return [
        built.module.eval(),
        built.inference(built.module, torch.float32),
        built.inference(built.module, torch.float32, traceable=True),
    ]


def naive(directory, ids):
    """The embeddings and the output of each block for one text, `(length, width)`, the last after the norm.

    The mask that transformers is given hides only what is beyond a window.
    """
    model = transformers.AutoModel.from_pretrained(
        directory, attn_implementation="eager"
    ).eval()
    places = torch.arange(len(ids))[None]
    mask = torch.zeros(1, 1, len(ids), len(ids))
    window = getattr(model.config, "sliding_window", None)
    if window is not None:
        distance = (places - places.T).abs()
        mask[0, 0, distance > window] = -torch.inf
    output = model(
        input_ids=ids[None],
        attention_mask=mask,
        position_ids=places,
        output_hidden_states=True,
    )
    states = [*output.hidden_states[:-1], output.last_hidden_state]
    return [state[0] for state in states]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_states_are_those_of_transformers_under_a_mask(
    save_model, no_texts, padded, kind, side
):
    directory = save_model(kind)
    built = backbone(kind, directory).build(no_texts)
    tokens = built.tokenizer.encode(TEXTS, 64)
    ids, mask = padded(tokens, built.tokenizer.pad_id, side)
    assert not mask.all()
    for module in forms(built):
        states = module(ids, mask).last_hidden_state
        for row in range(len(TEXTS)):
            text = ids[row][mask[row].bool()]
            expected = naive(directory, text)[-1]
            torch.testing.assert_close(
                states[row][mask[row].bool()], expected, rtol=0, atol=1e-5
            )
            alone = module(text[None], None).last_hidden_state[0]
            torch.testing.assert_close(alone, expected, rtol=0, atol=1e-5)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("layers", [(1,), (2,), (0, 1)], ids=str)
@pytest.mark.parametrize("kind", ["llama", "opt", "mistral"])
@torch.no_grad()
def test_a_pass_that_ends_early_gives_the_states_of_transformers_under_a_mask(
    save_model,
    no_texts,
    padded,
    kind,
    layers,
):
    directory = save_model(kind, num_hidden_layers=3)
    built = backbone(kind, directory, layers=layers).build(no_texts)
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id)
    for module in forms(built):
        padded_states = module(ids, mask).last_hidden_state
        for row in range(len(TEXTS)):
            states = naive(directory, ids[row][mask[row].bool()])
            expected = sum(states[number] for number in layers) / len(layers)
            # A state within the pass is not normalised: it is as large as 2.
            torch.testing.assert_close(
                padded_states[row][mask[row].bool()], expected, rtol=1e-5, atol=1e-5
            )


@pytest.mark.parametrize("kind", ["llama", "opt"])
def test_it_offers_attention_in_both_directions_and_scores_say_so(
    save_model, no_texts, kind
):
    directory = save_model(kind)
    part = backbone(kind, directory)
    causal = attrs.evolve(part, attention="causal")
    assert (part.offers or set()) ^ (causal.offers or set()) == {
        "bidirectional",
        "causal",
    }
    assert "bidirectional" in (part.offers or ())
    assert "behnamghader2024llm2vec" in set(part.cites) - set(causal.cites)
    assert part.build(no_texts).protocol == {"attention": "bidirectional"}
    assert causal.build(no_texts).protocol == {}


@pytest.mark.parametrize("kind", ["llama", "mistral", "opt"])
@torch.no_grad()
def test_transformers_attends_in_both_directions_with_what_is_saved(
    save_model,
    no_texts,
    padded,
    tmp_path,
    kind,
):
    built = backbone(kind, save_model(kind)).build(no_texts)
    built.save(tmp_path / "saved")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "saved").eval()
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id)
    expected = theirs(input_ids=ids, attention_mask=mask).last_hidden_state
    states = built.module.eval()(ids, mask).last_hidden_state
    torch.testing.assert_close(
        states[mask.bool()], expected[mask.bool()], rtol=0, atol=1e-5
    )
    longest = ids[mask.all(1)]
    torch.testing.assert_close(
        built.module(longest, None).last_hidden_state,
        theirs(input_ids=longest).last_hidden_state,
        rtol=0,
        atol=1e-5,
    )


def test_a_random_decoder_can_be_bidirectional(sentences):
    for kind in (Opt, Causal):
        built = kind(init="random", vocab_size=320, attention="bidirectional").build(
            BuildContext(lambda: sentences)
        )
        assert built.protocol == {"attention": "bidirectional"}
        assert built.model.training


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (
            "gpt_neo",
            {
                "hidden_size": 32,
                "num_layers": 2,
                "num_heads": 4,
                "attention_types": [[["global"], 2]],
            },
        ),
        ("openai-gpt", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}),
    ],
)
def test_an_architecture_that_stays_causal_is_refused(
    save_model, no_texts, kind, sizes
):
    directory = save_model("gpt2")
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=320, bos_token_id=0, eos_token_id=0, **sizes
    )
    transformers.AutoModel.from_config(config).save_pretrained(directory)
    part = backbone("causal", directory)
    with pytest.raises(ModelError, match="has no bidirectional attention; take out"):
        part.build(no_texts)
