"""A faster forward pass of T5 for encoding.

One product computes queries, keys and values; on a processor, weights are laid out once for oneDNN and the
activation is fused into the product. The weights of norms are folded into the next product. A test checks
that it equals transformers' own forward pass.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import transformers
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional

from sentbed_backbones._torch.packed_parts import in_whole_groups
from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products, is_plain
from sentbed_backbones._torch.short_attention import short_attention, suits
from sentbed_backbones._torch.token_states import EncoderDecoderStates

KINDS = (
    transformers.T5EncoderModel,
    transformers.T5Model,
    transformers.MT5EncoderModel,
    transformers.MT5Model,
)
FEED_FORWARDS = {"relu": False, "gelu_new": True}
"""The activations that are packed, and whether the inner layer is gated."""

ATTENTION_TOKENS = 32
"""Largest number of tokens in one attention product, in bf16 on a processor."""

LARGEST_FP16 = torch.finfo(torch.float16).max - 1000
"""The value to which transformers clamps overflowing states, which occur in T5s trained in bf16."""


class Layer(NamedTuple):
    """One layer of the encoder."""

    attend: Linear
    join: Linear
    inner: Linear


class DecoderLayer(NamedTuple):
    """One layer of the decoder, for the first token only."""

    itself: Linear
    """Self-attention of a single token: value and output in one product."""
    query: Linear
    key: Tensor
    """Key weights, `(heads, width of a head, width)`."""
    value: Tensor
    """Value weights, `(heads, width, width of a head)`."""
    join: Linear
    inner: Linear


class FastT5(nn.Module):
    """`module(input_ids, attention_mask | None) -> TokenStates` of a T5 or mT5, eval mode.

    With `layers`, `TokenStates.layers` is set: the embeddings, then every layer of the encoder, the last
    after the final norm. With `decodes`, `TokenStates.decoder_state` is the decoder's first output.
    """

    reentrant = True

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether this class implements the model's forward pass."""
        if type(model) not in KINDS or model.encoder.config.is_decoder:
            return False
        config = model.config
        return (
            is_plain(model)
            and FEED_FORWARDS.get(config.dense_act_fn) == config.is_gated_act
        )

    def __init__(
        self,
        model: Any,
        products: Products,
        layers: bool = False,
        decodes: bool = False,
    ) -> None:
        super().__init__()
        config, encoder = model.config, model.encoder
        self.keeps_layers = layers
        self.dtype = products.dtype
        self.copied = products.copied
        self.eps = config.layer_norm_epsilon
        self.heads = config.num_heads
        self.activation = config.dense_act_fn
        self.words = self.copied(encoder.embed_tokens.weight)
        self.final_norm = self.copied(encoder.final_layer_norm.weight)
        first = encoder.block[0].layer[0].SelfAttention
        self.bias_of_buckets = self.copied(first.relative_attention_bias.weight)
        self.bucket = partial(
            type(first)._relative_position_bucket,
            bidirectional=True,
            num_buckets=first.relative_attention_num_buckets,
            max_distance=first.relative_attention_max_distance,
        )
        self.last_bias: tuple[tuple[int, int], Tensor] | None = None
        self.layers = [self.layer(products, block.layer) for block in encoder.block]
        self.decoder: list[DecoderLayer] = []
        if decodes:
            # One token a text: what there is to gain is small.
            exact = Products(products.dtype)
            decoder = model.decoder
            start = EncoderDecoderStates(model, False).start
            self.start = self.copied(decoder.embed_tokens.weight[start])
            self.decoder_norm = self.copied(decoder.final_layer_norm.weight)
            self.decoder = [
                self.decoder_layer(exact, block.layer) for block in decoder.block
            ]

    def layer(self, products: Products, parts: Any) -> Layer:
        """Pack a layer of the encoder."""
        attention = parts[0].SelfAttention
        attend = _behind(parts[0].layer_norm, attention.q, attention.k, attention.v)
        join = products.linear(attention.o.weight)
        return Layer(products.linear(attend), join, self.inner(products, parts[-1]))

    def decoder_layer(self, products: Products, parts: Any) -> DecoderLayer:
        """Pack a layer of the decoder."""
        self_attention, cross = parts[0].SelfAttention, parts[1].EncDecAttention
        value = _behind(parts[0].layer_norm, self_attention.v)
        itself = self_attention.o.weight.detach().float() @ value
        shape = (self.heads, -1, len(itself))
        cross_value = self.copied(cross.v.weight).view(shape)
        return DecoderLayer(
            products.linear(itself),
            products.linear(_behind(parts[1].layer_norm, cross.q)),
            self.copied(cross.k.weight).view(shape),
            cross_value.transpose(1, 2).contiguous(),
            products.linear(cross.o.weight),
            self.inner(products, parts[-1]),
        )

    def inner(self, products: Products, part: Any) -> Linear:
        """Pack a feed-forward part."""
        dense, norm = part.DenseReluDense, part.layer_norm
        if not FEED_FORWARDS[self.activation]:
            return products.inner(
                (_behind(norm, dense.wi), None),
                self.activation,
                (dense.wo.weight, None),
            )

        gate = products.linear(_behind(norm, dense.wi_0), None, self.activation)
        widen = products.linear(_behind(norm, dense.wi_1), join="mul")
        narrow = products.linear(dense.wo.weight)
        return lambda x, other: narrow(widen(x, gate(x)), other)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> TokenStates:
        """Return the encoder's states, and the decoder's first output if the decoder is packed."""
        rows, length = input_ids.shape
        seen: Tensor | None = None
        if attention_mask is not None:
            seen = attention_mask.bool()[:, None, None, :]

        short = suits(self.dtype, input_ids.device, length)
        attended = short_attention if short else functional.scaled_dot_product_attention
        group = 1
        if seen is None and not short:
            group = self.group(rows, length)

        input_ids = in_whole_groups(input_ids, group)
        batch = len(input_ids)
        bias = self.bias(length, group)
        if seen is not None:
            bias = self.blind(bias, seen)

        embedded = functional.embedding(input_ids, self.words)
        states = [embedded]
        hidden = embedded.view(batch * length, -1)
        shape = (batch // group, group * length, 3, self.heads, -1)
        for number, layer in enumerate(self.layers):
            mixed = layer.attend(self.normalize(hidden)).view(shape)
            query, key, value = mixed.permute(2, 0, 3, 1, 4)
            context = attended(query, key, value, attn_mask=bias, scale=1.0)
            context = context.transpose(1, 2).reshape(batch * length, -1)
            hidden = self.bounded(layer.join(context, hidden))
            hidden = self.feed_forward(layer.inner, hidden)
            if self.keeps_layers and number < len(self.layers) - 1:
                states.append(hidden.view(embedded.shape))

        states.append((self.normalize(hidden) * self.final_norm).view(embedded.shape))
        layers = tuple(state[:rows] for state in states)
        decoder_state: Tensor | None = None
        if self.decoder:
            decoder_state = self.decode(layers[-1], seen)

        kept = layers if self.keeps_layers else None
        return TokenStates(layers[-1], attention_mask, kept, decoder_state)

    def decode(self, encoded: Tensor, seen: Tensor | None) -> Tensor:
        """Return the decoder's first output, `(rows, width)`.

        There is only one query, so projecting it onto the encoder's states, and the result onto the values,
        is cheaper than computing keys and values of every state.
        """
        rows, length = encoded.shape[:2]
        encoded = encoded[:, None]
        bias: Tensor | None = None
        if seen is not None:
            bias = self.blind(encoded.new_zeros(rows, 1, 1, length), seen)

        hidden = self.start.repeat(rows, 1)
        for layer in self.decoder:
            hidden = self.bounded(layer.itself(self.normalize(hidden), hidden))
            query = layer.query(self.normalize(hidden)).view(rows, self.heads, -1)
            key_query = (query.transpose(0, 1) @ layer.key).transpose(0, 1)
            read = functional.scaled_dot_product_attention(
                key_query[:, None], encoded, encoded, attn_mask=bias, scale=1.0
            )[:, 0]
            values = read.transpose(0, 1) @ layer.value
            context = values.transpose(0, 1).reshape(rows, -1)
            hidden = self.bounded(layer.join(context, hidden))
            hidden = self.feed_forward(layer.inner, hidden)

        return self.normalize(hidden) * self.decoder_norm

    def feed_forward(self, inner: Linear, hidden: Tensor) -> Tensor:
        """Return the states after a feed-forward part."""
        return self.bounded(inner(self.normalize(hidden), hidden))

    def group(self, rows: int, length: int) -> int:
        """Return how many rows share one attention product, masked from each other.

        Attention over few tokens is too small a product for a processor's bf16 matrix unit: several rows at a
        time are faster although part of the product is discarded. In fp32 they are not.
        """
        if self.dtype != torch.bfloat16 or self.words.device.type != "cpu":
            return 1
        return max(1, min(ATTENTION_TOKENS // length, rows))

    def bias(self, length: int, group: int) -> Tensor:
        """Return the position bias of `group` rows, `(1, heads, group * length, group * length)`.

        The last one is cached, since batches come in order of length.
        """
        cached = self.last_bias
        if cached is not None and cached[0] == (length, group):
            return cached[1]

        device = self.words.device
        distances = torch.arange(1 - length, length, device=device)
        values = functional.embedding(self.bucket(distances), self.bias_of_buckets).T
        # Row `i` of the scores reads the distances `-i` to `length - 1 - i`.
        of_a_row = values.unfold(1, length, 1).flip(1)[:, None, :, None, :]
        same_row = torch.eye(group, dtype=torch.bool, device=device)
        side = group * length
        bias = self.blind(of_a_row, same_row[:, None, :, None])
        bias = bias.reshape(1, self.heads, side, side)
        self.last_bias = ((length, group), bias)
        return bias

    def blind(self, bias: Tensor, seen: Tensor) -> Tensor:
        """Mask `bias` where not `seen`; a row of padding only weighs all tokens alike, as in transformers."""
        return torch.where(seen, bias, torch.finfo(self.dtype).min)

    def normalize(self, hidden: Tensor) -> Tensor:
        """Divide by the root mean square, computed in fp32; the norm's weights are in the next product."""
        length = torch.linalg.vector_norm(
            hidden, dim=-1, keepdim=True, dtype=torch.float32
        )
        mean_square = length.square() / hidden.shape[-1]
        return hidden * torch.rsqrt(mean_square + self.eps).to(self.dtype)

    def bounded(self, hidden: Tensor) -> Tensor:
        """Clamp the states in fp16."""
        if self.dtype != torch.float16:
            return hidden
        return hidden.clamp(-LARGEST_FP16, LARGEST_FP16)


def _behind(norm: Any, *parts: Any) -> Tensor:
    """Return the weights of linear layers after a norm, multiplied by the norm's weights, in fp32."""
    weight = torch.cat([part.weight.detach().float() for part in parts])
    folded: Tensor = weight * norm.weight.detach().float()
    return folded
