"""Parts of the fast forward passes: norms, a stack of blocks, and attention of several rows in one product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs
import torch
from sentbed.protocols import TokenStates
from torch import Tensor
from torch.nn import functional

from sentbed_backbones._torch.interventions import HEADS, INPUT, ChangeStates
from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products
from sentbed_backbones._torch.short_attention import short_attention

Norm: TypeAlias = Callable[[Tensor], Tensor]

Attend: TypeAlias = Callable[[int, Tensor], Tensor]
"""Attention: function of a block's number and its queries, keys and values, `(batch, length, width of all)`;
returns the concatenated outputs of the heads."""


def layer_norm(norm: Any, products: Products) -> Norm:
    """Return a `LayerNorm` as a function with a copy of its weights."""
    eps = norm.eps
    weight = norm.weight
    bias = norm.bias
    if weight is not None:
        weight = products.copied(weight)
    if bias is not None:
        bias = products.copied(bias)

    return lambda x: functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rms_norm(norm: Any, products: Products) -> Norm:
    """Return the RMSNorm of LLaMA or T5 as a function with a copy of its weight."""
    weight = products.copied(norm.weight)
    eps = norm.variance_epsilon

    def normalize(x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return functional.rms_norm(x, x.shape[-1:], weight, eps)

        # This is up to ten times as fast as `functional.rms_norm`, which copies states in bf16 to fp32.
        length = torch.linalg.vector_norm(
            x,
            dim=-1,
            keepdim=True,
            dtype=torch.float32,
        )
        mean_square = length.square() / x.shape[-1]
        scale = torch.rsqrt(mean_square + eps).to(x.dtype)
        return (x * scale).mul_(weight)

    return normalize


class Block(NamedTuple):
    """The layers of one block; `join` and `inner` add their second argument, the residual, to the result."""

    attend: Linear
    """The projection to queries, keys and values of all heads, in this order."""
    join: Linear
    """The output projection of the concatenated heads."""
    attention_norm: Norm
    """The norm before or after attention; see `Stack.norm_before`."""
    inner: Linear
    """The feed-forward layer."""
    inner_norm: Norm
    """The norm before or after the feed-forward layer."""


@attrs.frozen
class Stack:
    """The blocks of a transformer, which compute the states of all layers from the embeddings."""

    blocks: Sequence[Block]
    norm_before: bool
    """Whether norms precede attention and feed-forward layer, instead of following them."""
    keeps_layers: bool
    """Whether the states of all layers are returned."""
    finish: Sequence[Norm] = ()
    """Functions that are applied to the last block's states, such as the final norm."""

    def run(
        self,
        hidden: Tensor,
        attend: Attend,
        attention_mask: Tensor | None,
        rows: int,
        act: ChangeStates | None = None,
    ) -> TokenStates:
        """Return the states of the first `rows` rows of a batch.

        `hidden` are the embeddings of all rows, `(batch, length, width)`; further rows only complete a group
        (`in_whole_groups`). An intervention `act` may change states during the pass.
        """
        states = [hidden]
        for number, block in enumerate(self.blocks):
            if act is not None:
                hidden = act((INPUT, number), hidden)

            normed = hidden
            if self.norm_before:
                normed = block.attention_norm(hidden)

            context = attend(number, block.attend(normed))
            if act is not None:
                context = act((HEADS, number), context)

            hidden = block.join(context, hidden)
            if self.norm_before:
                hidden = block.inner(block.inner_norm(hidden), hidden)
            else:
                hidden = block.attention_norm(hidden)
                hidden = block.inner_norm(block.inner(hidden, hidden))

            if self.keeps_layers:
                states.append(hidden)

        for part in self.finish:
            hidden = part(hidden)

        states[-1] = hidden
        states = [state[:rows] for state in states]
        if not self.keeps_layers:
            return TokenStates(states[-1], attention_mask)

        return TokenStates(states[-1], attention_mask, tuple(states))


def joint_attention(
    heads: int,
    group: int,
    short: bool,
    mask: Tensor | None,
    scale: float | None = None,
) -> Attend:
    """Return bidirectional attention that computes `group` rows in one product.

    `mask` is added to the scores of a group, `(batch / group or 1, heads or 1, side or 1, side)`, where `side`
    is `group * length`. With `short`, `short_attention` is used.
    """
    attended: Callable[..., Tensor] = functional.scaled_dot_product_attention
    if short:
        attended = short_attention

    def attend(_: int, mixed: Tensor) -> Tensor:
        batch, length = mixed.shape[:2]
        shape = (batch // group, group * length, 3, heads, -1)
        query, key, value = mixed.view(shape).permute(2, 0, 3, 1, 4)
        context = attended(query, key, value, attn_mask=mask, scale=scale)
        return context.transpose(1, 2).reshape(batch, length, -1)

    return attend


def in_whole_groups(input_ids: Tensor, group: int) -> Tensor:
    """Return the rows, with the last row repeated until their number is a multiple of `group`."""
    missing = -len(input_ids) % group
    if not missing:
        return input_ids

    return torch.cat([input_ids, input_ids[-1:].expand(missing, -1)])


def same_row(
    group: int,
    length: int,
    device: torch.device,
) -> Tensor:
    """Return which pairs of tokens of `group` rows are in the same row, `(group * length, group * length)`."""
    row = torch.arange(group * length, device=device) // length
    return row[:, None] == row


def hide(scores: Tensor, seen: Tensor) -> Tensor:
    """Return a mask for attention scores: `scores` where `seen`, and the type's least number elsewhere.

    A token that may see nothing gives all tokens the same weight, as in transformers.
    """
    return torch.where(seen, scores, torch.finfo(scores.dtype).min)
