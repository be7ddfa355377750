"""A faster forward pass of BERT for encoding.

One product computes queries, keys and values; on a processor, weights are laid out once for oneDNN and the
GELU is fused into the product. A test checks that it equals transformers' own forward pass.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional

from sentbed_backbones._torch.packed_parts import (
    in_whole_groups,
    layer_norm,
    projections,
)
from sentbed_backbones._torch.prepacked_cpu_linear import Products
from sentbed_backbones._torch.short_attention import has_amx, short_attention, suits
from sentbed_backbones._torch.token_states import positions

ATTENTION_TOKENS = 64
"""Smallest number of tokens in one attention product, in bf16 on a processor with AMX."""


class FastBert(nn.Module):
    """`module(input_ids, attention_mask | None) -> TokenStates` of a plain BERT or RoBERTa, eval mode."""

    reentrant = True

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether this class implements the model's forward pass."""
        classes = (
            transformers.BertModel,
            transformers.RobertaModel,
            transformers.XLMRobertaModel,
        )
        config = model.config
        return (
            type(model) in classes
            and config.hidden_act == "gelu"
            and not getattr(config, "is_decoder", False)
            and not getattr(config, "add_cross_attention", False)
        )

    def __init__(
        self, model: Any, products: Products, keep_layers: bool = False
    ) -> None:
        super().__init__()
        self.keep_layers = keep_layers
        self.dtype = products.dtype
        cast = products.copied
        embeddings = model.embeddings
        # RoBERTa counts positions from after the padding id, and skips padding ids in a text.
        self.padding: int | None = None
        if type(model) is not transformers.BertModel:
            self.padding = embeddings.padding_idx

        self.heads = model.config.num_attention_heads
        self.words = cast(embeddings.word_embeddings.weight)
        positions = embeddings.position_embeddings.weight
        self.positions = cast(positions + embeddings.token_type_embeddings.weight[0])
        self.norm = layer_norm(embeddings.LayerNorm, cast)
        self.layers = []
        for layer in model.encoder.layer:
            parts, output = layer.attention.self, layer.attention.output
            attend = projections(products, parts.query, parts.key, parts.value)
            join = products.linear_of(output.dense)
            joined_norm = layer_norm(output.LayerNorm, cast)
            inner = products.inner_of(
                layer.intermediate.dense, "gelu", layer.output.dense
            )
            inner_norm = layer_norm(layer.output.LayerNorm, cast)
            self.layers.append((attend, join, joined_norm, inner, inner_norm))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> TokenStates:
        """Return the last layer's states."""
        rows = len(input_ids)
        group = self.group(input_ids, attention_mask)
        input_ids = in_whole_groups(input_ids, group)
        batch, length = input_ids.shape
        words = functional.embedding(input_ids, self.words)
        hidden = self.norm(words + self.position(input_ids, attention_mask))
        width = hidden.shape[-1]
        hidden = hidden.view(batch * length, width)
        kept = [hidden]
        short = suits(self.dtype, input_ids.device, group * length)
        attended = short_attention if short else functional.scaled_dot_product_attention
        bias = None
        if attention_mask is not None:
            # Plain products want whole squares: rows of so few tokens are too short to be added one by one.
            queries = length if short else 1
            seen = attention_mask.bool()[:, None, None, :]
            bias = self.blind(seen.expand(-1, 1, queries, -1))

        if group > 1:
            sentence = torch.arange(group * length, device=input_ids.device) // length
            bias = self.blind((sentence[:, None] == sentence)[None, None])

        shape = (batch // group, group * length, 3, self.heads, width // self.heads)
        for attend, join, joined_norm, inner, inner_norm in self.layers:
            query, key, value = attend(hidden).view(shape).permute(2, 0, 3, 1, 4)
            context = attended(query, key, value, attn_mask=bias)
            context = context.transpose(1, 2).reshape(batch * length, width)
            hidden = joined_norm(join(context, hidden))
            hidden = inner_norm(inner(hidden, hidden))
            if self.keep_layers:
                kept.append(hidden)

        layers = None
        if self.keep_layers:
            layers = tuple(state.view(batch, length, width)[:rows] for state in kept)

        last = hidden.view(batch, length, width)[:rows]
        return TokenStates(last, attention_mask, layers)

    def position(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return the position embeddings, `(length, width)` or `(batch, length, width)`."""
        if self.padding is None:
            if attention_mask is None:
                return self.positions[: input_ids.shape[1]]
            return functional.embedding(positions(attention_mask), self.positions)
        counted = (input_ids != self.padding).long()
        return functional.embedding(
            counted.cumsum(1) * counted + self.padding, self.positions
        )

    def blind(self, seen: Tensor) -> Tensor:
        """Return what is added to scores: -inf where not `seen`."""
        return torch.where(seen, 0.0, -torch.inf).to(self.dtype)

    def group(self, input_ids: Tensor, attention_mask: Tensor | None) -> int:
        """Return how many sentences share one attention product, masked from each other.

        Attention over 14 tokens is too small a product for AMX: several sentences at a time are 20 to 50 %
        faster although most of the product is discarded. In fp32, and without AMX, they are not.
        """
        small = (
            self.dtype == torch.bfloat16
            and input_ids.device.type == "cpu"
            and has_amx()
        )
        if attention_mask is not None or not small:
            return 1
        return max(1, round(ATTENTION_TOKENS / input_ids.shape[1]))
