from __future__ import annotations

import json
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import tokenizers
import transformers
from hypothesis import given
from hypothesis import strategies as st
from sentbed import ModelError
from sentbed._encoder.prompt_tokenizer import PromptTokenizer
from sentbed_backbones._torch.tokenizer import BulkTokenizer
from sentbed_backbones._torch.train_tokenizer import train_byte_bpe, train_wordpiece
from sentbed_poolers.template_prompt import TemplatePrompt

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


def rows_of(tokens):
    return [tokens.ids[start:stop].tolist() for start, stop in pairwise(tokens.offsets)]


@pytest.fixture
def load(
    save_model,
):
    """A tokenizer in bulk form, and the same once more to compare with."""

    def pair(kind):
        directory = save_model(kind)
        wrapped, plain = (
            transformers.AutoTokenizer.from_pretrained(directory) for _ in range(2)
        )
        return BulkTokenizer(wrapped), plain

    return pair


def test_the_fingerprint_is_that_of_the_definition_whatever_was_tokenised_before(
    load, tmp_path
):
    (bert, same), (roberta, _) = load("bert"), load("roberta")
    again = BulkTokenizer(same)
    first = bert.fingerprint
    again.encode(["a text"], 3)
    again.truncate(["a text"], 1)
    assert again.fingerprint == first == bert.fingerprint != roberta.fingerprint
    same.save_pretrained(tmp_path / "saved")
    assert (
        BulkTokenizer(
            transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
        ).fingerprint
        == first
    )
    same.add_tokens(["anewword"])
    assert BulkTokenizer(same).fingerprint != first
    unpadded = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    unpadded.pad_token = unpadded.unk_token
    assert BulkTokenizer(unpadded).fingerprint != first


@pytest.mark.parametrize("max_length", [3, 8, 512])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_ids_are_those_of_transformers(load, kind, max_length):
    ours, theirs = load(kind)
    expected = [
        theirs(text, truncation=True, max_length=max_length)["input_ids"]
        for text in AWKWARD
    ]
    tokens = ours.encode(AWKWARD, max_length)
    assert rows_of(tokens) == expected
    assert tokens.lengths.tolist() == [len(row) for row in expected]
    assert tokens.ids.dtype == np.int32
    assert tokens.offsets.dtype == np.int64


def test_padding_written_in_the_tokenizers_file_is_switched_off(
    save_model,
):
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


def test_a_tokenizer_without_a_fast_form_is_refused():
    with pytest.raises(
        ModelError,
        match=r"`CanineTokenizer` has no fast form \(`tokenizer.json`\); convert it",
    ):
        BulkTokenizer(transformers.CanineTokenizer())


@pytest.mark.parametrize(
    ("names", "filler"), [(("bos", "eos"), 1), (("eos",), 2), (("pad",), 3), ((), 0)]
)
def test_an_empty_text_has_a_token_where_the_tokenizer_adds_none(names, filler):
    fast = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"cat": 0, "b": 1, "e": 2, "p": 3}, "cat")
    )
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    original = transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, **{f"{name}_token": name[0] for name in names}
    )
    tokens = BulkTokenizer(original).encode(["", "cat cat", " "], 8)
    assert rows_of(tokens) == [[filler], [0, 0], [filler]]


def test_a_trained_vocabulary_has_the_special_tokens_first_and_the_size_that_is_asked_for(
    sentences,
):
    texts = [f"{text} {number}" for number in range(50) for text in sentences]
    tokenizer = train_wordpiece(texts, 110)
    assert len(tokenizer) == 110
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.convert_ids_to_tokens(range(5)) == specials
    assert tokenizer.pad_token_id == 0
    ids = tokenizer("The Cat 中")["input_ids"]
    assert ids[0] == 2
    assert ids[-2:] == [1, 3]
    assert tokenizer.decode(ids[1:-2]) == "the cat"
    assert tokenizer("")["input_ids"] == [2, 3]


def test_frequent_characters_come_first_and_overlong_words_are_not_trained_on():
    """Chinese has more characters than a small vocabulary has places; the frequent ones get them."""
    rare = "".join(chr(0x4E00 + index) for index in range(300))
    tokenizer = train_wordpiece([rare, *["中文" * 5] * 20, "ab" * 51], 100)
    assert len(tokenizer) <= 100
    assert tokenizer.unk_token_id not in tokenizer("中文")["input_ids"]
    assert "##abab" not in tokenizer.get_vocab()


