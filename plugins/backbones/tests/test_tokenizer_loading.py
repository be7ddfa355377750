"""Tokenizers as they lie on the hub: sentencepiece models alone, and what old files say."""

from __future__ import annotations

import copy
import json
import random
from itertools import pairwise

import attrs
import pytest
import sentencepiece
import tokenizers
import transformers
from hub_replicas.tokenizer_files import KINDS
from sentbed import ModelError
from sentbed_backbones._torch.tokenizer import BulkTokenizer
from sentbed_backbones._torch.tokenizer_loading import (
    add_placeholder,
    ids_of,
    load_tokenizer,
    spacing_of_placeholder,
)
from sentbed_backbones.causal import Causal
from sentbed_backbones.t5 import T5
from sentbed_backbones.token_prepending import TokenPrepending
from sentencepiece import sentencepiece_model_pb2

CONSONANTS, VOWELS = "bcdfgklmnprstvz", ("a", "e", "i", "o", "u", "ou", "é", "ä")
PUNCTUATION = (".", "?", "!", ", so", ' "yes"', " (1,234.5)", "'s", " – 2nd", "…")

HARD_TEXTS = (
    "",
    " ",
    "   ",
    "two  spaces,   three    four",
    " a leading space",
    "  two leading spaces",
    "trailing spaces  ",
    "tab\tand\nline\r\nbreaks\u2028",
    "\t",
    "no-break\u00a0and\u3000ideographic\u2009spaces",
    "ＦＵＬＬ　ｗｉｄｔｈ ｶﾞｷﾞ",
    "café cafe\u0301 ﬁ ½ … Ⅷ ㌔ ﷺ",
    "\u1112\u1161\u11ab\u1100\u1173\u11af 한글",
    "ก็ำ नमस्ते مرحبا",
    "我们在测试句子编码器。",
    "😀👩‍👩‍👧‍👦 🇸🇪 ☃☃☃ 👍🏽",
    "zero\u200bwidth\u00adhyphen\u0001\ufffd\u200b",
    "a▁b ▁ c▁ ▁▁d",
    "▁",
    "x" * 60,
    "1234567890 12,3",
    "Unheard-of Zwölfboxkämpfer ΩЖ",
)

LAYOUTS = {
    "t5": ("t5", "spiece.model", "t5"),
    "xlm-roberta": ("xlm-roberta", "sentencepiece.bpe.model", "xlm-roberta"),
    "llama": ("llama", "tokenizer.model", "llama"),
    "llama-json": ("llama", "tokenizer.json", "llama"),
    "gemma-json": ("gemma", "tokenizer.json", "gemma2"),
    "qwen2-json": ("qwen2", "tokenizer.json", "qwen2"),
    "gptj-json": ("gptj", "tokenizer.json", "gptj"),
}
"""Layout -> kind of tokenizer, its file, and the type of model in `config.json`."""

ENDS = {"t5": (0, 1), "xlm-roberta": (1, 1), "llama": (1, 0)}
"""Numbers of special tokens before and behind a text."""


def generated_sentences(count, seed):
    """Sentences of made-up words, digits and punctuation."""
    rng = random.Random(seed)
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(400)]
    for _ in range(count):
        chosen = rng.choices(words, k=rng.randint(3, 12))
        yield " ".join(chosen).capitalize() + rng.choice(PUNCTUATION)


@pytest.fixture(scope="module")
def made():
    """Train a tokenizer as a published one was; see `tokenizer_files`."""
    kinds = {}

    def train(kind):
        if kind not in kinds:
            kinds[kind] = KINDS[kind](list(generated_sentences(1500, 0)))
        return kinds[kind]

    return train


@pytest.fixture
def lay_out(made, tmp_path):
    """Lay out a tokenizer as a repository does; return its directory and its library's own encoder."""

    def write(layout, name="model", **settings):
        kind, file, model_type = LAYOUTS[layout]
        directory = tmp_path / name
        directory.mkdir()
        files = made(kind)
        files.write([file, "tokenizer_config.json"], directory)
        write_config(directory, model_type)
        if settings:
            content = json.dumps(settings)
            (directory / "tokenizer_config.json").write_text(content)
        return directory, files.encode

    return write


def write_config(directory, model_type):
    content = json.dumps({"model_type": model_type})
    (directory / "config.json").write_text(content)


def rows_of(tokenizer, texts):
    tokens = tokenizer.encode(texts, 10_000)
    return [tokens.ids[start:stop].tolist() for start, stop in pairwise(tokens.offsets)]


def loaded_rows(directory, texts):
    return rows_of(BulkTokenizer(load_tokenizer(directory, False)), texts)


