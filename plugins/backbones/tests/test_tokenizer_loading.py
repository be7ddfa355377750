"""Tokenizers as they lie on the hub: sentencepiece models alone, and what old files say."""

from __future__ import annotations

import copy
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
import sentencepiece
import tokenizers
import transformers
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


TRAINED: dict[str, dict[str, Any]] = {
    "t5": {
        "model_type": "unigram",
        "pad_id": 0,
        "eos_id": 1,
        "unk_id": 2,
        "bos_id": -1,
    },
    "xlm-roberta": {"model_type": "unigram"},
    "llama": {
        "model_type": "bpe",
        "normalization_rule_name": "identity",
        "byte_fallback": True,
        "remove_extra_whitespaces": False,
        "split_digits": True,
    },
}
"""What the published models were trained with, where it is not sentencepiece's default (`nmt_nfkc`)."""

LLAMA_SETTINGS = {
    "tokenizer_class": "LlamaTokenizer",
    "add_bos_token": True,
    "add_eos_token": False,
}

LAYOUTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "t5": ("spiece.model", {"model_type": "t5"}, {}),
    "xlm-roberta": ("sentencepiece.bpe.model", {"model_type": "xlm-roberta"}, {}),
    "llama": ("tokenizer.model", {"model_type": "llama"}, LLAMA_SETTINGS),
}
"""The file of the sentencepiece model, and what `config.json` and `tokenizer_config.json` say."""


