"""Folders of small models in real architectures, whose weights numpy draws, the same for any torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from texts import TEXTS

ASCII = "".join(map(chr, range(33, 127)))

FRAMES = (
    'This sentence : "{text}" means in one word:"',
    'This sentence of "{text}" means [MASK].',
    "query: passage: task",
)
"""What prompts have around a sentence, for tokenizers to learn."""


def write_model(family: Mapping, directory: Path) -> None:
    """Write the model of a family, with config, weights and tokenizer."""
    directory.mkdir(parents=True)
    vocabulary_size = TOKENIZERS[family["tokenizer"]](directory)
    settings = {"vocab_size": vocabulary_size, **family["config"]}
    config = transformers.AutoConfig.for_model(**settings)
    model = getattr(transformers, family["class"]).from_config(config)
    generator = np.random.default_rng(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.from_numpy(generator.standard_normal(parameter.shape))
            if parameter.ndim > 1:
                values = values * 0.15
            elif name.endswith("bias"):
                values = values * 0.1
            else:
                values = values * 0.1 + 1.0
            parameter.copy_(values)
    model.to(getattr(torch, family.get("dtype", "float32"))).save_pretrained(directory)


def wordpiece(directory: Path) -> int:
    """Write `vocab.txt`, as BERT has it; a trainer of WordPiece draws another one in each process."""
    texts = " ".join((*TEXTS, *FRAMES, ASCII)).lower()
    characters = sorted(set("".join(texts.split())))
    words = sorted(set(re.findall(r"[a-z]{2,}", texts)))

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    tokens += [f"##{character}" for character in characters]
    # Words of every other place are pieces.
    tokens += words[::2]
    (directory / "vocab.txt").write_text("\n".join(tokens), "utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    write_settings(directory, settings)
    return len(tokens)


def byte_level(directory: Path, special_tokens: list[str], **settings) -> int:
    """Write `vocab.json` and `merges.txt` of a byte-level BPE."""
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        (*TEXTS, *FRAMES),
        vocab_size=360,
        special_tokens=special_tokens,
        show_progress=False,
    )
    tokenizer.save_model(str(directory))
    write_settings(directory, settings)
    return tokenizer.get_vocab_size()


def roberta(directory: Path) -> int:
    """Write a byte-level BPE between `<s>` and `</s>`."""
    special_tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    return byte_level(directory, special_tokens, tokenizer_class="RobertaTokenizer")


def opt(directory: Path) -> int:
    """Write GPT-2's BPE with `</s>` before each text."""
    return byte_level(
        directory,
        ["<s>", "<pad>", "</s>", "<unk>"],
        tokenizer_class="GPT2Tokenizer",
        add_bos_token=True,
        bos_token="</s>",
        eos_token="</s>",
        unk_token="</s>",
        pad_token="<pad>",
    )


def gpt2(directory: Path) -> int:
    """Write GPT-2's BPE, without special tokens around a text."""
    return byte_level(directory, ["<|endoftext|>"], tokenizer_class="GPT2Tokenizer")


def sentencepiece_model(name: str, directory: Path, **settings) -> int:
    """Write a model of sentencepiece; return the number of its pieces."""
    settings |= {"num_threads": 1, "minloglevel": 2, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((*TEXTS, *FRAMES)),
        model_prefix=str(directory / name),
        required_chars=ASCII,
        **settings,
    )
    (directory / f"{name}.model").rename(directory / name)
    (directory / f"{name}.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(str(directory / name)).vocab_size()


def t5(directory: Path) -> int:
    """Write `spiece.model`, a unigram model with `</s>` behind each text and sentinels."""
    size = sentencepiece_model(
        "spiece.model",
        directory,
        model_type="unigram",
        vocab_size=220,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    write_settings(directory, {"tokenizer_class": "T5Tokenizer", "extra_ids": 100})
    return size + 100


def xlm_roberta(directory: Path) -> int:
    """Write `sentencepiece.bpe.model`, a unigram model between `<s>` and `</s>`."""
    size = sentencepiece_model(
        "sentencepiece.bpe.model",
        directory,
        model_type="unigram",
        vocab_size=220,
        unk_id=0,
        bos_id=1,
        eos_id=2,
    )
    write_settings(directory, {"tokenizer_class": "XLMRobertaTokenizer"})
    # A padding token before the pieces, and a mask token behind them.
    return size + 2


def llama(directory: Path) -> int:
    """Write `tokenizer.model`, a BPE model with byte fallback and `<s>` before each text."""
    size = sentencepiece_model(
        "tokenizer.model",
        directory,
        model_type="bpe",
        vocab_size=480,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}
    settings |= {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    write_settings(directory, settings)
    return size


TOKENIZERS = {
    "wordpiece": wordpiece,
    "roberta": roberta,
    "opt": opt,
    "gpt2": gpt2,
    "t5": t5,
    "xlm-roberta": xlm_roberta,
    "llama": llama,
}


def write_settings(directory: Path, settings: Mapping) -> None:
    """Write `tokenizer_config.json`."""
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
