from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import transformers
from sentbed import ModelError
from sentbed.protocols import TokenIds
from sentbed_backbones._torch.tokenizer import BulkTokenizer, train_wordpiece

SaveModel = Callable[..., Path]

AWKWARD = (
    "",
    " ",
    "\n\t",
    "a",
    "The cat sat on the mat.",
    "😀👩‍👩‍👧‍👦 the cat 🇸🇪",
    "我们在测试句子编码器。",
    "naïve café Å ﬁ",
    "مرحبا بالعالم",
    "zero\u200bwidth\u00adhyphen\x00null\ufffd",
    "[CLS] literal [MASK] specials [PAD]",
    "dog " * 3000,
    "a" * 5000,
)


def rows_of(tokens: TokenIds) -> list[list[int]]:
    return [tokens.ids[start:stop].tolist() for start, stop in pairwise(tokens.offsets)]


@pytest.fixture
def load(
    save_model: SaveModel,
) -> Callable[[str], tuple[BulkTokenizer, transformers.PreTrainedTokenizerBase]]:
    """A tokenizer in bulk form, and the same once more to compare with."""

    def pair(kind: str) -> tuple[BulkTokenizer, transformers.PreTrainedTokenizerBase]:
        directory = save_model(kind)
        one, two = (transformers.AutoTokenizer.from_pretrained(directory) for _ in range(2))
        return BulkTokenizer(one), two

    return pair


@pytest.mark.parametrize("max_length", [3, 8, 512])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_ids_are_those_of_transformers(load: Callable, kind: str, max_length: int) -> None:
    ours, theirs = load(kind)
    expected = [theirs(text, truncation=True, max_length=max_length)["input_ids"] for text in AWKWARD]
    tokens = ours.encode(AWKWARD, max_length)
    assert rows_of(tokens) == expected
    assert tokens.lengths.tolist() == [len(row) for row in expected]
    assert tokens.ids.dtype == np.int32
    assert tokens.offsets.dtype == np.int64


def test_one_call_does_not_bind_the_length_of_the_next(load: Callable) -> None:
    ours, _ = load("bert")
    long = rows_of(ours.encode(AWKWARD, 64))
    ours.encode(AWKWARD, 4)
    assert rows_of(ours.encode(AWKWARD, 64)) == long


def test_padding_written_in_the_tokenizers_file_is_switched_off(save_model: SaveModel) -> None:
    directory = save_model("bert")
    file = directory / "tokenizer.json"
    padding = {
        "strategy": {"Fixed": 32},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    file.write_text(json.dumps(json.loads(file.read_text()) | {"padding": padding}))
    tokenizer = BulkTokenizer(transformers.AutoTokenizer.from_pretrained(directory))
    assert tokenizer.encode(["the cat"], 64).lengths.tolist() == [4]


@pytest.mark.parametrize(("kind", "pad_id"), [("bert", 0), ("roberta", 1)])
def test_the_padding_id_is_the_tokenizers(load: Callable, kind: str, pad_id: int) -> None:
    assert load(kind)[0].pad_id == pad_id


def test_no_texts_give_no_rows(load: Callable) -> None:
    tokens = load("bert")[0].encode([], 8)
    assert tokens.offsets.tolist() == [0]
    assert len(tokens.ids) == 0


def test_a_tokenizer_without_a_fast_form_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"`ByT5Tokenizer` has no fast form \(`tokenizer.json`\); convert it"
    ):
        BulkTokenizer(transformers.ByT5Tokenizer())


@pytest.mark.parametrize("vocab_size", [100, 110])
def test_the_trained_vocabulary_is_not_larger_than_asked(sentences: tuple[str, ...], vocab_size: int) -> None:
    texts = [f"{text} {number}" for number in range(50) for text in sentences]
    assert len(train_wordpiece(texts, vocab_size, True)) == vocab_size


def test_special_tokens_come_first_and_frame_a_text(sentences: tuple[str, ...]) -> None:
    tokenizer = train_wordpiece(sentences, 200, True)
    assert tokenizer.convert_ids_to_tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.pad_token_id == 0
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("the cat 中")["input_ids"])
    assert tokens[0] == "[CLS]"
    assert tokens[-2:] == ["[UNK]", "[SEP]"]
    assert tokenizer("")["input_ids"] == [2, 3]


def test_a_training_word_is_read_back_whole(sentences: tuple[str, ...]) -> None:
    tokenizer = train_wordpiece(sentences, 400, True)
    assert tokenizer.decode(tokenizer("The Guitar sings")["input_ids"][1:-1]) == "the guitar sings"


@pytest.mark.parametrize("lowercase", [True, False])
def test_case_is_folded_only_where_asked(sentences: tuple[str, ...], lowercase: bool) -> None:
    tokenizer = train_wordpiece(sentences, 300, lowercase)
    assert (tokenizer("the")["input_ids"] == tokenizer("The")["input_ids"]) == lowercase
    learned = set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
    assert any(token != token.lower() for token in learned) != lowercase


def test_the_same_texts_give_the_same_tokenizer(sentences: tuple[str, ...]) -> None:
    first, *others = (train_wordpiece(sentences, 120, True).backend_tokenizer.to_str() for _ in range(4))
    assert others == [first] * 3


@pytest.mark.parametrize("texts", [[], ["", "  ", "\n"]])
def test_without_text_there_is_no_tokenizer(texts: list[str]) -> None:
    with pytest.raises(
        ModelError, match=r"there is no training text .*; give the recipe a stage, or name a `model`"
    ):
        train_wordpiece(texts, 200, True)


def test_a_script_of_many_characters_keeps_to_the_vocabulary_size() -> None:
    """Chinese has more characters than a small vocabulary has places; the frequent ones get them."""
    rare = "".join(chr(0x4E00 + index) for index in range(300))
    tokenizer = train_wordpiece([rare, *["中文" * 5] * 20], 100, True)
    assert len(tokenizer) <= 100
    assert tokenizer.unk_token_id not in tokenizer("中文")["input_ids"]