def generated_sentences(count, seed):
    """Sentences of made-up words, digits and punctuation."""
    rng = random.Random(seed)
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(400)]
    for _ in range(count):
        chosen = rng.choices(words, k=rng.randint(3, 12))
        yield " ".join(chosen).capitalize() + rng.choice(PUNCTUATION)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train a sentencepiece model as a published one was, and lay it out as its repository does."""
    models = {}

    def train(kind):
        if kind in models:
            return models[kind]
        directory = tmp_path_factory.mktemp(kind)
        name, config, settings = LAYOUTS[kind]
        prefix = directory.parent / f"{kind}-trained"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=generated_sentences(1500, 0),
            model_prefix=str(prefix),
            vocab_size=600,
            hard_vocab_limit=False,
            character_coverage=0.998,
            minloglevel=2,
            **TRAINED[kind],
        )
        Path(f"{prefix}.model").rename(directory / name)
        (directory / "config.json").write_text(json.dumps(config))
        if settings:
            (directory / "tokenizer_config.json").write_text(json.dumps(settings))
        processor = sentencepiece.SentencePieceProcessor(
            model_file=str(directory / name)
        )
        models[kind] = directory, processor
        return models[kind]

    return train


def published_ids(kind, processor, texts):
    """The ids of texts by sentencepiece, with the special tokens of the published model."""
    rows = processor.encode(list(texts))
    if kind == "t5":
        return [[*row, 1] for row in rows]
    if kind == "xlm-roberta":
        # fairseq puts <s>, <pad>, </s>, <unk> before sentencepiece's pieces, of which the first three go.
        return [
            [0, *(3 if number == 0 else number + 1 for number in row), 2]
            for row in rows
        ]
    return [[1, *row] for row in rows]


def rows_of(tokenizer, texts):
    tokens = tokenizer.encode(texts, 10_000)
    return [tokens.ids[start:stop].tolist() for start, stop in pairwise(tokens.offsets)]


def assert_published_ids(kind, trained, texts):
    directory, processor = trained(kind)
    rows = rows_of(BulkTokenizer(load_tokenizer(directory, False)), texts)
    expected = published_ids(kind, processor, texts)
    differing = [
        pair for pair in zip(rows, expected, strict=True) if pair[0] != pair[1]
    ]
    if TRAINED[kind]["model_type"] == "bpe":
        assert differing == []
    # Rounding decides between two segmentations of the same pieces in another order.
    assert [pair for pair in differing if sorted(pair[0]) != sorted(pair[1])] == []
    # Two segmentations with the same score are rare.
    assert len(differing) <= len(texts) // 1000


@pytest.mark.parametrize("kind", LAYOUTS)
def test_ids_are_those_of_sentencepiece(kind, trained):
    texts = [
        *HARD_TEXTS,
        *generated_sentences(200, 1),
    ]
    assert_published_ids(kind, trained, texts)


ADDED_TOKENS = {
    "t5": ("<extra_id_0>", "</s>", "<pad>"),
    "xlm-roberta": ("<mask>", "<s>", "</s>"),
    "llama": ("<s>", "</s>", "<unk>"),
}


@pytest.mark.parametrize("kind", ADDED_TOKENS)
def test_the_text_between_added_tokens_is_that_of_sentencepiece(kind, trained):
    directory, processor = trained(kind)
    original = load_tokenizer(directory, False)
    tokenizer = BulkTokenizer(original)
    number_of_ends = {"t5": (0, 1), "xlm-roberta": (1, 1), "llama": (1, 0)}[kind]
    for token in ADDED_TOKENS[kind]:
        number = original.get_vocab()[token]
        for before, behind in (
            ("Vou ta", " dé."),
            ("vou ", "dé"),
            ("", "dé  so "),
            ("vou", ""),
        ):
            inner = []
            # A mask token of XLM-R takes the space before it; the end of a text has none in this model.
            for part in (before, behind):
                (row,) = published_ids(kind, processor, [part])
                inner.append(row[number_of_ends[0] : len(row) - number_of_ends[1]])
            (row,) = rows_of(tokenizer, [f"{before}{token}{behind}"])
            assert row[number_of_ends[0] : len(row) - number_of_ends[1]] == [
                *inner[0],
                number,
                *inner[1],
            ]


def test_special_tokens_have_the_published_numbers(
    trained,
):
    t5, processor = load_tokenizer(trained("t5")[0], False), trained("t5")[1]
    size = len(processor)
    assert t5.convert_tokens_to_ids(["<pad>", "</s>", "<unk>"]) == [0, 1, 2]
    assert t5.convert_tokens_to_ids(["<extra_id_99>", "<extra_id_0>"]) == [
        size,
        size + 99,
    ]
    assert len(t5) == size + 100
    xlm_roberta, processor = (
        load_tokenizer(trained("xlm-roberta")[0], False),
        trained("xlm-roberta")[1],
    )
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert xlm_roberta.convert_tokens_to_ids(specials) == [
        0,
        1,
        2,
        3,
        len(processor) + 1,
    ]
    assert (xlm_roberta.pad_token_id, xlm_roberta.mask_token) == (1, "<mask>")
    llama = load_tokenizer(trained("llama")[0], False)
    assert llama.convert_tokens_to_ids(["<unk>", "<s>", "</s>"]) == [0, 1, 2]
    assert llama.pad_token_id is None


@pytest.mark.parametrize("kind", LAYOUTS)
def test_what_is_saved_gives_the_same_ids(kind, trained, tmp_path):
    directory, processor = trained(kind)
    load_tokenizer(directory, False).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_bytes((directory / "config.json").read_bytes())
    for file in tmp_path.glob("*.model"):
        file.unlink()
    tokenizer = BulkTokenizer(load_tokenizer(tmp_path, False))
    assert rows_of(tokenizer, HARD_TEXTS) == published_ids(kind, processor, HARD_TEXTS)
    assert (
        tokenizer.fingerprint
        == BulkTokenizer(load_tokenizer(directory, False)).fingerprint
    )


def test_a_t5_with_a_sentencepiece_model_alone_is_loaded_and_saved(
    trained, tmp_path, no_texts
):
    directory, processor = trained("t5")
    model = tmp_path / "model"
    config = transformers.T5Config(
        vocab_size=len(processor) + 100,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
    )
    transformers.T5EncoderModel(config).save_pretrained(model)
    (model / "spiece.model").write_bytes((directory / "spiece.model").read_bytes())
    backbone = T5(model=str(model))
    once = tmp_path / "once"
    built = backbone.build(no_texts)
    assert rows_of(built.tokenizer, HARD_TEXTS) == published_ids(
        "t5", processor, HARD_TEXTS
    )
    built.save(once)
    again = backbone.build(attrs.evolve(no_texts, saved=once))
    assert rows_of(again.tokenizer, HARD_TEXTS) == published_ids(
        "t5", processor, HARD_TEXTS
    )


def altered(directory, file, change, target):
    """Copy a model's directory with another sentencepiece model."""
    target.mkdir()
    for source in directory.iterdir():
        (target / source.name).write_bytes(source.read_bytes())
    model = sentencepiece_model_pb2.ModelProto.FromString(
        (directory / file).read_bytes()
    )
    change(model)
    (target / file).write_bytes(model.SerializeToString())
    return target


