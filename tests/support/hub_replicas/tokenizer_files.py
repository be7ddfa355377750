"""Small tokenizers of the real kinds, trained on a few texts, in the files that repositories have."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence

import attrs
import sentencepiece
import tokenizers
from tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

WORDPIECE_TOKENS = 400
BYTE_LEVEL_TOKENS = 480
UNIGRAM_TOKENS = 360
BPE_TOKENS = 620
"""Tokens of each kind, special ones included; that of BPE has 256 bytes among them."""

SIGNS = "".join(map(chr, range(33, 127)))
"""Characters that every tokenizer of sentencepiece has, however rare: those of ASCII."""

EXTRA_IDS = 100
"""Sentinel tokens of T5, behind its sentencepiece tokens."""


@attrs.frozen
class TokenizerFiles:
    """All files that a tokenizer of one kind may have, its size, and the ids that texts must get."""

    files: dict[str, bytes]
    size: int
    """Number of tokens, added ones included."""
    encode: Callable[[str], list[int]]
    """The ids of a text with its special tokens, computed without transformers."""
    specials: dict[str, int]
    """Settings of `config.json`, such as `pad_token_id`."""

    def write(self, names, directory):
        """Write some of the files."""
        for name in names:
            (directory / name).write_bytes(self.files[name])


def _json(value):
    return json.dumps(value, indent=2).encode()


def _of_tokenizer(
    tokenizer,
    specials,
    settings,
    files,
):
    """Files of a tokenizer of the tokenizers library, whose ids are those of the library."""
    config = {**specials, **settings}
    named = {
        "tokenizer.json": tokenizer.to_str(pretty=True).encode(),
        "tokenizer_config.json": _json(config),
        "special_tokens_map.json": _json(specials),
        "added_tokens.json": b"{}",
    }
    ids = {}
    for name in ("pad", "bos", "eos"):
        token = specials.get(f"{name}_token")
        if token is not None:
            ids[f"{name}_token_id"] = tokenizer.token_to_id(token)
    return TokenizerFiles(
        named | files,
        tokenizer.get_vocab_size(),
        lambda text: tokenizer.encode(text).ids,
        ids,
    )


def _wordpiece(texts, lowercase):
    specials = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=WORDPIECE_TOKENS,
        special_tokens=list(specials.values()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    lines = [token for token, _ in vocabulary]
    files = {
        "vocab.txt": ("\n".join(lines) + "\n").encode(),
        # As in the repositories of 2018 to 2020: no class and no special tokens.
        "tokenizer_config.json": _json(
            {"do_lower_case": lowercase, "model_max_length": 512}
        ),
    }
    return _of_tokenizer(tokenizer, specials, {}, files)


def bert(texts):
    """WordPiece, in lower case."""
    return _wordpiece(texts, lowercase=True)


def bert_chinese(texts):
    """WordPiece, one token a Chinese character."""
    characters = sorted(
        {sign for text in texts for sign in text if "一" <= sign <= "鿿"}
    )
    return _wordpiece([*texts, " ".join(characters)], lowercase=True)


def _byte_level(texts, first, last):
    """Train a byte-level BPE with special tokens before and behind the others."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=BYTE_LEVEL_TOKENS,
        special_tokens=list(first),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(list(last))
    return tokenizer


def _vocabulary_and_merges(tokenizer, with_added_tokens):
    """The two files that GPT-2's tokenizer is read from."""
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary = tokenizer.get_vocab() if with_added_tokens else model["vocab"]
    merges = [" ".join(pair) for pair in model["merges"]]
    return {
        "vocab.json": json.dumps(vocabulary).encode(),
        "merges.txt": ("#version: 0.2\n" + "\n".join(merges) + "\n").encode(),
    }


def roberta(texts):
    """Byte-level BPE between `<s>` and `</s>`."""
    specials = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "cls_token": "<s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
    }
    tokenizer = _byte_level(texts, ["<s>", "<pad>", "</s>", "<unk>"], [])
    # The space before the mask belongs to it.
    mask = tokenizers.AddedToken("<mask>", lstrip=True, special=True)
    tokenizer.add_special_tokens([mask])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    files = _vocabulary_and_merges(tokenizer, with_added_tokens=True)
    files["tokenizer_config.json"] = _json({"model_max_length": 512})
    return _of_tokenizer(tokenizer, specials, {}, files)


