"""OPT, a family of causal language models."""

from __future__ import annotations

from typing import Any

import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext, Module

from sentbed_backbones._torch.causal import CausalFamily
from sentbed_backbones._torch.train_tokenizer import train_byte_bpe


class OptFamily(CausalFamily):
    """OPT; see `sentbed_backbones.opt.Opt`."""

    kind = "opt"

    def tokenizer(self, context: BuildContext) -> Any:
        """Train a byte-level BPE with OPT's special tokens: `</s>` before each text, nothing after it."""
        specials = {
            "bos_token": "</s>",
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
        }
        return train_byte_bpe(
            context.texts(), self.parameters.vocab_size, specials, "</s> $A"
        )

    def config(self, tokenizer: Any) -> Any:
        """Return the configuration of an OPT of the recipe's size; 350m has post-norms and narrow embeddings."""
        layers, width, heads = self.parameters.sizes[self.parameters.size]
        is_350m = self.parameters.size == "350m"
        embedding_width = width
        if is_350m:
            embedding_width = 512

        return transformers.OPTConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            ffn_dim=4 * width,
            word_embed_proj_dim=embedding_width,
            do_layer_norm_before=not is_350m,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )

    def states(self, model: Any) -> Module:
        """Return the forward pass of transformers.

        Raises `ModelError` if the layers to be averaged have states of different widths.
        """
        last, width = model.config.word_embed_proj_dim, model.config.hidden_size
        if self.reads_layers and last != width:
            raise ModelError(
                f"the last state of this OPT is {last} wide, those of its layers are {width}: they cannot be "
                "averaged; read the last layer alone"
            )

        return super().states(model)

    def width(self, config: Any) -> int:
        """Return the width of a token state, after the last projection."""
        return int(config.word_embed_proj_dim)
