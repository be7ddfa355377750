"""A tokenizer is saved as it was loaded."""

from __future__ import annotations

import json

import attrs
import pytest
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal


@pytest.fixture
def bert(save_model):
    return save_model("bert")


def change(directory, file, **settings):
    content = json.loads((directory / file).read_text())
    (directory / file).write_text(json.dumps(content | settings))


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
