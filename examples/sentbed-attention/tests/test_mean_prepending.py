from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sentbed
import torch
import transformers
from sentbed.protocols import BlockStates
from sentbed_testing import InterventionContract

from sentbed_attention import MeanPrepending

TEXTS = ("a cat sleeps", "two small birds sing in the old tree", "rain falls on the river")
TEMPLATE = 'In short , this text : <MEAN> "{text}" says'


class TestMeanPrepending(InterventionContract):
    component = MeanPrepending()


@pytest.mark.parametrize("short", [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], ids=["right", "left"])
def test_the_placeholder_gets_the_mean_of_what_is_behind_it(short: list[int]) -> None:
    states = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1, 1], short])
    start = short.index(1)
    last, placeholder = torch.tensor([4, start + 2]), torch.tensor([1, start])
    seen = BlockStates("block-input", 1, states, torch.ones_like(mask), mask, last, placeholder)
    prepended = MeanPrepending().build()(seen)
    for row in range(2):
        behind = states[row, placeholder[row] + 1 : last[row] + 1]
        for place in range(5):
            expected = behind.mean(dim=0) if place == placeholder[row] else states[row, place]
            torch.testing.assert_close(prepended[row, place], expected)


@torch.no_grad()
def test_vectors_are_those_of_a_model_whose_block_is_called_by_hand(tmp_path: Path) -> None:
    intervention = {"use": "mean-prepending"}
    config = transformers.OPTConfig(
        vocab_size=300,
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        word_embed_proj_dim=32,
        max_position_embeddings=64,
    )
    save_opt(config, tmp_path / "opt")
    table: dict[str, Any] = {
        "backbone": {"use": "opt", "model": str(tmp_path / "opt"), "intervention": intervention},
        "pooler": {"use": "last"},
        "prompt": {"template": TEMPLATE},
        "max_length": 16,
    }
    encoder = sentbed.Encoder.of(table)
    vectors = torch.from_numpy(encoder.encode(TEXTS))
    encoder.backbone.save(tmp_path / "saved")
    model = transformers.AutoModel.from_pretrained(tmp_path / "saved").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = tokenizer(TEMPLATE.replace("{text}", text), return_tensors="pt")["input_ids"]
        at = ids[0].tolist().index(tokenizer.convert_tokens_to_ids("<MEAN>"))

        def replaced(_: Any, arguments: tuple[torch.Tensor, ...], at: int = at) -> Any:
            hidden = arguments[0].clone()
            hidden[0, at] = hidden[0, at + 1 :].mean(dim=0)
            return (hidden, *arguments[1:])

        handle = model.decoder.layers[1].register_forward_pre_hook(replaced)
        expected = model(input_ids=ids).last_hidden_state[0, -1]
        handle.remove()
        torch.testing.assert_close(vector, expected, rtol=0, atol=1e-5)
        assert (vector - model(input_ids=ids).last_hidden_state[0, -1]).abs().max() > 1e-3


def save_opt(config: Any, directory: Path) -> None:
    """Save a random OPT, and a tokenizer whose tokens are bytes."""
    import tokenizers

    torch.manual_seed(0)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=290,
        special_tokens=["<pad>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>"
    )
    fast.save_pretrained(directory)
    model: Any = transformers.OPTModel(config)
    for parameter in model.parameters():
        # So large that attention is not uniform.
        parameter.normal_(0, 0.2)
    model.save_pretrained(directory)


def test_an_empty_range_is_refused() -> None:
    (problem,) = MeanPrepending(first=2, exit=2).check()
    assert "set `exit` to more than `first`" in problem