def test_pieces_are_merged_by_score_and_not_by_number(trained, tmp_path):
    """LLaMA's pieces of spaces have the lowest numbers after the bytes, and the lowest scores."""
    directory, _ = trained("llama")

    def with_space_pieces(model):
        pieces = list(model.pieces)
        bytes_end = 3 + 256
        del model.pieces[bytes_end:]
        for length in (2, 4, 8):
            model.pieces.add(piece="▁" * length, score=-1e6 - length)
        model.pieces.extend(pieces[bytes_end:])

    target = altered(
        directory, "tokenizer.model", with_space_pieces, tmp_path / "model"
    )
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(target / "tokenizer.model")
    )
    texts = ["vou  dé", "vou   dé", "vou" + " " * 13 + "dé", *HARD_TEXTS]
    rows = rows_of(BulkTokenizer(load_tokenizer(target, False)), texts)
    assert rows == published_ids("llama", processor, texts)
    assert 259 in rows[1]
    assert 259 not in rows[0]


# --- what a tokenizer.json says ----------------------------------------------------------------------------


def test_a_llama_tokenizer_json_is_taken_as_it_is_written(trained, tmp_path):
    """LLaMA 2's puts the first space in its normaliser, also before a space, as sentencepiece does."""
    directory, processor = trained("llama")
    backend = load_tokenizer(directory, False).backend_tokenizer
    content = json.loads(backend.to_str())
    content["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    }
    content["pre_tokenizer"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    for name in ("config.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    texts = [" vou", "  vou dé", *HARD_TEXTS]
    rows = rows_of(BulkTokenizer(load_tokenizer(tmp_path, False)), texts)
    assert rows == published_ids("llama", processor, texts)
    plain = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert plain(" vou")["input_ids"] != rows[0]


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


def llama_with_settings(trained, directory, **settings):
    """Lay out LLaMA's sentencepiece model with other settings of the tokenizer."""
    source, processor = trained("llama")
    for name in ("tokenizer.model", "config.json"):
        (directory / name).write_bytes((source / name).read_bytes())

    settings = {"tokenizer_class": "LlamaTokenizer", **settings}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return processor


def test_a_sentencepiece_model_alone_starts_texts_as_its_class_does(trained, tmp_path):
    processor = llama_with_settings(trained, tmp_path)
    tokenizer = BulkTokenizer(load_tokenizer(tmp_path, False))
    expected = published_ids("llama", processor, ["vou dé"])
    assert rows_of(tokenizer, ["vou dé"]) == expected


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

NORMALIZERS: dict[str, tuple[Any, Any]] = {
    "llama-2": (
        tokenizers.normalizers.Sequence(
            [
                tokenizers.normalizers.Prepend("▁"),
                tokenizers.normalizers.Replace(" ", "▁"),
            ]
        ),
        None,
    ),
    "metaspace": (
        None,
        tokenizers.pre_tokenizers.Metaspace(
            replacement="▁", prepend_scheme="first", split=False
        ),
    ),
    "gemma": (
        tokenizers.normalizers.Replace(" ", "▁"),
        tokenizers.pre_tokenizers.Split(" ", "merged_with_previous"),
    ),
}
"""What the `tokenizer.json` of published models says of spaces: LLaMA 2's, one of LLaMA that transformers 5
saved, Gemma's."""


@pytest.fixture
def published_tokenizer(trained, tmp_path):
    """Load a tokenizer with the pieces of the trained LLaMA and a published pipeline, or a byte-level one."""

    def load(kind):
        directory, _ = trained("llama")
        if kind == "sentencepiece alone":
            return load_tokenizer(directory, False)
        target = tmp_path / kind
        target.mkdir()
        if kind in ("gpt2", "qwen2"):
            backend = tokenizers.Tokenizer(tokenizers.models.BPE())
            if kind == "qwen2":
                backend.normalizer = tokenizers.normalizers.NFC()
            backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
                add_prefix_space=False
            )
            backend.decoder = tokenizers.decoders.ByteLevel()
            trainer = tokenizers.trainers.BpeTrainer(
                vocab_size=400,
                initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                special_tokens=["<|endoftext|>"],
                show_progress=False,
            )
            backend.train_from_iterator(generated_sentences(300, 0), trainer)
            settings = {
                "tokenizer_class": f"{kind.upper()}Tokenizer".replace("QWEN", "Qwen")
            }
        else:
            backend = tokenizers.Tokenizer.from_str(
                load_tokenizer(directory, False).backend_tokenizer.to_str()
            )
            normalizer, pre_tokenizer = NORMALIZERS[kind]
            backend.normalizer, backend.pre_tokenizer = normalizer, pre_tokenizer
            settings = (
                LLAMA_SETTINGS
                if kind != "gemma"
                else {"tokenizer_class": "GemmaTokenizer"}
            )
            specials = {
                "bos_token": "<s>",
                "eos_token": "</s>",
                "unk_token": "<unk>",
                "pad_token": "<unk>",
            }
            settings = settings | specials
        model_type = {"gemma": "gemma2", "gpt2": "gpt2", "qwen2": "qwen2"}.get(
            kind, "llama"
        )
        backend.save(str(target / "tokenizer.json"))
        (target / "tokenizer_config.json").write_text(json.dumps(settings))
        (target / "config.json").write_text(json.dumps({"model_type": model_type}))
        return load_tokenizer(target, False)

    return load


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("llama-2", "stripped"),
        ("sentencepiece alone", "stripped"),
        ("metaspace", "kept"),
        ("gemma", "kept"),
        ("gpt2", "kept"),
        ("qwen2", "kept"),
    ],
)
def test_the_space_before_a_placeholder_goes_with_it_or_stays(
    kind, default, published_tokenizer, tmp_path
):
    """By default as transformers 4.46 had it for `tokenizer.add_tokens(["<PST>"])`."""
    plain = published_tokenizer(kind)
    # In LLaMA's pipelines a text begins with a space of its own, and so do the parts of another one.
    behind = (
        BEHIND
        if kind in ("llama-2", "sentencepiece alone", "metaspace")
        else f" {BEHIND}"
    )
    first, first_with_space, rest = ids_of(plain, [BEFORE, f"{BEFORE} ", behind])
    for spacing in (None, "stripped", "kept"):
        tokenizer = copy.deepcopy(plain)
        add_placeholder(tokenizer, "<PST>", spacing)
        number = tokenizer.convert_tokens_to_ids("<PST>")
        assert number == len(plain)
        beginning = first if (spacing or default) == "stripped" else first_with_space
        assert beginning != first or (spacing or default) == "stripped"
        assert ids_of(tokenizer, [f"{BEFORE} <PST> {BEHIND}"]) == [
            [*beginning, number, *rest]
        ]
        assert spacing_of_placeholder(tokenizer, "<PST>") == (spacing or default)
        saved = tmp_path / f"{kind} {spacing}"
        tokenizer.save_pretrained(saved)
        model_type = {"gemma": "gemma2", "gpt2": "gpt2", "qwen2": "qwen2"}.get(
            kind, "llama"
        )
        (saved / "config.json").write_text(json.dumps({"model_type": model_type}))
        again = load_tokenizer(saved, False)
        assert ids_of(again, [f"{BEFORE} <PST> {BEHIND}"]) == [
            [*beginning, number, *rest]
        ]


def test_a_scores_protocol_says_what_became_of_the_space(save_model, no_texts):
    model = str(save_model("llama"))
    readings = {}
    for spacing in (None, "stripped", "kept"):
        intervention = TokenPrepending(first=0, exit=1, placeholder_spacing=spacing)
        built = Causal(model=model, intervention=intervention).build(no_texts)
        readings[spacing] = built.protocol["intervention"]["placeholder_spacing"]
    assert readings == {None: "kept", "stripped": "stripped", "kept": "kept"}
