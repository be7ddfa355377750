"""T5 and its relatives, as encoders or with their decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import transformers
from sentbed.protocols import BuildContext, Module

from sentbed_backbones._torch.built_transformer import Family
from sentbed_backbones._torch.token_states import EncoderDecoderStates, EncoderStates
from sentbed_backbones._torch.train_tokenizer import train_byte_bpe

SIZES: Mapping[str, Mapping[str, tuple[int, int, int, int, int]]] = {
    "1.0": {
        "tiny": (2, 128, 512, 2, 64),
        "mini": (4, 256, 1024, 4, 64),
        "small": (6, 512, 2048, 8, 64),
        "base": (12, 768, 3072, 12, 64),
        "large": (24, 1024, 4096, 16, 64),
        "3b": (24, 1024, 16384, 32, 128),
        "11b": (24, 1024, 65536, 128, 128),
    },
    "1.1": {
        "tiny": (2, 128, 256, 2, 64),
        "mini": (4, 256, 512, 4, 64),
        "small": (8, 512, 1024, 6, 64),
        "base": (12, 768, 2048, 12, 64),
        "large": (24, 1024, 2816, 16, 64),
        "3b": (24, 2048, 5120, 32, 64),
        "11b": (24, 4096, 10240, 64, 64),
    },
}
"""Layers of encoder and of decoder, width, inner width, heads and head width, as published."""

FEED_FORWARDS = {"1.0": "relu", "1.1": "gated-gelu"}

UNLIMITED = 2**20
"""Largest number of tokens of a text; relative positions set no limit."""

T5_MODEL_TYPES = ("t5", "mt5", "umt5")
"""Types of models (`model_type`) that are T5's."""


class T5Family(Family):
    """T5 and its relatives; see `sentbed_backbones.t5.T5`."""

    kind = "t5"

    def tokenizer(self, context: BuildContext) -> Any:
        """Train a byte-level BPE with T5's special tokens."""
        specials = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        return train_byte_bpe(
            context.texts(), self.parameters.vocab_size, specials, "$A </s>"
        )

    def config(self, tokenizer: Any) -> Any:
        """Return the configuration of a T5 of the recipe's size and version."""
        version = self.parameters.version
        layers, width, inner, heads, head_width = SIZES[version][self.parameters.size]
        return transformers.T5Config(
            vocab_size=len(tokenizer),
            d_model=width,
            d_ff=inner,
            d_kv=head_width,
            num_layers=layers,
            num_heads=heads,
            feed_forward_proj=FEED_FORWARDS[version],
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )

    def loader(self) -> Any:
        """Return the class with encoder and decoder if the pooler reads the decoder, else the encoder's."""
        if self.decodes:
            return transformers.AutoModel

        return transformers.AutoModelForTextEncoding

    @property
    def decodes(self) -> bool:
        """Whether the pooler reads the decoder."""
        return "decoder" in self.needs

    def is_left_out(self, key: str) -> bool:
        """Whether the weight belongs to a decoder that the pooler does not read."""
        return not self.decodes and key.startswith("decoder.")

    def advice(self, missing: Sequence[str]) -> str:
        """Return advice for the user if the files hold only an encoder."""
        if missing and all(key.startswith("decoder.") for key in missing):
            return "they hold an encoder alone: name the whole model, or choose a pooler that reads the encoder"

        return super().advice(missing)

    def states(self, model: Any) -> Module:
        """Return the forward pass of the encoder or, if the pooler reads it, of encoder and decoder."""
        if self.decodes:
            return EncoderDecoderStates(model, self.reads_layers)

        return EncoderStates(model, self.reads_layers)

    def max_length(self, model: Any) -> int:
        """Return a number that no text reaches."""
        return UNLIMITED
