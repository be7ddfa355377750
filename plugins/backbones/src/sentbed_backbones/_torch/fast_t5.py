"""A faster forward pass of T5 for encoding.

One product computes queries, keys and values. On a processor, weights are laid out once for oneDNN, and the
activation is fused into the product. Tests compare the states with those of transformers.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import transformers
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional

from sentbed_backbones._torch.fast_blocks import (
    Block,
    Norm,
    Stack,
    hide,
    in_whole_groups,
    joint_attention,
    rms_norm,
    same_row,
)
from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products, is_plain
from sentbed_backbones._torch.short_attention import suits
from sentbed_backbones._torch.token_states import start_token

CLASSES = (
    transformers.T5EncoderModel,
    transformers.T5Model,
    transformers.MT5EncoderModel,
    transformers.MT5Model,
)

FEED_FORWARDS = {"relu": False, "gelu_new": True}
"""The activations that are implemented; for each, whether the feed-forward layer with it is gated."""

ATTENTION_TOKENS = 32
"""Largest number of tokens in one attention product, in bf16 on a processor."""

LARGEST_FP16 = torch.finfo(torch.float16).max - 1000
"""The value to which transformers clamps states that overflow in fp16, as those of T5 models trained in bf16
do."""


class DecoderBlock(NamedTuple):
    """One block of the decoder in its fast form, for the first token only."""

    norm: Norm
    itself: Linear
    """Self-attention of a single token: value and output in one product."""
    query_norm: Norm
    query: Linear
    key: Tensor
    """Key weights, `(heads, width of a head, width)`."""
    value: Tensor
    """Value weights, `(heads, width, width of a head)`."""
    join: Linear
    inner_norm: Norm
    inner: Linear


class FastT5(nn.Module):
    """Forward pass of a T5 or an mT5 in eval mode: `(input_ids, attention_mask | None) -> TokenStates`.

    With `layers`, `TokenStates.layers` has the embeddings and the output of every encoder layer; the last
    layer's is after the final norm. With `decodes`, `TokenStates.decoder_state` is the decoder's first output.
    """

    reentrant = True

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether this class implements the model's forward pass."""
        if type(model) not in CLASSES or model.encoder.config.is_decoder:
            return False

        config = model.config
        is_gated = FEED_FORWARDS.get(config.dense_act_fn)
        return is_plain(model) and is_gated == config.is_gated_act

    def __init__(
        self,
        model: Any,
        products: Products,
        layers: bool = False,
        decodes: bool = False,
    ) -> None:
        super().__init__()
        encoder = model.encoder
        self.dtype = products.dtype
        self.heads = model.config.num_heads

        self.words = products.copied(encoder.embed_tokens.weight)
        first = encoder.block[0].layer[0].SelfAttention
        self.bias_of_buckets = products.copied(first.relative_attention_bias.weight)

        self.bucket = partial(
            type(first)._relative_position_bucket,
            bidirectional=True,
            num_buckets=first.relative_attention_num_buckets,
            max_distance=first.relative_attention_max_distance,
        )

        self.last_bias: tuple[tuple[int, int], Tensor] | None = None

        blocks = [_fast_block(block.layer, products) for block in encoder.block]
        final_norm = rms_norm(encoder.final_layer_norm, products)
        self.stack = Stack(
            blocks,
            norm_before=True,
            keeps_layers=layers,
            finish=[final_norm],
        )

        self.decodes = decodes
        if decodes:
            decoder = model.decoder
            start = start_token(model.config)
            self.start = products.copied(decoder.embed_tokens.weight[start])
            self.decoder_norm = rms_norm(decoder.final_layer_norm, products)
            self.decoder = [
                _fast_decoder_block(block.layer, products) for block in decoder.block
            ]

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> TokenStates:
        """Return the encoder's states and, with `decodes`, the decoder's first output."""
        rows, length = input_ids.shape
        short = suits(self.dtype, input_ids.device, length)
        group = 1
        if attention_mask is None and not short:
            group = self.group(rows, length)

        mask = self.bias(length, group)
        if attention_mask is not None:
            mask = hide(mask, attention_mask.bool()[:, None, None, :])

        input_ids = in_whole_groups(input_ids, group)
        hidden = functional.embedding(input_ids, self.words)
        attend = joint_attention(self.heads, group, short, mask, scale=1.0)
        states = self.stack.run(hidden, attend, attention_mask, rows)
        if not self.decodes:
            return states

        decoded = self.decode(states.last_hidden_state, attention_mask)
        return states._replace(decoder_state=decoded)

    def decode(self, encoded: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return the decoder's first output, `(rows, width)`.

        Each text has a single query. The query is multiplied by the key weights, so that it can attend to the
        encoder's states directly. The attended states are multiplied by the value weights. This is cheaper than
        computing keys and values of all states.
        """
        rows = len(encoded)
        encoded = encoded[:, None]
        mask: Tensor | None = None
        if attention_mask is not None:
            seen = attention_mask.bool()[:, None, None, :]
            mask = hide(encoded.new_zeros(()), seen)

        hidden = self.start.repeat(rows, 1)
        for block in self.decoder:
            hidden = block.itself(block.norm(hidden), hidden)

            query = block.query(block.query_norm(hidden))
            query = query.view(rows, self.heads, -1).transpose(0, 1)
            key_query = (query @ block.key).transpose(0, 1)
            read = functional.scaled_dot_product_attention(
                key_query[:, None], encoded, encoded, attn_mask=mask, scale=1.0
            )
            values = read[:, 0].transpose(0, 1) @ block.value
            context = values.transpose(0, 1).reshape(rows, -1)
            hidden = block.join(context, hidden)

            hidden = block.inner(block.inner_norm(hidden), hidden)

        return self.decoder_norm(hidden)

    def group(self, rows: int, length: int) -> int:
        """Return how many rows share one attention product, masked from each other.

        Attention over few tokens is too small a product for a processor's bf16 matrix unit. Several rows in one
        product are faster, although part of the product is discarded; in fp32 they are not faster.
        """
        if self.dtype != torch.bfloat16 or self.words.device.type != "cpu":
            return 1

        return max(1, min(ATTENTION_TOKENS // length, rows))

    def bias(self, length: int, group: int) -> Tensor:
        """Return the position bias of `group` rows, `(1, heads, group * length, group * length)`.

        The bias of the last call is cached, since batches come in order of length.
        """
        cached = self.last_bias
        if cached is not None and cached[0] == (length, group):
            return cached[1]

        device = self.words.device
        place = torch.arange(group * length, device=device) % length
        bucket = self.bucket(place - place[:, None])
        values = functional.embedding(bucket, self.bias_of_buckets)
        bias = values.permute(2, 0, 1)[None].contiguous()
        if group > 1:
            bias = hide(bias, same_row(group, length, device))

        self.last_bias = ((length, group), bias)
        return bias


def _fast_block(parts: Any, products: Products) -> Block:
    """Return a block of the encoder in its fast form."""
    attention = parts[0].SelfAttention
    return Block(
        attend=products.joint(attention.q, attention.k, attention.v),
        join=_bounded(products.linear_of(attention.o), products),
        attention_norm=rms_norm(parts[0].layer_norm, products),
        inner=_inner(parts[1], products),
        inner_norm=rms_norm(parts[1].layer_norm, products),
    )


def _fast_decoder_block(parts: Any, products: Products) -> DecoderBlock:
    """Return a block of the decoder in its fast form, for the first token only."""
    attention = parts[0].SelfAttention
    value = attention.v.weight.detach().float()
    output = attention.o.weight.detach().float()
    itself = products.linear(output @ value)

    cross = parts[1].EncDecAttention
    shape = (cross.n_heads, -1, cross.d_model)
    cross_value = products.copied(cross.v.weight).view(shape)
    return DecoderBlock(
        norm=rms_norm(parts[0].layer_norm, products),
        itself=_bounded(itself, products),
        query_norm=rms_norm(parts[1].layer_norm, products),
        query=products.linear_of(cross.q),
        key=products.copied(cross.k.weight).view(shape),
        value=cross_value.transpose(1, 2).contiguous(),
        join=_bounded(products.linear_of(cross.o), products),
        inner_norm=rms_norm(parts[2].layer_norm, products),
        inner=_inner(parts[2], products),
    )


def _inner(part: Any, products: Products) -> Linear:
    """Return the feed-forward layer of a block in its fast form."""
    dense = part.DenseReluDense
    if hasattr(dense, "wi"):
        inner = products.inner(dense.wi, "relu", dense.wo)
    else:
        inner = products.gated_inner(dense.wi_0, "gelu_new", dense.wi_1, dense.wo)

    return _bounded(inner, products)


def _bounded(linear: Linear, products: Products) -> Linear:
    """Return the layer; in fp16, its results are clamped."""
    if products.dtype != torch.float16:
        return linear

    return lambda x, other: linear(x, other).clamp(-LARGEST_FP16, LARGEST_FP16)
