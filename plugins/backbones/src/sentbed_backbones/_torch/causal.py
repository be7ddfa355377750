"""Causal models: LLaMA and every architecture with a language-modelling head in transformers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext, Module

from sentbed_backbones._torch.built_transformer import Family, base_of
from sentbed_backbones._torch.fast_causal import FastCausal
from sentbed_backbones._torch.prepacked_cpu_linear import Products
from sentbed_backbones._torch.token_states import (
    CausalStates,
    SharedPrefixStates,
    blocks_of,
    sees_later_tokens,
)
from sentbed_backbones._torch.train_tokenizer import train_byte_bpe

SIZES: Mapping[str, tuple[int, int, int, int]] = {
    "tiny": (2, 128, 2, 352),
    "mini": (4, 256, 4, 704),
    "7b": (32, 4096, 32, 11008),
    "13b": (40, 5120, 40, 13824),
    "30b": (60, 6656, 52, 17920),
    "65b": (80, 8192, 64, 22016),
}
"""Layers, width, heads and inner width (Touvron et al., 2023)."""


class CausalFamily(Family):
    """See `sentbed_backbones.Causal`."""

    predicts_next = True

    def tokenizer(self, context: BuildContext) -> Any:
        """Train a byte-level BPE with LLaMA's special tokens."""
        specials = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
        return train_byte_bpe(context.texts(), self.parameters.vocab_size, specials, "<s> $A")

    def config(self, tokenizer: Any) -> Any:
        """Return a LLaMA of the recipe's size."""
        layers, width, heads, inner = SIZES[self.parameters.size]
        return transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=inner,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )

    def problem(self, config: Any) -> str | None:
        """Return why a configuration is not that of a causal model with attention, or None."""
        causal = type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING or hasattr(config, "auto_map")
        masked = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING
        if (
            not causal
            or masked
            or config.is_encoder_decoder
            or not hasattr(config, "max_position_embeddings")
        ):
            name = self.parameters.name
            return (
                f"the backbone `{name}` takes causal models with a fixed number of positions; "
                "choose another model or backbone"
            )
        return None

    def prepare(self, config: Any) -> None:
        """Set the direction of attention, as transformers reads it from a configuration.

        Raises:
            ModelError: if it is that of a bidirectional model, and the recipe says causal.
        """
        if self.parameters.both_ways:
            config.is_causal = False
            every = "sliding_attention" not in (getattr(config, "layer_types", None) or ())
            if every and hasattr(config, "sliding_window"):
                # LLM2Vec's mask has no window either. Layers that differ in their masks need theirs.
                config.sliding_window = None
        elif not getattr(config, "is_causal", True):
            raise ModelError(
                f"the configuration of this `{config.model_type}` says `is_causal` = false, and the backbone "
                '`attention = "causal"`; add `attention = "bidirectional"`, or choose another model'
            )

    def require(self, model: Any) -> None:
        """Raise `ModelError` if attention is to be bidirectional and the model's is not."""
        if not self.parameters.both_ways:
            return
        base = base_of(model)
        if getattr(base, "_is_stateful", False) or not sees_later_tokens(model):
            raise ModelError(
                f"`{type(base).__name__}` of transformers {transformers.__version__} has no bidirectional "
                'attention; take out `attention = "bidirectional"`, or choose another architecture, such as '
                "LLaMA, Mistral, Qwen2 or OPT"
            )

    @property
    def protocol(self) -> dict[str, Any]:
        """The direction of attention, if it is not the model's own."""
        return {"attention": self.parameters.attention} if self.parameters.both_ways else {}

    def states(self, model: Any, layers: bool) -> Module:
        """Return transformers' own forward pass, up to the last layer that is read."""
        depth = self.depth(model)
        if depth is not None:
            for block in blocks_of(model)[depth:]:
                # Nothing computes a gradient for them: an optimiser must not let them decay.
                block.requires_grad_(False)
        return CausalStates(model, layers, depth, self.acting)

    def depth(self, model: Any) -> int | None:
        """Return how many blocks are run, or None if the last layer, after the final norm, is read."""
        count = int(model.config.num_hidden_layers) + 1
        numbers = tuple(chain(*self.readings))
        if "layers" in self.needs or not all(-count <= number < count for number in numbers):
            return None
        last = max(number % count for number in numbers)
        return None if last == count - 1 else last

    def packed(self, model: Any, products: Products, layers: bool) -> Module | None:
        """Return the packed form of an OPT or a LLaMA, else None."""
        if not FastCausal.fits(model):
            return None
        return FastCausal(model, products, layers, self.depth(model), self.acting)

    def head_loader(self) -> Any:
        """Return the class of causal language models."""
        return transformers.AutoModelForCausalLM

    def encoding(self, states: Any) -> Module:
        """Return the module that computes a shared prefix once."""
        return SharedPrefixStates(states) if self.parameters.shares_prefix else states
