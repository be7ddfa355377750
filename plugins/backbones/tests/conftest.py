"""Tiny random models with trained tokenizers, saved as transformers saves them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5

SENTENCES = (
    "The cat sat on the mat.",
    "A dog barks, loudly!",
    "Two small birds sing in the old tree behind the house.",
    "nothing at all",
    "A man is playing a guitar while a woman sings.",
    "Rain falls.",
)

BERT_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
ROBERTA_SPECIALS = {
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
POSITIONS = 40

BYTE_LEVEL: dict[str, tuple[dict[str, str], str]] = {
    "t5": (
        {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
        "$A </s>",
    ),
    "opt": (
        {
            "bos_token": "</s>",
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
        },
        "</s> $A",
    ),
    "llama": (
        {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
        "<s> $A",
    ),
    "mistral": (
        {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
        "<s> $A",
    ),
    "gpt2": ({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, "$A"),
}
"""Special tokens in the order of their ids, and where they stand, as the published tokenizers have them."""

SHAPES: dict[str, dict[str, Any]] = {
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS},
    "opt": {
        "hidden_size": 32,
        "ffn_dim": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "word_embed_proj_dim": 32,
    },
    "gptj": {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": POSITIONS,
        "rotary_dim": 4,
    },
}
"""How the architectures say 2 layers of width 32, where they say it otherwise than BERT."""

WINDOW_AND_ALL = ["sliding_attention", "full_attention"]
"""A layer whose tokens attend within a window, and one whose tokens attend to the whole text."""

GEMMA = {"num_key_value_heads": 2, "head_dim": 8}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "t5-1.1": ("t5", {"feed_forward_proj": "gated-gelu"}),
    "t5-start": ("t5", {"decoder_start_token_id": 7}),
    "opt-350m": ("opt", {"word_embed_proj_dim": 16, "do_layer_norm_before": False}),
    "llama-grouped": ("llama", {"num_key_value_heads": 2}),
    "mistral": ("mistral", {"num_key_value_heads": 2, "sliding_window": 6}),
    "gemma-flagged": ("gemma", {**GEMMA, "use_bidirectional_attention": True}),
    "gemma2": ("gemma2", {**GEMMA, "sliding_window": 5}),
    "gemma2-flagged": (
        "gemma2",
        {**GEMMA, "sliding_window": 5, "use_bidirectional_attention": True},
    ),
    "gemma3": (
        "gemma3_text",
        {**GEMMA, "sliding_window": 5, "layer_types": WINDOW_AND_ALL},
    ),
    "embedding-gemma": (
        "gemma3_text",
        {
            **GEMMA,
            "sliding_window": 6,
            "layer_types": WINDOW_AND_ALL,
            "use_bidirectional_attention": True,
        },
    ),
    # The last four of its blocks read the keys and values of earlier ones.
    "gemma3n": (
        "gemma3n_text",
        {
            **GEMMA,
            "num_hidden_layers": 10,
            "num_kv_shared_layers": 4,
            "sliding_window": 5,
            "vocab_size_per_layer_input": 150,
            "hidden_size_per_layer_input": 8,
            "laurel_rank": 4,
        },
    ),
    "modernbert": ("modernbert", {"local_attention": 6, "layer_types": WINDOW_AND_ALL}),
    # Its class of tokenizers adds a token.
    "qwen2": ("qwen2", {"num_key_value_heads": 2, "vocab_size": 150}),
    "qwen3": ("qwen3", {"num_key_value_heads": 2, "head_dim": 8}),
    "mixtral": (
        "mixtral",
        {
            "num_key_value_heads": 2,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": None,
        },
    ),
    "lfm2": (
        "lfm2",
        {
            "num_key_value_heads": 2,
            "block_ff_dim": 64,
            "layer_types": ["conv", "full_attention"],
        },
    ),
}
"""Architectures with settings of their own."""


BEHIND_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Architectures that count positions from the padding id on."""
MASKED = ("bert", "distilbert", "electra", "modernbert", *BEHIND_PADDING)


def small_tokenizer(specials):
    """A WordPiece tokenizer whose ids of the special tokens count from 0 in the order given."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(unk_token=specials["unk_token"])
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=150, special_tokens=list(specials.values()), show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    first, last = specials["cls_token"], specials["sep_token"]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{first} $A {last}",
        special_tokens=[
            (token, tokenizer.token_to_id(token)) for token in (first, last)
        ],
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials)


def byte_level_tokenizer(kind):
    """A byte-level BPE with the special tokens of an architecture."""
    specials, template = BYTE_LEVEL[kind]
    names = list(dict.fromkeys(specials.values()))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=names,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=template,
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in names],
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials)


@pytest.fixture(scope="session")
def sentences():
    return SENTENCES


@pytest.fixture(autouse=True)
def same_seed():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_bars():
    transformers.utils.logging.disable_progress_bar()


@pytest.fixture
def no_texts():
    """A context whose texts must not be read."""

    def read():
        raise AssertionError("the training texts were read")

    return BuildContext(read)


@pytest.fixture
def save_model(tmp_path):
    """Save a random model of an architecture, 2 layers of width 32, with its tokenizer."""

    def save(kind="bert", name="model", **overrides):
        directory = tmp_path / name
        kind, settings = VARIANTS.get(kind, (kind, {}))
        if kind in BYTE_LEVEL:
            tokenizer = byte_level_tokenizer(kind)
            settings = {
                "bos_token_id": tokenizer.bos_token_id,
                "eos_token_id": tokenizer.eos_token_id,
            } | settings
        else:
            specials = BERT_SPECIALS
            if kind in BEHIND_PADDING:
                specials = ROBERTA_SPECIALS
            tokenizer = small_tokenizer(specials)
        shape = SHAPES.get(
            kind,
            {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 64,
            },
        )
        if kind == "electra":
            shape = {**shape, "embedding_size": 16}
        if kind not in ("t5", "gpt2"):
            shape = {"max_position_embeddings": POSITIONS, **shape}
        config = transformers.AutoConfig.for_model(
            kind,
            **{
                "vocab_size": len(tokenizer),
                "pad_token_id": tokenizer.pad_token_id,
                "initializer_range": 0.2,
                **shape,
                **settings,
                **overrides,
            },
        )
        model = transformers.AutoModel.from_config(config)
        for parameter in model.parameters():
            # Biases and normalisation weights as a trained model has them: not 0 and 1.
            torch.nn.init.normal_(parameter, float(parameter.ndim == 1), 0.2)
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        return directory

    return save


@pytest.fixture(scope="session")
def backbone_of():
    """Return the backbone for a kind of model, by the architecture's name."""

    def backbone(kind, directory, **fields):
        architecture, _ = VARIANTS.get(kind, (kind, {}))
        component = Causal
        if architecture == "t5":
            component = T5
        elif architecture == "opt":
            component = Opt
        elif architecture in MASKED:
            component = Bert
        return component(model=str(directory), **fields)

    return backbone


@pytest.fixture
def edit_json():
    def edit(file, **changes):
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return edit


@pytest.fixture
def padded():
    """Pad ragged ids into a batch with its mask, by a loop."""

    def pad(tokens, pad_id, side="right"):
        longest = int(tokens.lengths.max())
        ids, mask = [], []
        for start, stop in pairwise(tokens.offsets.tolist()):
            row = tokens.ids[start:stop].tolist()
            padding = longest - len(row)
            before, behind = (padding, 0) if side == "left" else (0, padding)
            ids.append([pad_id] * before + row + [pad_id] * behind)
            mask.append([0] * before + [1] * len(row) + [0] * behind)
        return torch.tensor(ids), torch.tensor(mask)

    return pad
