"""A model's directory, however damaged, loads or is refused by an error that names it."""

from __future__ import annotations

import json
import re
import time

import attrs
import pytest
import torch
from sentbed import DataError, ModelError
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.model_file_checks import MOST_LAYERS, problems_of


@pytest.fixture
def bert(save_model):
    return save_model("bert")


def change(directory, file, **settings):
    content = json.loads((directory / file).read_text())
    (directory / file).write_text(json.dumps(content | settings))


@pytest.mark.sweep(10)
@pytest.mark.parametrize(
    "settings",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": "x"},
        {"hidden_act": "no"},
        {"hidden_size": -1},
        {"hidden_size": 2**63},
        {"model_type": 3},
        {"vocab_size": None},
        {"hidden_size": 10**9},
        {"vocab_size": 10**9},
        {"max_position_embeddings": 10**10},
        {"intermediate_size": 10**10},
        {"dtype": "float33"},
        {"num_hidden_layers": 10**9},
        {"layer_norm_eps": []},
    ],
    ids=str,
)
@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_a_setting_that_no_model_has_is_an_error_and_allocates_nothing(
    settings,
    init,
    bert,
    no_texts,
    monkeypatch,
):
    change(bert, "config.json", **settings)
    monkeypatch.setattr(
        "sentbed_backbones._torch.loading.physical_memory", lambda: 2 * 10**9
    )
    start = time.process_time()
    with pytest.raises(ModelError, match=re.escape(str(bert))):
        Bert(model=str(bert), init=init).build(no_texts)
    assert time.process_time() - start < 5


def test_what_the_weights_need_is_compared_with_the_memory(bert, no_texts, monkeypatch):
    weights = sum(
        weight.numel()
        for weight in Bert(model=str(bert)).build(no_texts).model.parameters()
    )
    module = "sentbed_backbones._torch.loading"
    monkeypatch.setattr(f"{module}.physical_memory", lambda: None)
    # The pooler is dropped after it is built.
    monkeypatch.setattr(f"{module}.memory_limit", lambda: 4 * weights)
    Bert(model=str(bert)).build(no_texts)
    monkeypatch.setattr(f"{module}.memory_limit", lambda: 4 * weights - 1)
    with pytest.raises(ModelError, match=f"has {weights:,} weights by its"):
        Bert(model=str(bert)).build(no_texts)
    Bert(model=str(bert), dtype="bf16").build(no_texts)


def test_comparing_draws_no_random_number(bert, no_texts):
    torch.manual_seed(1)
    Bert(model=str(bert)).build(no_texts)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)


def test_layers_are_counted_before_they_are_built(bert):
    change(bert, "config.json", text_config={"num_hidden_layers": MOST_LAYERS + 1})
    (problem,) = problems_of(bert, needs_weights=True, trust_remote_code=False)
    assert "`num_hidden_layers` = 1e+03, more than 1,000" in problem


@pytest.mark.sweep(10)
@pytest.mark.parametrize(
    "file",
    ["tokenizer.json", "config.json", "model.safetensors", "tokenizer_config.json"],
)
@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b"\xff\xfe"],
    ids=lambda content: repr(content[:8]),
)
def test_a_file_of_another_content_is_an_error(file, content, bert, no_texts):
    (bert / file).write_bytes(content)
    if file == "tokenizer_config.json" and content == b"{}":
        Bert(model=str(bert)).build(no_texts)
        return
    with pytest.raises((ModelError, DataError), match=re.escape(str(bert))) as caught:
        Bert(model=str(bert)).build(no_texts)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_what_is_saved_does_not_depend_on_how_often_it_was_loaded(
    kind, save_model, tmp_path, no_texts
):
    model = str(save_model(kind))
    backbone = (Bert if kind == "bert" else Causal)(model=model)
    once, twice = tmp_path / "once", tmp_path / "twice"
    backbone.build(no_texts).save(once)
    backbone.build(attrs.evolve(no_texts, saved=once)).save(twice)
    names = sorted(file.name for file in once.iterdir())
    assert "tokenizer_config.json" in names
    assert {name: (once / name).read_bytes() for name in names} == {
        file.name: file.read_bytes() for file in twice.iterdir()
    }
    assert b"is_local" not in (once / "tokenizer_config.json").read_bytes()


TRUNCATION = {
    "direction": "Right",
    "max_length": 7,
    "strategy": "LongestFirst",
    "stride": 2,
}
PADDING = {
    "strategy": "BatchLongest",
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 0,
    "pad_type_id": 0,
    "pad_token": "[PAD]",
}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("truncation", [None, TRUNCATION], ids=["whole", "truncated"])
@pytest.mark.parametrize("padding", [None, PADDING], ids=["bare", "padded"])
def test_a_tokenizer_is_saved_as_it_was_loaded_whatever_it_has_done_since(
    truncation, padding, bert, tmp_path, no_texts
):
    change(bert, "tokenizer.json", truncation=truncation, padding=padding)
    saved = None
    contents = []
    for number, length in enumerate((None, 5, 11, 3)):
        built = Bert(model=str(bert)).build(attrs.evolve(no_texts, saved=saved))
        if length is not None:
            tokens = built.tokenizer.encode(["a b c d e f g h i j k l m n"], length)
            assert len(tokens.ids) == length
            built.tokenizer.truncate(["a b c d e f g"], length)
        saved = tmp_path / str(number)
        built.save(saved)
        contents.append({file.name: file.read_bytes() for file in saved.iterdir()})
    assert json.loads(contents[0]["tokenizer.json"])["truncation"] == truncation
    for content in contents[1:]:
        assert content == contents[0]


def test_a_tokenizer_that_was_trained_is_saved_as_one_that_was_loaded(
    tmp_path, no_texts
):
    texts = BuildContext(lambda: ("one two", "three") * 50)
    once, twice = tmp_path / "once", tmp_path / "twice"
    Bert(init="random", vocab_size=100).build(texts).save(once)
    Bert(init="random", vocab_size=100).build(attrs.evolve(no_texts, saved=once)).save(
        twice
    )
    for file in once.iterdir():
        assert file.read_bytes() == (twice / file.name).read_bytes()
