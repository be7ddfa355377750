"""Small decoders of transformers with random weights, saved with their tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import torch
import transformers
from random_encoders import random_encoder
from sentbed_testing import SENTENCES

SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


@attrs.frozen
class Decoder:
    """A decoder as transformers has it, and where it is saved."""

    directory: Path
    network: Any
    tokenizer: Any


def random_decoders(root):
    """Save an OPT, an OPT whose embedding is narrower than its states, and a LLaMA with untied head."""
    table = {
        "backbone": {"use": "opt", "init": "random", "vocab_size": 500},
        "pooler": {"use": "last"},
    }
    tokenizer = random_encoder(table, SENTENCES).backbone.tokenizer.original
    shape = {"vocab_size": len(tokenizer), **SHAPE}
    opt = {**shape, "ffn_dim": 64}
    configs = {
        "opt": transformers.OPTConfig(**opt, word_embed_proj_dim=32),
        "opt-350m": transformers.OPTConfig(
            **opt, word_embed_proj_dim=16, do_layer_norm_before=False
        ),
        "causal": transformers.LlamaConfig(
            **shape, intermediate_size=64, tie_word_embeddings=False
        ),
    }
    torch.manual_seed(0)
    decoders = {}
    for name, config in configs.items():
        network = transformers.AutoModelForCausalLM.from_config(config)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, float(parameter.ndim == 1), 0.2)
        network.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
        decoders[name] = Decoder(root / name, network.eval(), tokenizer)
    return decoders
