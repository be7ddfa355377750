"""The direction of attention and its windows, read from built models, and states under them."""

from __future__ import annotations

import pytest
import torch
import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones._torch import attention_probe
from sentbed_backbones._torch.attention_probe import (
    Reach,
    attention_of,
    block_reaches,
    prefix_can_be_shared,
    windowed_blocks,
)
from sentbed_backbones._torch.shared_prefix import SharedPrefixStates
from sentbed_backbones._torch.token_states import CausalStates
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.bert import Bert
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


@torch.no_grad()
def test_modernbert_attends_within_its_windows(save_model, no_texts, padded):
    directory = save_model("modernbert")
    built = Bert(model=str(directory)).build(no_texts)
    reference = load(directory)
    assert block_reaches(reference, length=11) == [Reach(3, 3), Reach(5, 5)]
    for module in (built.module.eval(), built.inference(built.module, torch.float32)):
        for prefix in PREFIXES:
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
    # A window of 6 is one of 6 // 2 tokens on each side.
    assert block_reaches(built.model, length=11) == [Reach(3, 3), Reach(5, 5)]
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
    expected = {
        "gemma2": [Reach(5, 5), Reach(6, 6)],
        "gemma3": [Reach(5, 5), Reach(6, 6)],
        "mistral": [Reach(6, 6), Reach(6, 6)],
    }.get(kind, [Reach(6, 6), Reach(6, 6)])
    assert block_reaches(built.model, length=13) == expected
    for prefix in PREFIXES:
        module = built.inference(built.module, torch.float32)
        assert_states_are_those_of_transformers(
            built, module, reference, padded, prefix
        )


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("kind", "reaches", "windowed"),
    [
        ("llama", [(3, 0), (3, 0)], ()),
        ("mistral", [(3, 0), (3, 0)], (True, True)),
        ("gemma3", [(3, 0), (3, 0)], (True, False)),
        ("embedding-gemma", [(3, 3), (3, 3)], (True, False)),
        ("opt", [(3, 0), (3, 0)], ()),
        ("opt-350m", [(3, 0), (3, 0)], ()),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_trial_pass_shows_direction_and_windows_in_every_precision(
    save_model,
    kind,
    reaches,
    windowed,
    dtype,
):
    model = load(save_model(kind)).to(dtype).requires_grad_(False).train()
    window = getattr(model.config, "sliding_window", None)
    random = torch.random.get_rng_state()
    attention = attention_of(model)
    assert list(attention.unpadded) == list(attention.padded) == reaches
    assert windowed_blocks(model) == windowed
    assert prefix_can_be_shared(model) == (kind != "embedding-gemma")
    assert model.training
    assert getattr(model.config, "sliding_window", None) == window
    assert torch.equal(random, torch.random.get_rng_state())
    assert not any(
        module._forward_hooks or module._forward_pre_hooks for module in model.modules()
    )


@torch.no_grad()
def test_a_reach_is_where_another_token_changes_a_state(save_model):
    """By replacing each token in turn, with a single block: the naive reading of the same thing."""
    for kind in ("mistral", "gemma3", "embedding-gemma", "gpt2"):
        settings = {"layer_types": ["sliding_attention"]} if "gemma" in kind else {}
        size = {"n_layer": 1} if kind == "gpt2" else {"num_hidden_layers": 1}
        model = load(save_model(kind, kind, **settings, **size))
        ids = torch.arange(3, 16)[None]
        states = CausalStates(model, False)
        before = states(ids, None).last_hidden_state[0, 6]
        changed = []
        for place in range(13):
            other = ids.clone()
            other[0, place] = 40
            changed.append(
                not torch.equal(states(other, None).last_hidden_state[0, 6], before)
            )
        (reach,) = block_reaches(model, length=13)
        assert changed == [
            6 - reach.before <= place <= 6 + reach.after for place in range(13)
        ]


def test_the_first_blocks_of_each_kind_are_tried(save_model):
    """A pass through the whole of a large model would not be cheap."""
    kinds = [
        "sliding_attention",
        "sliding_attention",
        "full_attention",
        "sliding_attention",
    ]
    model = load(save_model("gemma3", layer_types=kinds, num_hidden_layers=4))
    calls = []
    for number, block in enumerate(model.layers):
        block.register_forward_pre_hook(lambda *_, number=number: calls.append(number))
    assert windowed_blocks(model) == (True, True, False)
    assert calls == [0, 1, 2]
    model = load(save_model("llama", "llama", num_hidden_layers=5))
    assert len(block_reaches(model)) == 2
    # Code of a model's own may do another thing in each block.
    model.config.auto_map = {"AutoModel": "modeling.Own"}
    assert len(block_reaches(model)) == 5


def test_routing_to_experts_is_no_attention_to_later_tokens(
    save_model,
):
    attention = attention_of(load(save_model("mixtral")).bfloat16())
    assert not attention.bidirectional


def test_a_model_without_a_list_of_its_blocks_is_read_as_a_whole(
    save_model, monkeypatch
):
    monkeypatch.setattr(attention_probe, "_blocks_or_none", lambda _: None)
    assert block_reaches(load(save_model("llama", "causal"))) == [Reach(3, 0)]
    assert block_reaches(load(save_model("embedding-gemma", "both"))) == [Reach(3, 3)]


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


def forget_the_cache(block):
    """Let a block's attention go past the cache: its tokens attend to those of their own pass alone."""

    def without_cache(_, arguments, named):
        return arguments, {**named, "past_key_values": None, "attention_mask": None}

    block.self_attn.register_forward_pre_hook(without_cache, with_kwargs=True)


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("layers", "forgetful"), [(12, 1), (12, 3), (32, 1)])
def test_a_prefix_is_not_shared_where_the_last_of_many_blocks_ignore_a_cache(
    save_model, layers, forgetful
):
    model = load(save_model("llama", num_hidden_layers=layers))
    assert prefix_can_be_shared(model)
    for block in model.layers[layers - forgetful :]:
        forget_the_cache(block)
    assert not prefix_can_be_shared(model)


