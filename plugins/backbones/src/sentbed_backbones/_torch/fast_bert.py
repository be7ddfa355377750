"""A faster forward pass of BERT for encoding.

One product computes queries, keys and values. On a processor, weights are laid out once for oneDNN, and the
GELU is fused into the product. Tests compare the states with those of transformers.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional

from sentbed_backbones._torch.fast_blocks import (
    Block,
    Stack,
    hide,
    in_whole_groups,
    joint_attention,
    layer_norm,
    same_row,
)
from sentbed_backbones._torch.prepacked_cpu_linear import Products, is_plain
from sentbed_backbones._torch.short_attention import has_amx, suits
from sentbed_backbones._torch.token_states import positions

CLASSES = (
    transformers.BertModel,
    transformers.RobertaModel,
    transformers.XLMRobertaModel,
)

ATTENTION_TOKENS = 64
"""Approximate number of tokens of short texts in one attention product, in bf16 on a processor with AMX."""


class FastBert(nn.Module):
    """Forward pass of a BERT or RoBERTa in eval mode: `(input_ids, attention_mask | None) -> TokenStates`."""

    reentrant = True

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether this class implements the model's forward pass."""
        if type(model) not in CLASSES or not is_plain(model):
            return False

        config = model.config
        return (
            config.hidden_act == "gelu"
            and not getattr(config, "is_decoder", False)
            and not getattr(config, "add_cross_attention", False)
        )

    def __init__(
        self,
        model: Any,
        products: Products,
        layers: bool = False,
    ) -> None:
        super().__init__()
        embeddings = model.embeddings
        self.dtype = products.dtype
        self.heads = model.config.num_attention_heads
        # RoBERTa's positions begin after the padding id, and padding tokens within a text are not counted.
        self.padding: int | None = None
        if type(model) is not transformers.BertModel:
            self.padding = embeddings.padding_idx

        self.words = products.copied(embeddings.word_embeddings.weight)

        places = embeddings.position_embeddings.weight
        kind = embeddings.token_type_embeddings.weight[0]
        self.positions = products.copied(places + kind)
        self.norm = layer_norm(embeddings.LayerNorm, products)

        blocks = [_fast_block(layer, products) for layer in model.encoder.layer]
        self.stack = Stack(blocks, norm_before=False, keeps_layers=layers)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> TokenStates:
        """Return the last layer's states."""
        rows, length = input_ids.shape
        device = input_ids.device
        short = suits(self.dtype, device, length)
        group = 1
        mask: Tensor | None = None

        shown = self.words.new_zeros(())
        if attention_mask is not None:
            # `short_attention` gets a mask with a row for each query: adding one short row at a time would be
            # slow.
            queries = 1
            if short:
                queries = length

            seen = attention_mask.bool()[:, None, None, :]
            mask = hide(shown, seen.expand(-1, 1, queries, -1))
        else:
            group = self.group(length)

        if group > 1:
            mask = hide(shown, same_row(group, length, device)[None, None])

        input_ids = in_whole_groups(input_ids, group)
        words = functional.embedding(input_ids, self.words)
        hidden = self.norm(words + self.position(input_ids, attention_mask))
        attend = joint_attention(self.heads, group, short, mask)
        return self.stack.run(hidden, attend, attention_mask, rows)

    def position(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return the position embeddings, `(length, width)` or `(batch, length, width)`."""
        if self.padding is not None:
            counted = (input_ids != self.padding).long()
            places = counted.cumsum(1) * counted + self.padding
        elif attention_mask is not None:
            places = positions(attention_mask)
        else:
            return self.positions[: input_ids.shape[1]]

        return functional.embedding(places, self.positions)

    def group(self, length: int) -> int:
        """Return how many sentences share one attention product, masked from each other.

        Attention over 14 tokens is too small a product for AMX. Several sentences in one product are 20 to 50 %
        faster, although most of the product is discarded; in fp32, or without AMX, they are not faster.
        """
        on_cpu = self.words.device.type == "cpu"
        if self.dtype == torch.bfloat16 and on_cpu and has_amx():
            return max(1, round(ATTENTION_TOKENS / length))

        return 1


def _fast_block(layer: Any, products: Products) -> Block:
    """Return a block of BERT in its fast form; its norms follow attention and feed-forward layer."""
    parts = layer.attention.self
    output = layer.attention.output
    return Block(
        attend=products.joint(parts.query, parts.key, parts.value),
        join=products.linear_of(output.dense),
        attention_norm=layer_norm(output.LayerNorm, products),
        inner=products.inner(layer.intermediate.dense, "gelu", layer.output.dense),
        inner_norm=layer_norm(layer.output.LayerNorm, products),
    )
