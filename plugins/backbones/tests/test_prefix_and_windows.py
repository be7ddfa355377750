"""The direction of attention and its windows, and states behind a shared prefix."""

from __future__ import annotations

import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones._torch.shared_prefix import SharedPrefixStates
from sentbed_backbones._torch.token_states import CausalStates
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt

pytestmark = pytest.mark.slow

PREFIXES = (
    None,
    torch.tensor([21, 22, 23]),
    torch.tensor([21, 22, 23, 24, 25, 26, 27, 28, 29, 30]),
)
"""None; one that is shorter than all windows; one that is longer."""
TEXTS = (
    "two small birds sing in the old tree",
    "Rain falls.",
    "",
    "A man is playing a guitar",
)

CAUSAL = (
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
    "opt",
    "gpt2",
    "gptj",
    "gpt_neox",
    "mixtral",
)
BOTH_WAYS = ("embedding-gemma",)


def backbone(kind, directory, **fields):
    component = Opt if kind == "opt" else Causal
    return component(model=str(directory), **fields)


def load(directory):
    return transformers.AutoModel.from_pretrained(directory).eval()


def with_prefix(ids, prefix):
    if prefix is None:
        return ids
    return torch.cat([prefix.expand(len(ids), -1), ids], 1)


def assert_states_are_those_of_transformers(built, module, reference, padded, prefix):
    """Of a padded batch, of a batch without padding, and of each text alone."""
    ids, mask = padded(built.tokenizer.encode(TEXTS, 64), built.tokenizer.pad_id)
    assert not mask.all()
    longest = ids[mask.all(1)]
    for batch, batch_mask in ((ids, mask), (longest, None)):
        if prefix is not None and built.shares_prefix:
            states = module(batch, batch_mask, prefix).last_hidden_state
        else:
            whole_mask = None
            if batch_mask is not None:
                width = 0 if prefix is None else len(prefix)
                whole_mask = torch.nn.functional.pad(batch_mask, (width, 0), value=1)
            states = module(with_prefix(batch, prefix), whole_mask).last_hidden_state
        for row in range(len(batch)):
            text = (
                batch[row] if batch_mask is None else batch[row][batch_mask[row].bool()]
            )
            whole = with_prefix(text[None], prefix)
            expected = reference(input_ids=whole).last_hidden_state[0]
            torch.testing.assert_close(
                states[row][: len(expected)], expected, rtol=1e-5, atol=1e-5
            )


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", [*CAUSAL, *BOTH_WAYS])
@torch.no_grad()
def test_states_are_those_of_transformers_whatever_the_prefix(
    save_model, no_texts, padded, kind
):
    directory = save_model(kind)
    built = backbone(kind, directory).build(no_texts)
    assert built.shares_prefix == (kind in CAUSAL)
    assert built.protocol == (
        {"attention": "bidirectional"} if kind in BOTH_WAYS else {}
    )
    reference = load(directory)
    for module in (built.module.eval(), built.inference(built.module, torch.float32)):
        for prefix in PREFIXES:
            if prefix is not None and built.shares_prefix and module is built.module:
                continue
            assert_states_are_those_of_transformers(
                built, module, reference, padded, prefix
            )


@pytest.mark.sweep(2)
@pytest.mark.parametrize("attention", [None, "bidirectional"])
@pytest.mark.parametrize("saved_again", [False, True])
@torch.no_grad()
def test_embedding_gemma_keeps_its_own_windows(
    save_model,
    no_texts,
    padded,
    tmp_path,
    attention,
    saved_again,
):
    directory = save_model("embedding-gemma")
    built = backbone("embedding-gemma", directory, attention=attention).build(no_texts)
    reference = load(directory)
    if saved_again:
        built.save(tmp_path / "again")
        reference = load(tmp_path / "again")
        built = backbone(
            "embedding-gemma", tmp_path / "again", attention=attention
        ).build(no_texts)
    assert not built.shares_prefix
    for prefix in PREFIXES:
        module = built.inference(built.module, torch.float32)
        assert_states_are_those_of_transformers(
            built, module, reference, padded, prefix
        )


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "kind", ["gemma2", "gemma3", "mistral", "qwen3", "gptj", "gpt_neox"]
)
@torch.no_grad()
def test_a_window_stays_under_bidirectional_attention_as_transformers_has_it(
    save_model, no_texts, padded, kind
):
    directory = save_model(kind)
    built = backbone(kind, directory, attention="bidirectional").build(no_texts)
    config = transformers.AutoConfig.from_pretrained(directory)
    config.is_causal = False
    reference = transformers.AutoModel.from_pretrained(directory, config=config).eval()
    for prefix in PREFIXES:
        module = built.inference(built.module, torch.float32)
        assert_states_are_those_of_transformers(
            built, module, reference, padded, prefix
        )


