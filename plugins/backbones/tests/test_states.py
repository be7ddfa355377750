"""States against transformers' own pass over one text at a time, for each family and each way to read it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch
import transformers
from sentbed_backbones._torch.token_states import CausalStates, blocks_of
from sentbed_backbones.causal import Causal

TEXTS = (
    "The cat sat on the mat.",
    "Rain falls.",
    "",
    "我们 😀",
    "two small birds sing in the tree",
)
PREFIXES = (
    torch.tensor([21, 22, 23]),
    torch.tensor([24, 22, 23]),
    torch.arange(21, 31),
)
"""Two that are shorter than all windows, and one that is longer."""

T5 = ("t5", "t5-1.1", "t5-start")
ENCODERS = ("bert", "distilbert", "roberta", "xlm-roberta", "electra", *T5)
DECODERS = ("opt", "opt-350m", "llama", "llama-grouped", "gpt2", "mistral")
MORE_DECODERS = ("qwen2", "qwen3", "gemma2", "gemma3", "gptj", "gpt_neox", "mixtral")
KEPT_WINDOWS = ("gemma2", "gemma3", "qwen3", "gptj", "gpt_neox")
"""Decoders whose windows under attention in both directions are held against transformers' own."""

BOTH_WAYS = {"attention": "bidirectional"}
EMBEDDING_GEMMA = "embedding-gemma"


def cases() -> list[tuple[str, dict[str, Any], tuple[str, ...]]]:
    """Return kinds of models, fields of the backbone, and what its pooler needs."""
    every = (*ENCODERS, *DECODERS, *MORE_DECODERS, EMBEDDING_GEMMA)
    rows: list[tuple[str, dict[str, Any], tuple[str, ...]]] = []
    for kind in every:
        rows.append((kind, {}, ()))
    for kind in every:
        if kind != "opt-350m":
            rows.append((kind, {"layers": "first-last"}, ()))
    for kind in ("bert", "t5", "opt", "llama", "gpt2", "mistral"):
        rows.append((kind, {"layers": (0,)}, ()))
        rows.append((kind, {"layers": (1,)}, ()))
        rows.append((kind, {"layers": (-3, 1, 1)}, ()))
        rows.append((kind, {"layers": "last-two"}, ()))
    for kind in ("bert", "distilbert", "t5", "opt", "llama", "gpt2"):
        rows.append((kind, {"layers": "first-last"}, ("layers",)))
    for kind in T5:
        rows.append((kind, {}, ("decoder",)))
    rows.append(("t5", {"layers": "first-last"}, ("decoder", "layers")))
    for kind in (*DECODERS, *KEPT_WINDOWS, EMBEDDING_GEMMA):
        rows.append((kind, BOTH_WAYS, ()))
    for kind in ("llama", "opt", "mistral"):
        for layers in ((1,), (0, 1)):
            rows.append((kind, {"layers": layers, **BOTH_WAYS}, ()))
    return rows


class Reference:
    """A model of transformers that reads one text at a time, without cache and padding."""

    def __init__(self, kind, directory, both_ways):
        config = transformers.AutoConfig.from_pretrained(directory)
        self.masks = both_ways and kind in DECODERS
        options = {}
        if self.masks:
            options["attn_implementation"] = "eager"
        elif both_ways:
            config.is_causal = False
        self.model = transformers.AutoModel.from_pretrained(
            directory, config=config, **options
        ).eval()

    def __call__(self, ids):
        """Return the states of each layer, `(length, width)`, and the decoder's first output."""
        config = self.model.config
        arguments = {"input_ids": ids[None], "output_hidden_states": True}
        if self.masks:
            arguments["position_ids"] = torch.arange(len(ids))[None]
            arguments["attention_mask"] = self.window(len(ids))
        if config.is_encoder_decoder:
            start = getattr(config, "decoder_start_token_id", None) or 0
            start = torch.tensor([[start]])
            output = self.model(**arguments, decoder_input_ids=start)
            last = output.encoder_last_hidden_state
            layers = [*output.encoder_hidden_states[:-1], last]
            decoded = output.last_hidden_state[0, 0]
            return [layer[0] for layer in layers], decoded

        output = self.model(**arguments)
        layers = [*output.hidden_states[:-1], output.last_hidden_state]
        return [layer[0] for layer in layers], None

    def window(self, length):
        """Return a mask that hides only what is beyond a window."""
        mask = torch.zeros(1, 1, length, length)
        window = getattr(self.model.config, "sliding_window", None)
        if window is not None:
            places = torch.arange(length)[None]
            distances = (places - places.T).abs()
            mask[0, 0, distances > window] = -torch.inf
        return mask


def assert_close(actual, expected):
    # Kernels add in orders of their own, and a state within the pass is not normalised.
    largest = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5 * largest)


