"""A tokenizer is saved as it was loaded."""

from __future__ import annotations

import json

import attrs
import pytest
from sentbed_backbones.bert import Bert


@pytest.fixture
def bert(save_model):
    return save_model("bert")


def change(directory, file, **settings):
    content = json.loads((directory / file).read_text())
    (directory / file).write_text(json.dumps(content | settings))


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


@pytest.mark.parametrize(
    ("truncation", "padding"),
    [(None, None), (TRUNCATION, PADDING)],
    ids=["whole", "truncated"],
)
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