@pytest.mark.parametrize(
    "layout", ["t5", "xlm-roberta", "llama", "llama-json", "gemma-json"]
)
def test_ids_are_those_of_sentencepiece_also_when_saved(layout, lay_out, tmp_path):
    directory, encode = lay_out(layout)
    texts = [*HARD_TEXTS, *generated_sentences(200, 1)]
    tokenizer = load_tokenizer(directory, False)
    rows = rows_of(BulkTokenizer(tokenizer), texts)
    for text, row in zip(texts, rows, strict=True):
        if layout in ("t5", "xlm-roberta"):
            # Rounding decides between two segmentations of the same pieces in another order.
            assert sorted(row) == sorted(encode(text)), text
        else:
            assert row == encode(text), text

    tokenizer.save_pretrained(tmp_path / "saved")
    write_config(tmp_path / "saved", LAYOUTS[layout][2])
    for file in (tmp_path / "saved").glob("*.model"):
        file.unlink()
    again = BulkTokenizer(load_tokenizer(tmp_path / "saved", False))
    assert rows_of(again, texts) == rows
    assert again.fingerprint == BulkTokenizer(tokenizer).fingerprint


ADDED_TOKENS = {
    "t5": ("<extra_id_0>", "</s>", "<pad>"),
    "xlm-roberta": ("<mask>", "<s>", "</s>"),
    "llama": ("<s>", "</s>", "<unk>"),
}


@pytest.mark.parametrize("kind", ADDED_TOKENS)
def test_the_text_between_added_tokens_is_that_of_sentencepiece(kind, lay_out):
    directory, encode = lay_out(kind)
    original = load_tokenizer(directory, False)
    tokenizer = BulkTokenizer(original)
    first, last = ENDS[kind]

    def inner(row):
        return row[first : len(row) - last]

    for token in ADDED_TOKENS[kind]:
        number = original.get_vocab()[token]
        for before, behind in (
            ("Vou ta", " dé."),
            ("vou ", "dé"),
            ("", "dé  so "),
            ("vou", ""),
        ):
            # A mask token of XLM-R takes the space before it; the end of a text has none in this model.
            expected = [*inner(encode(before)), number, *inner(encode(behind))]
            (row,) = rows_of(tokenizer, [f"{before}{token}{behind}"])
            assert inner(row) == expected


def test_pieces_are_merged_by_score_and_not_by_number(lay_out):
    """LLaMA's pieces of spaces have the lowest numbers after the bytes, and the lowest scores."""
    directory, _ = lay_out("llama")
    file = directory / "tokenizer.model"
    model = sentencepiece_model_pb2.ModelProto.FromString(file.read_bytes())
    pieces = list(model.pieces)
    bytes_end = 3 + 256
    del model.pieces[bytes_end:]
    for length in (2, 4, 8):
        model.pieces.add(piece="▁" * length, score=-1e6 - length)
    for piece in pieces[bytes_end:]:
        if set(piece.piece) != {"▁"} or len(piece.piece) == 1:
            model.pieces.append(piece)
    file.write_bytes(model.SerializeToString())

    processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    texts = ["vou  dé", "vou   dé", "vou" + " " * 13 + "dé", *HARD_TEXTS]
    rows = loaded_rows(directory, texts)
    assert rows == [[1, *row] for row in processor.encode(texts)]
    assert 259 in rows[1]
    assert 259 not in rows[0]


@pytest.mark.parametrize(
    ("tokenizer_class", "settings", "start", "end"),
    [
        ("LlamaTokenizerFast", {"add_eos_token": True}, [1], [2]),
        ("LlamaTokenizer", {"add_bos_token": False}, [], []),
        ("GPTNeoXTokenizer", {"add_eos_token": True}, [], [2]),
        ("LlamaTokenizer", {}, [1], []),
        ("PreTrainedTokenizerFast", {"add_eos_token": True}, [1], []),
    ],
)
def test_start_and_end_tokens_follow_the_settings_as_in_transformers_4(
    tokenizer_class, settings, start, end, save_model, no_texts, edit_json, tmp_path
):
    """The expected ids are those of transformers 4.46.3."""
    directory = save_model("llama")
    backbone = Causal(model=str(directory))
    (plain,) = rows_of(backbone.build(no_texts).tokenizer, ["The cat."])
    edit_json(
        directory / "tokenizer_config.json", tokenizer_class=tokenizer_class, **settings
    )
    built = backbone.build(no_texts)
    built.save(tmp_path / "saved")
    saved = backbone.build(attrs.evolve(no_texts, saved=tmp_path / "saved"))

    expected = [[*start, *plain[1:], *end]]
    assert rows_of(built.tokenizer, ["The cat."]) == expected
    assert rows_of(saved.tokenizer, ["The cat."]) == expected


def test_a_sentencepiece_model_alone_starts_texts_as_its_class_does(lay_out):
    directory, encode = lay_out("llama", tokenizer_class="LlamaTokenizer")
    assert loaded_rows(directory, ["vou dé"]) == [encode("vou dé")]


@pytest.mark.parametrize("empty", ["", {"content": "", "lstrip": False}])
def test_empty_special_tokens_are_named(save_model, edit_json, empty):
    directory = save_model("llama")
    edit_json(directory / "tokenizer_config.json", eos_token=empty)
    with pytest.raises(ModelError, match="has an empty text as `eos_token`"):
        load_tokenizer(directory, False)