def opt(texts):
    """GPT-2's BPE, each text behind `</s>`; the repositories have no `tokenizer.json`."""
    specials = {
        "bos_token": "</s>",
        "eos_token": "</s>",
        "unk_token": "</s>",
        "pad_token": "<pad>",
    }
    tokenizer = _byte_level(texts, ["<s>", "<pad>", "</s>", "<unk>"], [])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="</s> $A", special_tokens=[("</s>", 2)]
    )
    files = _vocabulary_and_merges(tokenizer, with_added_tokens=True)
    settings = {"add_prefix_space": False, "add_bos_token": True, "errors": "replace"}
    return _of_tokenizer(
        tokenizer, specials, {**settings, "tokenizer_class": "GPT2Tokenizer"}, files
    )


def gptj(texts):
    """GPT-2's BPE without special tokens around a text, padded with its end, and tokens that no text has."""
    end = "<|endoftext|>"
    specials = {"bos_token": end, "eos_token": end, "unk_token": end, "pad_token": end}
    tokenizer = _byte_level(texts, [], [end])
    files = _vocabulary_and_merges(tokenizer, with_added_tokens=True)
    unused = [f"<|extratoken_{number}|>" for number in range(1, 8)]
    tokenizer.add_tokens(unused)
    files["added_tokens.json"] = _json(
        {token: tokenizer.token_to_id(token) for token in unused}
    )
    settings = {
        "add_prefix_space": False,
        "model_max_length": 2048,
        "tokenizer_class": "GPT2Tokenizer",
    }
    return _of_tokenizer(tokenizer, specials, settings, files)


