"""What the packed forms share: norms, the way through the blocks, and attention of several rows together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs
import torch
from sentbed.protocols import TokenStates
from torch import Tensor
from torch.nn import functional

from sentbed_backbones._torch.interventions import HEADS, INPUT, Function
from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products
from sentbed_backbones._torch.short_attention import short_attention

Norm: TypeAlias = Callable[[Tensor], Tensor]

Attend: TypeAlias = Callable[[int, Tensor], Tensor]
"""Number of a block and its queries, keys and values, `(batch, length, width of all)` -> the joined heads."""


def layer_norm(norm: Any, products: Products) -> Norm:
    """Return a `LayerNorm` with copies of its weights."""
    eps = norm.eps
    weight = norm.weight
    bias = norm.bias
    if weight is not None:
        weight = products.copied(weight)
    if bias is not None:
        bias = products.copied(bias)

    return lambda x: functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rms_norm(norm: Any, products: Products) -> Norm:
    """Return the norm of LLaMA and T5 with a copy of its weights."""
    weight = products.copied(norm.weight)
    eps = norm.variance_epsilon

    def normalize(x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return functional.rms_norm(x, x.shape[-1:], weight, eps)

        # Up to ten times as fast as `rms_norm`, which makes fp32 copies of states in bf16.
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        mean_square = length.square() / x.shape[-1]
        scale = torch.rsqrt(mean_square + eps).to(x.dtype)
        return (x * scale).mul_(weight)

    return normalize


class Block(NamedTuple):
    """The parts of one block; `join` and `inner` add their second argument to the result."""

    attend: Linear
    """Queries, keys and values of all heads, in this order."""
    join: Linear
    """The projection of the joined heads."""
    attention_norm: Norm
    """The norm of attention, before or after it."""
    inner: Linear
    """The feed-forward layer."""
    inner_norm: Norm
    """The norm of the feed-forward layer, before or after it."""


@attrs.frozen
class Stack:
    """The blocks of a transformer: its states from the embeddings to the last."""

    blocks: Sequence[Block]
    norm_before: bool
    """Whether norms stand before attention and inner layer, or after them."""
    keeps_layers: bool
    """Whether the states of all layers are returned."""
    finish: Sequence[Norm] = ()
    """What the last block's states pass through."""

    def run(
        self,
        hidden: Tensor,
        attend: Attend,
        attention_mask: Tensor | None,
        rows: int,
        act: Function | None = None,
    ) -> TokenStates:
        """Return the states of the first `rows` of a batch from its embeddings, `(batch, length, width)`.

        Further rows are there for the shape alone. `act` is an intervention.
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
    heads: int, group: int, short: bool, mask: Tensor | None, scale: float | None = None
) -> Attend:
    """Return attention in both directions in which `group` rows share one product.

    `mask` is added to the scores of a group, `(batch / group or 1, heads or 1, side or 1, side)`; `short` says
    that `short_attention` suits.
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
    """Return the rows with the last one repeated until their number is a multiple of `group`."""
    missing = -len(input_ids) % group
    if not missing:
        return input_ids

    return torch.cat([input_ids, input_ids[-1:].expand(missing, -1)])


def same_row(group: int, length: int, device: torch.device) -> Tensor:
    """Return which tokens of `group` rows are of one row, `(group * length, group * length)`."""
    row = torch.arange(group * length, device=device) // length
    return row[:, None] == row


def hide(scores: Tensor, seen: Tensor) -> Tensor:
    """Return what is added to scores, with the least number for what is not `seen`.

    A row that sees nothing weighs all tokens alike, as in transformers.
    """
    return torch.where(seen, scores, torch.finfo(scores.dtype).min)
