"""Tiny random models with trained tokenizers, saved as transformers saves them."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from sentbed.protocols import BuildContext, TokenIds

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


def small_tokenizer(specials: dict[str, str]) -> Any:
    """A WordPiece tokenizer whose ids of the special tokens count from 0 in the order given."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=specials["unk_token"]))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=150, special_tokens=list(specials.values()), show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    first, last = specials["cls_token"], specials["sep_token"]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{first} $A {last}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials)


@pytest.fixture(scope="session")
def sentences() -> tuple[str, ...]:
    return SENTENCES


@pytest.fixture(autouse=True)
def same_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_bars() -> None:
    transformers.utils.logging.disable_progress_bar()


@pytest.fixture
def no_texts() -> BuildContext:
    """A context whose texts must not be read."""

    def read() -> tuple[str, ...]:
        raise AssertionError("the training texts were read")

    return BuildContext(read)


@pytest.fixture
def save_model(tmp_path: Path) -> Callable[..., Path]:
    """Save a random model of an architecture, 2 layers of width 32, with its tokenizer."""

    def save(kind: str = "bert", name: str = "model", **overrides: Any) -> Path:
        directory = tmp_path / name
        positions_behind_padding = kind in ("roberta", "xlm-roberta", "camembert", "mpnet")
        tokenizer = small_tokenizer(ROBERTA_SPECIALS if positions_behind_padding else BERT_SPECIALS)
        shape: dict[str, Any] = {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
        }
        if kind == "distilbert":
            shape = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
        elif kind == "electra":
            shape["embedding_size"] = 16
        config = transformers.AutoConfig.for_model(
            kind,
            **{
                "vocab_size": len(tokenizer),
                "max_position_embeddings": POSITIONS,
                "pad_token_id": tokenizer.pad_token_id,
                "initializer_range": 0.2,
                **shape,
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


@pytest.fixture
def edit_json() -> Callable[..., None]:
    def edit(file: Path, **changes: Any) -> None:
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return edit


@pytest.fixture
def padded() -> Callable[[TokenIds, int], tuple[torch.Tensor, torch.Tensor]]:
    """Pad ragged ids into a batch with its mask, by a loop."""

    def pad(tokens: TokenIds, pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        longest = int(tokens.lengths.max())
        ids, mask = [], []
        for start, stop in pairwise(tokens.offsets.tolist()):
            row = tokens.ids[start:stop].tolist()
            ids.append(row + [pad_id] * (longest - len(row)))
            mask.append([1] * len(row) + [0] * (longest - len(row)))
        return torch.tensor(ids), torch.tensor(mask)

    return pad