def qwen2(texts):
    """Byte-level BPE in NFC without special tokens around a text."""
    end = "<|endoftext|>"
    specials = {"eos_token": end, "pad_token": end}
    chat = ["<|im_start|>", "<|im_end|>"]
    tokenizer = _byte_level(texts, [], [end, *chat])
    tokenizer.normalizer = normalizers.NFC()
    pattern = tokenizers.Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pattern, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    decoder = {}
    for token in (end, *chat):
        decoder[str(tokenizer.token_to_id(token))] = {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
    settings = {
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "additional_special_tokens": chat,
        "bos_token": None,
        "unk_token": None,
        "errors": "replace",
        "model_max_length": 32768,
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
    }
    files = _vocabulary_and_merges(tokenizer, with_added_tokens=False)
    return _of_tokenizer(tokenizer, specials, settings, files)


def llama_3(texts):
    """Byte-level BPE behind `<|begin_of_text|>`, with reserved tokens; `tokenizer.json` alone."""
    specials = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
    reserved = [f"<|reserved_special_token_{number}|>" for number in range(8)]
    tokenizer = _byte_level(texts, [], [*specials.values(), *reserved])
    begin = specials["bos_token"]
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{begin} $A",
                special_tokens=[(begin, tokenizer.token_to_id(begin))],
            ),
        ]
    )
    settings = {
        "clean_up_tokenization_spaces": True,
        "model_max_length": 8192,
        "model_input_names": ["input_ids", "attention_mask"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    return _of_tokenizer(tokenizer, specials, settings, {})


def _train_sentencepiece(texts, **settings):
    """Train a sentencepiece model; return its file and the library's own encoder."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        num_threads=1,
        minloglevel=2,
        hard_vocab_limit=False,
        required_chars=SIGNS,
        **settings,
    )
    content = written.getvalue()
    return content, sentencepiece.SentencePieceProcessor(model_proto=content)


def _pieces(encoder):
    return [
        (encoder.id_to_piece(number), encoder.get_score(number))
        for number in range(len(encoder))
    ]


def t5(texts):
    """Unigram before `</s>`, with 100 sentinel tokens behind those of sentencepiece."""
    content, encoder = _train_sentencepiece(
        texts,
        model_type="unigram",
        vocab_size=UNIGRAM_TOKENS,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    sentinels = [f"<extra_id_{number}>" for number in range(EXTRA_IDS)]
    tokenizer = tokenizers.Tokenizer(models.Unigram(_pieces(encoder), unk_id=2))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(prepend_scheme="always"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>", *reversed(sentinels)])
    specials = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    settings = {
        "additional_special_tokens": sentinels,
        "extra_ids": EXTRA_IDS,
        "model_max_length": 512,
        "tokenizer_class": "T5Tokenizer",
    }
    files = _of_tokenizer(tokenizer, specials, settings, {"spiece.model": content})
    return attrs.evolve(files, encode=lambda text: [*encoder.encode(text), 1])


def xlm_roberta(texts):
    """Unigram between `<s>` and `</s>`, with fairseq's order of the special tokens."""
    content, encoder = _train_sentencepiece(
        texts,
        model_type="unigram",
        vocab_size=UNIGRAM_TOKENS,
        unk_id=0,
        bos_id=1,
        eos_id=2,
    )
    first = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    tokenizer = tokenizers.Tokenizer(
        models.Unigram([*first, *_pieces(encoder)[3:], ("<mask>", 0.0)], unk_id=3)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(prepend_scheme="always"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    mask = tokenizers.AddedToken("<mask>", lstrip=True, special=True)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", mask])
    specials = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "cls_token": "<s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
    }

    def encode(text):
        # Three special tokens of sentencepiece become four; its unknown token, 0, becomes 3.
        shifted = [number + 1 if number else 3 for number in encoder.encode(text)]
        return [0, *shifted, 2]

    settings = {
        "model_max_length": 512,
        "tokenizer_class": "XLMRobertaTokenizer",
    }
    files = _of_tokenizer(
        tokenizer, specials, settings, {"sentencepiece.bpe.model": content}
    )
    return attrs.evolve(files, encode=encode)


def _merges(pieces, ordinary):
    """The merges of a BPE model of sentencepiece, which lists only what they make, the best first."""
    numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
    merges = []
    for piece, score in pieces:
        for place in range(1, len(piece)):
            left, right = piece[:place], piece[place:]
            if piece in ordinary and left in ordinary and right in ordinary:
                merges.append((-score, numbers[left], numbers[right], left, right))
    return [(left, right) for *_, left, right in sorted(merges)]


def _bpe_with_bytes(encoder, unknown):
    """A BPE model of sentencepiece in the tokenizers library, rare characters as bytes."""
    pieces = _pieces(encoder)
    vocabulary = {piece: number for number, (piece, _) in enumerate(pieces)}
    ordinary = set()
    for number, (piece, _) in enumerate(pieces):
        if not (
            encoder.is_control(number)
            or encoder.is_unknown(number)
            or encoder.is_byte(number)
        ):
            ordinary.add(piece)
    merges = _merges(pieces, ordinary)
    bpe = models.BPE(
        vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True
    )
    tokenizer = tokenizers.Tokenizer(bpe)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def llama(texts):
    """BPE of sentencepiece behind `<s>`, with bytes for rare characters; no token for padding."""
    content, encoder = _train_sentencepiece(
        texts,
        model_type="bpe",
        vocab_size=BPE_TOKENS,
        byte_fallback=True,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        allow_whitespace_only_pieces=True,
    )
    tokenizer = _bpe_with_bytes(encoder, "<unk>")
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    specials = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    settings = {
        "add_bos_token": True,
        "add_eos_token": False,
        "legacy": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
        "pad_token": None,
        "tokenizer_class": "LlamaTokenizer",
    }
    files = _of_tokenizer(tokenizer, specials, settings, {"tokenizer.model": content})
    return attrs.evolve(files, encode=lambda text: [1, *encoder.encode(text)])


def gemma(texts):
    """BPE of sentencepiece behind `<bos>`, spaces as they are, with tokens that no text has."""
    unused = [f"<unused{number}>" for number in range(6)]
    content, encoder = _train_sentencepiece(
        texts,
        model_type="bpe",
        vocab_size=BPE_TOKENS,
        byte_fallback=True,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        unk_piece="<unk>",
        user_defined_symbols=["<mask>", *unused, "<start_of_turn>", "<end_of_turn>"],
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        split_digits=True,
        allow_whitespace_only_pieces=True,
    )
    tokenizer = _bpe_with_bytes(encoder, "<unk>")
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 2)]
    )
    tokenizer.add_special_tokens(
        ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *unused]
    )
    specials = {
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }
    settings = {
        "add_bos_token": True,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
        "tokenizer_class": "GemmaTokenizer",
    }
    files = _of_tokenizer(tokenizer, specials, settings, {"tokenizer.model": content})
    return attrs.evolve(files, encode=lambda text: [2, *encoder.encode(text)])


KINDS: dict[str, Callable[[Sequence[str]], TokenizerFiles]] = {
    "bert": bert,
    "bert-chinese": bert_chinese,
    "roberta": roberta,
    "opt": opt,
    "gptj": gptj,
    "qwen2": qwen2,
    "llama-3": llama_3,
    "t5": t5,
    "xlm-roberta": xlm_roberta,
    "llama": llama,
    "gemma": gemma,
}
"""Kind, as in `layouts.toml` -> what trains it."""