@pytest.mark.parametrize("texts", [[], ["", "  ", "\n"]])
def test_without_text_there_is_no_tokenizer(texts):
    with pytest.raises(
        ModelError,
        match=r"there is no text .*; give the recipe a stage or an evaluation, or name a `model`",
    ):
        train_wordpiece(texts, 200)


# --- cutting a text to its own tokens ----------------------------------------------------------------------

CORPUS = (
    "The cat sat on the mat, and the other cats sat there.",
    "We're sure that they'll sing; it's what birds do, don't they?",
    "A man is playing a guitar while a woman sings.",
    "naïve café: 我们在测试句子编码器。 我们在这里。",
    "😀😀 👩‍👩‍👧‍👦 🇸🇪 fine",
)
LONG = (
    *CORPUS,
    "The   cat \n\n sat\ton  the mat  ",
    "我们在测试句子编码器我们在测试句子编码器",
    "😀👩‍👩‍👧‍👦😀🇸🇪",
    "unheard-of Zwölfboxkämpfer ½ ﬁ",
    "x" * 40,
)


def byte_level(model=None, vocab_size=0):
    """Byte-level BPE as GPT-2 and OPT have it, trained or with a vocabulary given."""
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer = tokenizers.Tokenizer(model or tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    if model is None:
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocab_size,
            initial_alphabet=alphabet,
            special_tokens=["</s>"],
            show_progress=False,
        )
        tokenizer.train_from_iterator(CORPUS * 5, trainer)
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="</s> $A", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
        )
    return tokenizer