@torch.no_grad()
def test_gemma_3n_shares_a_prefix_although_its_last_blocks_keep_no_keys_of_their_own(
    save_model, no_texts, padded
):
    directory = save_model("gemma3n")
    built = Causal(model=str(directory)).build(no_texts)
    assert built.shares_prefix
    module = built.inference(built.module, torch.float32)
    for prefix in PREFIXES:
        assert_states_are_those_of_transformers(
            built, module, load(directory), padded, prefix
        )


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
    assert "causal" in (Causal(model=str(llama)).traits.offers or ())
    edit_json(llama / "config.json", is_causal=False)
    for directory in (llama, save_model("embedding-gemma", "gemma")):
        part = Causal(model=str(directory))
        assert "bidirectional" in (part.traits.offers or ())
        assert "causal" not in (part.traits.offers or ())
        # It was not made bidirectional afterwards.
        assert "behnamghader2024llm2vec" not in part.traits.cites
        assert not part.shares_prefix
        built = part.build(no_texts)
        assert attention_of(built.model).bidirectional_in_every_block
        assert built.protocol == {"attention": "bidirectional"}
        assert not built.shares_prefix


def test_what_the_configuration_did_not_tell_is_found_when_the_model_is_built(
    save_model, no_texts, monkeypatch
):
    """As with a hub id, whose files are not here when the recipe is checked."""
    directory = save_model("embedding-gemma")
    monkeypatch.setattr(Causal, "_local_config", lambda _: {})
    part = Causal(model=str(directory))
    assert "causal" in (part.traits.offers or ())
    assert part.shares_prefix
    built = part.build(no_texts)
    assert built.protocol == {"attention": "bidirectional"}
    assert not built.shares_prefix
    needy = BuildContext(no_texts.texts, needs=frozenset({"causal"}))
    with pytest.raises(
        ModelError, match=r"the pooler reads the state .* such as `mean`"
    ):
        part.build(needy)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("gemma-flagged", "in both directions in some batches only"),
        ("gemma2-flagged", "to earlier tokens only, although its configuration"),
    ],
)
def test_a_flag_that_transformers_follows_in_part_is_refused_until_the_recipe_says_it(
    save_model, no_texts, kind, reason
):
    """Gemma's masks stay causal, Gemma 2's always and Gemma's with padding in the batch."""
    directory = str(save_model(kind))
    with pytest.raises(
        ModelError, match=rf'{reason}.* set `attention = "bidirectional"`'
    ):
        Causal(model=directory).build(no_texts)
    built = Causal(model=directory, attention="bidirectional").build(no_texts)
    attention = attention_of(built.model)
    assert attention.bidirectional_in_every_block
    assert not attention.depends_on_padding


def test_a_merged_encoder_attends_as_before(save_model, no_texts):
    for kind, both_ways in (("embedding-gemma", True), ("gemma3", False)):
        built = Causal(model=str(save_model(kind, kind)), lora=LoRA(r=2)).build(
            no_texts
        )
        _, merged = built.merged()
        assert (merged.protocol == {"attention": "bidirectional"}) == both_ways
        assert merged.shares_prefix != both_ways
