"""The direction of attention, and whether a prefix is shared: by the recipe, the configuration and the model."""

from __future__ import annotations

import attrs
import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.causal import Causal

BOTH_WAYS = {"attention": "bidirectional"}

STAY_CAUSAL = {
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global"], 2]],
    },
    "openai-gpt": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40},
}
LONG_ROTATIONS = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "short_factor": [1.0] * 4,
    "long_factor": [1.0, 2.0, 3.0, 4.0],
    "original_max_position_embeddings": 10,
}


@pytest.fixture
def flagged(save_model, edit_json):
    """Directories of models whose configuration says that they attend in both directions."""
    llama = save_model("llama", "llama")
    edit_json(llama / "config.json", is_causal=False)
    return llama, save_model("embedding-gemma", "gemma")


@pytest.mark.parametrize("kind", ["opt", "llama"])
def test_it_offers_attention_in_both_directions_and_scores_say_so(
    save_model, backbone_of, no_texts, kind
):
    both_ways = backbone_of(kind, save_model(kind), **BOTH_WAYS)
    causal = attrs.evolve(both_ways, attention="causal")
    assert both_ways.offers - causal.offers == {"bidirectional"}
    assert causal.offers - both_ways.offers == {"causal"}
    assert "behnamghader2024llm2vec" in set(both_ways.cites) - set(causal.cites)
    assert both_ways.build(no_texts).protocol == BOTH_WAYS
    assert causal.build(no_texts).protocol == {}


@pytest.mark.parametrize("kind", ["opt", "llama", "mistral"])
@torch.no_grad()
def test_transformers_attends_in_both_directions_with_what_is_saved(
    save_model, backbone_of, no_texts, tmp_path, kind
):
    built = backbone_of(kind, save_model(kind), **BOTH_WAYS).build(no_texts)
    built.save(tmp_path / "saved")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "saved").eval()
    ids = torch.arange(5, 15)[None]
    states = built.module.eval()(ids, None).last_hidden_state
    expected = theirs(input_ids=ids).last_hidden_state
    torch.testing.assert_close(states, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", STAY_CAUSAL)
def test_an_architecture_that_stays_causal_is_refused(save_model, no_texts, kind):
    directory = save_model("gpt2")
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=320, bos_token_id=0, eos_token_id=0, **STAY_CAUSAL[kind]
    )
    transformers.AutoModel.from_config(config).save_pretrained(directory)
    assert not Causal(model=str(directory)).build(no_texts).shares_prefix
    with pytest.raises(ModelError, match="has no bidirectional attention; take out"):
        Causal(model=str(directory), **BOTH_WAYS).build(no_texts)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        # It keeps more than keys and values.
        ("lfm2", {}),
        # Its rotations follow the longest text.
        ("mistral", {"rope_parameters": LONG_ROTATIONS, "sliding_window": None}),
    ],
)
def test_a_prefix_is_not_shared_where_the_states_would_differ(
    save_model, no_texts, kind, settings
):
    built = Causal(model=str(save_model(kind, **settings))).build(no_texts)
    assert built.protocol == {}
    assert not built.shares_prefix


def test_a_prefix_is_not_shared_if_the_recipe_says_so(save_model, no_texts):
    directory = str(save_model("llama"))
    assert not Causal(model=directory, reuse_prefix=False).build(no_texts).shares_prefix


@pytest.mark.slow
def test_a_bidirectional_model_is_refused_under_causal_attention(flagged, no_texts):
    for directory in flagged:
        with pytest.raises(
            ModelError, match=r"attends in both directions .* take `attention` out"
        ):
            Causal(model=str(directory), attention="causal").build(no_texts)


@pytest.mark.slow
def test_by_default_a_model_attends_as_its_configuration_says(flagged, no_texts):
    for directory in flagged:
        backbone = Causal(model=str(directory))
        assert "bidirectional" in backbone.offers
        assert "causal" not in backbone.offers
        # It was not made bidirectional afterwards.
        assert "behnamghader2024llm2vec" not in backbone.cites
        assert not backbone.shares_prefix
        built = backbone.build(no_texts)
        assert built.protocol == BOTH_WAYS
        assert not built.shares_prefix


@pytest.mark.slow
def test_what_the_configuration_did_not_tell_is_found_when_the_model_is_built(
    save_model, no_texts, monkeypatch
):
    """As with a hub id, whose files are not here when the recipe is checked."""
    directory = save_model("embedding-gemma")
    monkeypatch.setattr(Causal, "_local_config", lambda _: {})
    backbone = Causal(model=str(directory))
    assert "causal" in backbone.offers
    built = backbone.build(no_texts)
    assert built.protocol == BOTH_WAYS
    assert not built.shares_prefix
    needs_causal = attrs.evolve(no_texts, needs=frozenset({"causal"}))
    with pytest.raises(
        ModelError, match=r"the pooler reads the state .* such as `mean`"
    ):
        backbone.build(needs_causal)


@pytest.mark.slow
def test_a_merged_encoder_attends_as_before(save_model, no_texts):
    for kind, protocol in (("embedding-gemma", BOTH_WAYS), ("gemma3", {})):
        backbone = Causal(model=str(save_model(kind, kind)), lora=LoRA(r=2))
        _, merged = backbone.build(no_texts).merged()
        assert merged.protocol == protocol
        assert merged.shares_prefix == (protocol == {})