def test_byt5_has_the_ids_of_transformers(save_model, no_texts, tmp_path):
    directory = save_model("t5-1.1", vocab_size=384)
    (directory / "tokenizer.json").unlink()
    reference = transformers.ByT5Tokenizer()
    reference.save_pretrained(directory)
    backbone = T5(model=str(directory))
    assert list(backbone.check()) == []
    built = backbone.build(no_texts)
    built.save(tmp_path / "saved")
    saved = backbone.build(attrs.evolve(no_texts, saved=tmp_path / "saved"))

    texts = [*HARD_TEXTS, "vou <extra_id_0> d\u00e9", "a </s> b"]
    expected = reference(texts)["input_ids"]
    assert rows_of(built.tokenizer, texts) == expected
    assert rows_of(saved.tokenizer, texts) == expected


def roberta_files(directory):
    """RoBERTa's files without `tokenizer.json`."""
    directory.mkdir()
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(
        generated_sentences(300, 0),
        vocab_size=400,
        special_tokens=specials,
        show_progress=False,
    )
    tokenizer.save_model(str(directory))
    (directory / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    return directory


def test_the_mask_token_of_roberta_takes_the_space_before_it(tmp_path):
    directory = roberta_files(tmp_path / "model")
    tokenizer = load_tokenizer(directory, False)
    rows = tokenizer(["vou <mask>.", "vou<mask>."])["input_ids"]
    tokens = [tokenizer.convert_ids_to_tokens(row) for row in rows]
    assert tokens[0] == tokens[1]
    assert tokens[0][-3:] == ["<mask>", ".", "</s>"]
    tokenizer.save_pretrained(tmp_path / "saved")
    (tmp_path / "saved" / "config.json").write_bytes(
        (directory / "config.json").read_bytes()
    )
    saved = load_tokenizer(tmp_path / "saved", False)
    assert saved("vou <mask>.")["input_ids"] == tokenizer("vou <mask>.")["input_ids"]


def test_the_mask_token_of_roberta_is_what_its_files_say(tmp_path):
    directory = roberta_files(tmp_path / "model")
    mask = {
        "content": "<mask>",
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }
    (directory / "special_tokens_map.json").write_text(json.dumps({"mask_token": mask}))
    tokenizer = load_tokenizer(directory, False)
    assert (
        tokenizer.convert_ids_to_tokens(tokenizer("vou <mask>.")["input_ids"])[-4]
        == "Ġ"
    )


# --- the placeholder of an intervention --------------------------------------------------------------------

BEFORE, BEHIND = "Vou ta :", '"dé so." ta:"'
"""A template on both sides of ` <PST> `."""


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("layout", "default"),
    [
        ("llama-json", "stripped"),
        ("llama", "stripped"),
        ("metaspace", "kept"),
        ("gemma-json", "kept"),
        ("gptj-json", "kept"),
        ("qwen2-json", "kept"),
    ],
)
def test_the_space_before_a_placeholder_goes_with_it_or_stays(
    layout, default, lay_out, tmp_path
):
    """By default as transformers 4.46 had it for `tokenizer.add_tokens(["<PST>"])`."""
    # As transformers 5 saves LLaMA's tokenizer.
    metaspace = layout == "metaspace"
    if metaspace:
        layout = "llama-json"
    directory, _ = lay_out(layout)
    if metaspace:
        file = directory / "tokenizer.json"
        backend = tokenizers.Tokenizer.from_file(str(file))
        backend.normalizer = None
        backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(
            replacement="▁", prepend_scheme="first", split=False
        )
        backend.save(str(file))
    plain = load_tokenizer(directory, False)
    # In LLaMA's pipelines a text begins with a space of its own, and so do the parts of another one.
    behind = f" {BEHIND}"
    if layout in ("llama", "llama-json"):
        behind = BEHIND
    first, first_with_space, rest = ids_of(plain, [BEFORE, f"{BEFORE} ", behind])
    assert first != first_with_space
    for spacing in (None, "stripped", "kept"):
        tokenizer = copy.deepcopy(plain)
        add_placeholder(tokenizer, "<PST>", spacing)
        number = tokenizer.convert_tokens_to_ids("<PST>")
        assert number == len(plain)
        beginning = first_with_space
        if (spacing or default) == "stripped":
            beginning = first
        expected = [[*beginning, number, *rest]]
        text = f"{BEFORE} <PST> {BEHIND}"
        assert ids_of(tokenizer, [text]) == expected
        assert spacing_of_placeholder(tokenizer, "<PST>") == (spacing or default)
        saved = tmp_path / str(spacing)
        tokenizer.save_pretrained(saved)
        write_config(saved, LAYOUTS[layout][2])
        assert ids_of(load_tokenizer(saved, False), [text]) == expected


def test_a_scores_protocol_says_what_became_of_the_space(save_model, no_texts):
    model = str(save_model("llama"))
    readings = {}
    for spacing in (None, "stripped", "kept"):
        intervention = TokenPrepending(first=0, exit=1, placeholder_spacing=spacing)
        built = Causal(model=model, intervention=intervention).build(no_texts)
        readings[spacing] = built.protocol["intervention"]["placeholder_spacing"]
    assert readings == {None: "kept", "stripped": "stripped", "kept": "kept"}