def unigram():
    """A Unigram model behind NFKC and Metaspace, as sentencepiece and T5 have it."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.normalizer = tokenizers.normalizers.NFKC()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=120,
        special_tokens=["</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 5, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return tokenizer


SILENT = " \n\t\u200d"
KINDS = ("byte-level", "bytes", "wordpiece", "unigram")


@cache
def trained(kind):
    if kind == "wordpiece":
        return BulkTokenizer(train_wordpiece(CORPUS, 200))
    # 256 bytes and the special token leave no place for a merge.
    fast = (
        unigram()
        if kind == "unigram"
        else byte_level(vocab_size=400 if kind == "byte-level" else 257)
    )
    return BulkTokenizer(
        transformers.PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="</s>")
    )


def own_tokens(bulk, text):
    """Tokenise one text, uncut, without special tokens."""
    fast = bulk.original.backend_tokenizer
    fast.no_truncation()
    return fast.encode(text, add_special_tokens=False)


def longest_beginning(bulk, text, max_length):
    """Naively: of the beginnings that end where a token ends, the longest with few enough tokens."""
    ends = sorted(
        {0, *(end for _, end in own_tokens(bulk, text).offsets)}, reverse=True
    )
    return next(
        text[:end] for end in ends if len(own_tokens(bulk, text[:end])) <= max_length
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_cut_to_the_longest_beginning_of_so_many_tokens(kind):
    bulk = trained(kind)
    for text in LONG:
        count = len(own_tokens(bulk, text))
        for max_length in range(1, count):
            (cut,) = bulk.truncate([text], max_length)
            assert text.startswith(cut)
            assert len(own_tokens(bulk, cut)) <= max_length
            # White space and joiners may be no part of any token.
            assert cut.rstrip(SILENT) == longest_beginning(
                bulk, text, max_length
            ).rstrip(SILENT)
        assert bulk.truncate([text] * 2, count) == [text] * 2


PIECES = (*" '’.,\n\t", *"aeéĂ我们😀👩", "\u200d", "\u0301", "ﬁ", "½", *CORPUS)


@given(
    st.lists(st.sampled_from(PIECES), max_size=12),
    st.integers(1, 12),
    st.sampled_from(KINDS),
)
def test_what_is_left_of_any_text_is_a_beginning_that_fits(pieces, max_length, kind):
    bulk, text = trained(kind), "".join(pieces)
    (cut,) = bulk.truncate([text], max_length)
    assert text.startswith(cut)
    assert len(own_tokens(bulk, cut)) <= max_length
    assert (cut == text) == (len(own_tokens(bulk, text)) <= max_length)


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("a😀b", ["a", "a", "a", "a", "a😀", "a😀b"]),
        ("我们", ["", "", "我", "我", "我", "我们"]),
        ("é", ["", "é"]),
    ],
)
def test_a_character_of_several_bytes_is_kept_whole_or_not_at_all(text, cuts):
    assert [
        trained("bytes").truncate([text], length)[0]
        for length in range(1, len(cuts) + 1)
    ] == cuts


def with_merges(*merges):
    """Byte-level BPE whose merges are these."""
    symbols = [
        *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        *(a + b for a, b in merges),
    ]
    vocabulary = {symbol: index for index, symbol in enumerate(symbols)}
    fast = byte_level(tokenizers.models.BPE(vocab=vocabulary, merges=list(merges)))
    return BulkTokenizer(
        transformers.PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="!")
    )


def test_a_token_that_holds_a_piece_of_the_next_character_is_split_anew():
    # Ã© are the two bytes of é: the first token is `ab` and half of it. Without that half, `ab` is two.
    bulk = with_merges(("b", "Ã"), ("a", "bÃ"))
    assert own_tokens(bulk, "abé").tokens == ["abÃ", "©"]
    assert bulk.truncate(["abé"], 1) == ["a"]
    assert bulk.truncate(["abéx"], 2) == ["abé"]


def test_a_word_that_splits_otherwise_when_it_is_cut_still_fits():
    # `'re` is one word to the splitter, `'r` is two.
    bulk = with_merges(("'", "r"))
    assert own_tokens(bulk, "'re").tokens == ["'r", "e"]
    assert own_tokens(bulk, "'r").tokens == ["'", "r"]
    assert bulk.truncate(["'re"], 1) == ["'"]


def test_an_accent_of_its_own_stays_with_its_letter():
    bulk = trained("unigram")
    text = "cafe\u0301 cafe\u0301"
    cuts = [
        bulk.truncate([text], length)[0]
        for length in range(1, len(own_tokens(bulk, text)))
    ]
    assert "cafe\u0301" in cuts
    assert not any(cut.endswith("e") for cut in cuts)


# --- a real tokenizer behind a prompt ----------------------------------------------------------------------


def behind_prompt(kind, template):
    prompt = TemplatePrompt(template).resolve()
    assert prompt is not None
    return PromptTokenizer(trained(kind), prompt, 2000)


def ids_of(kind, texts):
    """The ids of transformers, uncut, with special tokens."""
    trained(kind).original.backend_tokenizer.no_truncation()
    return [trained(kind).original(text)["input_ids"] for text in texts]


@pytest.mark.parametrize(
    ("template", "max_length"),
    [("prompt-eol", 2), ("{text} 我们: <x>", 5), ("  {text}", 9)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_sentence_is_cut_and_the_template_stays_whole(
    kind, template, max_length
):
    tokenizer = behind_prompt(kind, template)
    before, behind = str(tokenizer.prompt.template).split("{text}")
    cut = trained(kind).truncate(LONG, max_length)
    assert sum(short != text for short, text in zip(cut, LONG, strict=True)) >= 6
    expected = ids_of(kind, [(before + text + behind).strip() for text in cut])
    assert rows_of(tokenizer.encode(LONG, max_length)) == expected


# --- a byte-level tokenizer of our own ---------------------------------------------------------------------

OPT_SPECIALS = {
    "bos_token": "</s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
}


def test_a_byte_level_vocabulary_is_not_larger_than_asked_and_knows_every_text():
    texts = [f"{text} {number}" for number in range(50) for text in CORPUS]
    tokenizer = train_byte_bpe(texts, 300, OPT_SPECIALS, "</s> $A")
    assert len(tokenizer) == 300
    assert tokenizer.convert_ids_to_tokens(range(3)) == ["</s>", "<pad>", "<unk>"]
    bulk = BulkTokenizer(tokenizer)
    plain = [text for text in (*AWKWARD, "Ω≈ç√∫ \x7f") if "[" not in text]
    for text, row in zip(plain, rows_of(bulk.encode(plain, 10_000)), strict=True):
        assert row[0] == 0
        assert 2 not in row
        assert tokenizer.backend_tokenizer.decode(row[1:]) == text