def assert_rows(states, masks, expected, numbers, needs):
    """The states of each row's real tokens are the mean of these layers of the reference."""
    assert (states.layers is not None) == ("layers" in needs)
    assert (states.decoder_state is not None) == ("decoder" in needs)
    for row, (layers, decoder_state) in enumerate(expected):
        real = masks[row].bool()
        chosen = [layers[number] for number in numbers]
        read = torch.stack(chosen).mean(0)
        actual = states.last_hidden_state[row]
        assert_close(actual[real], read)
        if "layers" in needs:
            assert len(states.layers) == len(layers)
            for layer, right in zip(states.layers, layers, strict=True):
                assert_close(layer[row][real], right)
        if "decoder" in needs:
            assert_close(states.decoder_state[row], decoder_state)


def forms(built):
    """The module for training, the one for encoding, and the one that a compiler gets."""
    return [
        built.module.eval(),
        built.inference(built.module, torch.float32),
        built.inference(built.module, torch.float32, traceable=True),
    ]


@pytest.mark.sweep(10)
@pytest.mark.parametrize(("kind", "fields", "needs"), cases(), ids=str)
@torch.no_grad()
def test_states_are_those_of_transformers(
    save_model, backbone_of, no_texts, padded, kind, fields, needs
):
    directory = save_model(kind)
    backbone = backbone_of(kind, directory, **fields)
    built = backbone.build(attrs.evolve(no_texts, needs=frozenset(needs)))
    numbers = backbone.layer_numbers
    # EmbeddingGemma attends in both directions by its own configuration.
    is_changed = "attention" in fields and kind != EMBEDDING_GEMMA
    reference = Reference(kind, directory, is_changed)
    tokens = built.tokenizer.encode(TEXTS, 64)
    texts = []
    starts, stops = tokens.offsets[:-1], tokens.offsets[1:]
    for start, stop in zip(starts, stops, strict=True):
        ids = torch.from_numpy(tokens.ids[start:stop])
        texts.append(ids.long())
    expected = [reference(text) for text in texts]

    for module in forms(built):
        for side in ("right", "left"):
            ids, mask = padded(tokens, built.tokenizer.pad_id, side)
            assert not mask.all()
            assert_rows(module(ids, mask), mask, expected, numbers, needs)
        first = texts[0]
        alone = module(first[None], None)
        whole = torch.ones(1, len(first))
        assert_rows(alone, whole, expected[:1], numbers, needs)

    is_causal = kind in (*DECODERS, *MORE_DECODERS) and "attention" not in fields
    assert built.shares_prefix == is_causal
    if built.shares_prefix:
        ids, mask = padded(tokens, built.tokenizer.pad_id)
        module = built.inference(built.module, torch.float32)
        for prefix in PREFIXES:
            behind = []
            for text in texts:
                behind.append(reference(torch.cat([prefix, text])))
            whole = torch.nn.functional.pad(mask, (len(prefix), 0), value=1)
            # The second time, the prefix is read from the cache.
            for _ in range(2):
                states = module(ids, mask, prefix)
                assert_rows(states, whole, behind, numbers, needs)
            alone = module(texts[0][None], None, prefix)
            length = len(prefix) + len(texts[0])
            assert_rows(alone, torch.ones(1, length), behind[:1], numbers, needs)


READ: dict[Any, int] = {
    (0,): 0,
    (-2,): 1,
    (1, 0): 1,
    (2,): 2,
    "first-last": 2,
}
"""`layers` -> the number of the two blocks that have to run."""


def parts_of(module):
    """Return the forward passes of transformers in a module."""
    return [part for part in module.modules() if isinstance(part, CausalStates)]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("layers", READ, ids=str)
@pytest.mark.parametrize("kind", ["opt", "llama", "gpt2"])
@torch.no_grad()
def test_no_block_runs_after_the_last_layer_that_is_read(
    save_model, no_texts, kind, layers
):
    built = Causal(model=str(save_model(kind)), layers=layers).build(no_texts)
    for module in forms(built):
        (part,) = parts_of(module)
        calls = []
        for block in blocks_of(part.model):
            block.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        module(torch.tensor([[5, 6, 7]]), None)
        assert len(calls) == READ[layers]


def test_blocks_that_do_not_run_are_neither_trained_nor_lost_when_saved(
    save_model, no_texts, tmp_path
):
    built = Causal(model=str(save_model("llama")), layers=(1,)).build(no_texts)
    ids = torch.tensor([[3, 4, 5]])
    states = built.module.train()(ids, None)
    states.last_hidden_state.square().sum().backward()
    blocks = blocks_of(built.model)
    first, second = blocks
    for parameter in first.parameters():
        assert parameter.grad is not None
    for parameter in second.parameters():
        assert not parameter.requires_grad
    built.save(tmp_path / "saved")
    saved = transformers.AutoModel.from_pretrained(tmp_path / "saved")
    assert saved.config.num_hidden_layers == 2


def test_a_prefix_goes_through_the_model_once(save_model, no_texts):
    built = Causal(model=str(save_model("llama"))).build(no_texts)
    module = built.inference(built.module, torch.float32)
    (part,) = parts_of(module)
    lengths = []
    part.model.get_input_embeddings().register_forward_hook(
        lambda _, inputs, __: lengths.append(inputs[0].shape[1])
    )
    ids = torch.tensor([[5, 6], [7, 8]])
    for _ in range(3):
        module(ids, None, PREFIXES[0])
    assert lengths == [3, 2, 2, 2]
