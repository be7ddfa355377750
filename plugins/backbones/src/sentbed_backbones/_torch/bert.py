"""BERT and related encoders."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext, Module

from sentbed_backbones._torch.built_transformer import Family
from sentbed_backbones._torch.token_states import EncoderStates, base_of
from sentbed_backbones._torch.train_tokenizer import train_wordpiece
from sentbed_backbones.transformer_base import LOGITS

SIZES: Mapping[str, tuple[int, int]] = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
"""Layers and width of each size; heads have width 64, and inner layers are four times as wide (Turc et al.,
2019)."""

HEADS = ("cls.", "lm_head.", "vocab_", "generator_", "predictions.", "head.")
"""Beginnings of the names of head weights in the architectures of the family."""


class BertFamily(Family):
    """BERT and related encoders; see `sentbed_backbones.bert.Bert`."""

    kind = "bert"

    def tokenizer(self, context: BuildContext) -> Any:
        """Train a WordPiece tokenizer."""
        return train_wordpiece(context.texts(), self.parameters.vocab_size)

    def config(self, tokenizer: Any) -> Any:
        """Return the configuration of a BERT of the recipe's size."""
        layers, width = SIZES[self.parameters.size]
        return transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            intermediate_size=4 * width,
            pad_token_id=tokenizer.pad_token_id,
        )

    def states(self, model: Any) -> Module:
        """Return transformers' own forward pass, with the head if the pooler reads logits."""
        counts = _takes_positions(model) and _counts_from(model) == 0
        return EncoderStates(model, self.reads_layers, counts)

    def first_position(self, model: Any) -> int:
        """Return the position of a text's first token.

        Raises:
            ModelError: if the model takes no positions.
        """
        if not _takes_positions(model):
            raise ModelError(
                f"`{type(base_of(model)).__name__}` takes no positions, with which the template without a "
                "sentence is read; use BERT or RoBERTa, or a pooler without `denoise`"
            )

        return _counts_from(model)

    @property
    def gives_logits(self) -> bool:
        """Whether the pooler reads logits of the vocabulary."""
        return LOGITS in self.needs

    def loader(self) -> Any:
        """Return the class with the head if the pooler reads logits, else the class without it."""
        if self.gives_logits:
            return self.head_loader()

        return super().loader()

    def width(self, config: Any) -> int:
        """Return the size of the vocabulary if the pooler reads logits, else the width of a state."""
        if self.gives_logits:
            return int(config.vocab_size)

        return super().width(config)

    def fill_new_head(self, model: Any, missing: list[str]) -> list[str]:
        """Fill a new head's weights: the dense layer is the identity, the norm has scale 1, and biases are 0."""
        if not self.gives_logits or self.parameters.masked_head == "files":
            return missing

        parameters = dict(model.named_parameters(remove_duplicate=False))
        unfilled = []
        for name in missing:
            weight = parameters.get(name)
            if weight is None or not name.startswith(HEADS):
                unfilled.append(name)
            elif len(set(weight.shape)) > 1:
                # This matrix is not square, and so cannot be the identity.
                unfilled.append(name)
            elif name.endswith("bias"):
                torch.nn.init.zeros_(weight)
            elif weight.ndim == 1:
                torch.nn.init.ones_(weight)
            else:
                torch.nn.init.eye_(weight)

        return unfilled

    def advice(self, missing: Sequence[str]) -> str:
        """Return what to do about weights that are missing from the files, which may belong to the head."""
        of_head = [name for name in missing if name.startswith(HEADS)]
        if self.gives_logits and of_head:
            return (
                "they have no masked-language-modelling head, which the pooler reads; name a model that was "
                'saved with it, such as `bert-base-uncased`, or set `masked_head = "new"` and train it'
            )

        return super().advice(missing)

    def head_loader(self) -> Any:
        """Return the class of masked language models."""
        return transformers.AutoModelForMaskedLM

    def max_length(self, model: Any) -> int:
        """Return the number of positions for tokens, without those up to the padding id (RoBERTa, relatives)."""
        return super().max_length(model) - _counts_from(model)


def _takes_positions(model: Any) -> bool:
    """Whether a model's forward pass accepts the positions of tokens."""
    return "position_ids" in inspect.signature(type(base_of(model)).forward).parameters


def _counts_from(model: Any) -> int:
    """Return the position of the first token; if it is not 0, the model counts positions itself."""
    embeddings = getattr(base_of(model).base_model, "embeddings", None)
    positions = getattr(embeddings, "position_embeddings", None)
    padding = getattr(positions, "padding_idx", None)
    if padding is None:
        return 0

    return int(padding) + 1