def test_a_prefix_is_not_shared_by_a_model_that_keeps_more_than_keys_and_values(
    save_model, no_texts
):
    built = Causal(model=str(save_model("lfm2"))).build(no_texts)
    assert built.protocol == {}
    assert not built.shares_prefix


def test_a_prefix_is_not_shared_by_a_model_that_ignores_a_cache(save_model, no_texts):
    directory = save_model("gpt2")
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
    config = transformers.AutoConfig.for_model("openai-gpt", vocab_size=320, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(directory)
    assert not Causal(model=str(directory)).build(no_texts).shares_prefix


@torch.no_grad()
def test_a_prefix_is_not_shared_under_rotations_that_follow_the_longest_text(
    save_model, no_texts
):
    scaling = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "short_factor": [1.0] * 4,
        "long_factor": [1.0, 2.0, 3.0, 4.0],
        "original_max_position_embeddings": 10,
    }
    directory = save_model("mistral", rope_parameters=scaling, sliding_window=None)
    built = Causal(model=str(directory)).build(no_texts)
    assert not built.shares_prefix
    states = CausalStates(load(directory), False)
    ids = torch.arange(3, 18)[None]
    behind = SharedPrefixStates(states)(ids[:, 5:], None, ids[0, :5])
    difference = behind.last_hidden_state - states(ids, None).last_hidden_state
    assert difference.abs().max() > 1e-3


# --- what the recipe says, and what the model does ---------------------------------------------------------


def test_a_bidirectional_model_is_refused_under_causal_attention(
    save_model, no_texts, edit_json
):
    llama = save_model("llama", "llama")
    edit_json(llama / "config.json", is_causal=False)
    for directory in (llama, save_model("embedding-gemma", "gemma")):
        with pytest.raises(
            ModelError, match=r"attends in both directions .* take `attention` out"
        ):
            Causal(model=str(directory), attention="causal").build(no_texts)


def test_by_default_a_model_attends_as_its_configuration_says(
    save_model, no_texts, edit_json
):
    llama = save_model("llama", "llama")
    assert "causal" in (Causal(model=str(llama)).offers or ())
    edit_json(llama / "config.json", is_causal=False)
    for directory in (llama, save_model("embedding-gemma", "gemma")):
        part = Causal(model=str(directory))
        assert "bidirectional" in (part.offers or ())
        assert "causal" not in (part.offers or ())
        # It was not made bidirectional afterwards.
        assert "behnamghader2024llm2vec" not in part.cites
        assert not part.shares_prefix
        built = part.build(no_texts)
        assert built.protocol == {"attention": "bidirectional"}
        assert not built.shares_prefix


def test_what_the_configuration_did_not_tell_is_found_when_the_model_is_built(
    save_model, no_texts, monkeypatch
):
    """As with a hub id, whose files are not here when the recipe is checked."""
    directory = save_model("embedding-gemma")
    monkeypatch.setattr(Causal, "_local_config", lambda _: {})
    part = Causal(model=str(directory))
    assert "causal" in (part.offers or ())
    assert part.shares_prefix
    built = part.build(no_texts)
    assert built.protocol == {"attention": "bidirectional"}
    assert not built.shares_prefix
    needy = BuildContext(no_texts.texts, needs=frozenset({"causal"}))
    with pytest.raises(
        ModelError, match=r"the pooler reads the state .* such as `mean`"
    ):
        part.build(needy)


def test_a_merged_encoder_attends_as_before(save_model, no_texts):
    for kind, both_ways in (("embedding-gemma", True), ("gemma3", False)):
        built = Causal(model=str(save_model(kind, kind)), lora=LoRA(r=2)).build(
            no_texts
        )
        _, merged = built.merged()
        assert (merged.protocol == {"attention": "bidirectional"}) == both_ways
        assert merged.shares_prefix != both_ways
