"""A faster forward pass of OPT and LLaMA for encoding.

One product computes queries, keys and values; on a processor, weights are laid out once for oneDNN and the
activation is fused into the product. A prefix shared by all texts passes through the layers once. A test
checks that it equals transformers' own forward pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeAlias

import attrs
import torch
import transformers
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional

from sentbed_backbones._torch.interventions import (
    HEADS,
    INPUT,
    Acting,
    Batch,
    Function,
    Place,
)
from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products, is_plain

Norm: TypeAlias = Callable[[Tensor], Tensor]
Cast: TypeAlias = Callable[[Tensor], Tensor]
Pair: TypeAlias = tuple[Tensor, Tensor]

TOKENS_BEHIND_A_PREFIX = 48
"""Approximate number of tokens in one attention product after a shared prefix, on a processor."""

TOKENS_ALONE = 32
"""Largest number of tokens in one attention product without a prefix, in bf16 on a processor."""

ACTIVATIONS = {
    transformers.OPTModel: ("activation_function", ("relu", "gelu")),
    transformers.LlamaModel: ("hidden_act", ("silu", "swish")),
}
"""The name of each architecture's activation setting, and the activations that are packed."""

KEPT_FREQUENCIES = ("dynamic", "longrope")
"""Kinds of RoPE whose module keeps the frequencies for the longest text so far."""


class Layer(NamedTuple):
    """The parts of one layer, with norms before or after attention and inner layer."""

    attend: Linear
    join: Linear
    attention_norm: Norm
    inner: Linear
    inner_norm: Norm


class Past(NamedTuple):
    """The cached states of a prefix, for the rows that follow it."""

    ids: Tensor
    """Token ids of the prefix, `(shared,)`."""
    turns: Pair | None
    """RoPE's rotations of the prefix; with some kinds of scaling they depend on the total length."""
    attended: list[Pair]
    """Keys and values of each layer, each `(1, shared, heads, width of a head)`."""
    states: list[Tensor]
    """The states to return for the prefix, each `(1, shared, width)`."""


@attrs.frozen(eq=False)
class Change:
    """What changes the first `rows` of a batch at `places`; further rows are there for the shape alone."""

    rows: int
    places: Collection[Place]
    act: Function

    def __call__(self, place: Place, states: Tensor, length: int) -> Tensor:
        """Return the states at a place, `(batch * length, width)`."""
        if place not in self.places:
            return states
        first = self.rows * length
        changed = self.act(place, states[:first].view(self.rows, length, -1)).reshape(
            first, -1
        )
        return changed if len(states) == first else torch.cat([changed, states[first:]])


class FastCausal(nn.Module):
    """`module(input_ids, attention_mask | None, prefix | None) -> TokenStates` of an OPT or LLaMA, eval mode.

    Attention is causal, unless the configuration says `is_causal` = false; then there must be no prefix.
    With `layers`, `TokenStates.layers` is set: the embeddings, then every layer, the last after all norms.
    With `depth`, only that many blocks are run (and held), and no state is after the final norm. `acting` is
    as in `CausalStates`, and then the module takes `auxiliary` too.
    """

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether this class implements the model's forward pass."""
        if type(model) not in ACTIVATIONS:
            return False
        name, activations = ACTIVATIONS[type(model)]
        return is_plain(model) and getattr(model.config, name) in activations

    def __init__(
        self,
        model: Any,
        products: Products,
        layers: bool = False,
        depth: int | None = None,
        acting: Acting | None = None,
    ) -> None:
        super().__init__()
        self.causal = getattr(model.config, "is_causal", True)
        self.keeps_layers = layers
        self.depth = depth
        self.acting = acting
        self.past: Past | None = None
        self.norm_before = True
        self.positions: Tensor | None = None
        self.project_in: Linear | None = None
        self.project_out: Linear | None = None
        self.rotary: nn.Module | None = None
        self.heads = self.key_heads = model.config.num_attention_heads
        if type(model) is transformers.OPTModel:
            self._take_opt(model.decoder, products)
        else:
            self._take_llama(model, products)
        # An intervention may keep something during a call; frequencies that follow the length are kept.
        self.reentrant = (
            acting is None
            and getattr(self.rotary, "rope_type", "") not in KEPT_FREQUENCIES
        )

    def _take_opt(self, model: Any, products: Products) -> None:
        config, cast = model.config, products.copied
        self.words = cast(model.embed_tokens.weight)
        self.positions = cast(
            model.embed_positions.weight[model.embed_positions.offset :]
        )
        self.head_width = config.hidden_size // self.heads
        self.norm_before = config.do_layer_norm_before
        self.final_norm = (
            None
            if model.final_layer_norm is None
            else _layer_norm(model.final_layer_norm, cast)
        )
        if model.project_in is not None:
            self.project_in = products.linear_of(model.project_in)
            self.project_out = products.linear_of(model.project_out)
        self.layers = [
            Layer(
                _attend(layer.self_attn, products),
                products.linear_of(layer.self_attn.out_proj),
                _layer_norm(layer.self_attn_layer_norm, cast),
                products.inner_of(layer.fc1, config.activation_function, layer.fc2),
                _layer_norm(layer.final_layer_norm, cast),
            )
            for layer in model.layers[: self.depth]
        ]

    def _take_llama(self, model: Any, products: Products) -> None:
        cast = products.copied
        self.words = cast(model.embed_tokens.weight)
        self.rotary = copy.deepcopy(model.rotary_emb)
        self.key_heads = model.config.num_key_value_heads
        self.head_width = model.config.head_dim
        self.final_norm = _rms_norm(model.norm, cast)
        self.layers = [
            Layer(
                _attend(layer.self_attn, products),
                products.linear_of(layer.self_attn.o_proj),
                _rms_norm(layer.input_layernorm, cast),
                _gated(layer.mlp, products),
                _rms_norm(layer.post_attention_layernorm, cast),
            )
            for layer in model.layers[: self.depth]
        ]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        prefix: Tensor | None = None,
        auxiliary: Batch | None = None,
    ) -> TokenStates:
        """Return the last layer's states; each row begins with those of `prefix`, `(shared,)`.

        Rows are padded on the right or on the left, never within a text.
        """
        act: Function | None = None
        if self.acting is not None:
            act = self.acting.on(
                input_ids,
                attention_mask,
                auxiliary,
                lambda ids, mask, function: self.states(ids, mask, None, function),
            )
        return self.states(input_ids, attention_mask, prefix, act)

    def states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        prefix: Tensor | None,
        act: Function | None,
    ) -> TokenStates:
        """Return the states of prefix and rows; `act` changes those of the rows on the way."""
        rows, length = input_ids.shape
        shared = 0 if prefix is None else len(prefix)
        turns = self.turns(shared + length)
        past = self.remember(prefix, turns) if prefix is not None and shared else None
        mask: Tensor | None
        if attention_mask is not None and not (
            self.causal and attention_mask[:, 0].all()
        ):
            group = 1
            places, mask = self.padded(attention_mask.bool(), shared)
        else:
            group = self.group(rows, length, shared)
            places = torch.arange(shared, shared + length, device=input_ids.device)
            mask = (
                None
                if past is None and group == 1
                else self.grouped(group, length, shared)
            )
        if rows % group:
            input_ids = torch.cat(
                [input_ids, input_ids[-1:].expand(group - rows % group, -1)]
            )
        change = None
        if act is not None and self.acting is not None:
            change = Change(rows, self.acting.places, act)
        states_of_groups = self.run(
            input_ids, places, turns, mask, group, past, change=change
        )
        states = [state[:rows] for state in states_of_groups]
        if past is not None:
            both = zip(past.states, states, strict=True)
            states = [
                torch.cat([before.expand(rows, -1, -1), state], 1)
                for before, state in both
            ]
            if attention_mask is not None:
                attention_mask = functional.pad(attention_mask, (shared, 0), value=1)
        return TokenStates(
            states[-1], attention_mask, tuple(states) if self.keeps_layers else None
        )

    def remember(self, prefix: Tensor, turns: Pair | None) -> Past:
        """Return the cached states of the prefix, computed again unless it is the previous one."""
        shared = len(prefix)
        turns_of_prefix = (
            None if turns is None else (turns[0][:shared], turns[1][:shared])
        )
        past = self.past
        if (
            past is None
            or not torch.equal(past.ids, prefix)
            or (
                past.turns is not None
                and turns_of_prefix is not None
                and not torch.equal(past.turns[0], turns_of_prefix[0])
            )
        ):
            places = torch.arange(shared, device=prefix.device)
            attended: list[Pair] = []
            states = self.run(prefix[None], places, turns, None, 1, None, attended)
            self.past = past = Past(prefix.clone(), turns_of_prefix, attended, states)
        return past

    def run(
        self,
        input_ids: Tensor,
        places: Tensor,
        turns: Pair | None,
        mask: Tensor | None,
        group: int,
        past: Past | None,
        attended: list[Pair] | None = None,
        change: Change | None = None,
    ) -> list[Tensor]:
        """Return the requested states, the last layer's last.

        `group` rows attend jointly to `past` and to themselves, under `mask` or, without one, causally or to
        the whole row.
        The keys and values of each layer are appended to `attended`; `change` is an intervention.
        """
        batch, length = input_ids.shape
        hidden = functional.embedding(input_ids, self.words)
        if self.project_in is not None:
            hidden = self.project_in(hidden)
        if self.positions is not None:
            hidden = hidden + functional.embedding(places, self.positions)
        if turns is not None:
            cosine, sine = (
                functional.embedding(places, turn)[..., None, :] for turn in turns
            )
        states = [hidden]
        hidden = hidden.reshape(batch * length, -1)
        for number, layer in enumerate(self.layers):
            if change is not None:
                hidden = change((INPUT, number), hidden, length)
            mixed = layer.attend(
                layer.attention_norm(hidden) if self.norm_before else hidden
            )
            heads = mixed.view(batch, length, -1, self.head_width)
            query, key, value = heads.split(
                [self.heads, self.key_heads, self.key_heads], 2
            )
            if turns is not None:
                turned = _turn(heads[:, :, : self.heads + self.key_heads], cosine, sine)
                query, key = turned.split([self.heads, self.key_heads], 2)
            query, key, value = (
                part.view(batch // group, group * length, -1, self.head_width)
                for part in (query, key, value)
            )
            if attended is not None:
                attended.append((key, value))
            if past is not None:
                before = (
                    part.expand(len(query), -1, -1, -1)
                    for part in past.attended[number]
                )
                key, value = (
                    torch.cat(both, 1)
                    for both in zip(before, (key, value), strict=True)
                )
            context = functional.scaled_dot_product_attention(
                query.transpose(1, 2),
                key.transpose(1, 2),
                value.transpose(1, 2),
                attn_mask=mask,
                is_causal=self.causal and mask is None,
                enable_gqa=self.heads != self.key_heads,
            )
            heads_out = context.transpose(1, 2).reshape(batch * length, -1)
            if change is not None:
                heads_out = change((HEADS, number), heads_out, length)
            hidden = layer.join(heads_out, hidden)
            if self.norm_before:
                hidden = layer.inner(layer.inner_norm(hidden), hidden)
            else:
                hidden = layer.attention_norm(hidden)
                hidden = layer.inner_norm(layer.inner(hidden, hidden))
            if self.depth is not None or (
                self.keeps_layers and number < len(self.layers) - 1
            ):
                states.append(hidden.view(batch, length, -1))
        if self.depth is not None:
            return states
        if self.final_norm is not None:
            hidden = self.final_norm(hidden)
        if self.project_out is not None:
            hidden = self.project_out(hidden)
        last = hidden.view(batch, length, -1)
        return [*states, last] if self.keeps_layers else [last]

    def group(self, rows: int, length: int, shared: int) -> int:
        """Return how many rows share one attention product, masked from each other.

        Attention over few tokens is too small a product for a processor: several rows at a time are faster
        although part of the product is discarded, and after a prefix they share one copy of it.
        """
        if self.words.device.type != "cpu":
            return 1
        if shared:
            group = round(TOKENS_BEHIND_A_PREFIX / length)
        else:
            group = TOKENS_ALONE // length if self.words.dtype == torch.bfloat16 else 1
        return max(1, min(group, rows))

    def grouped(self, group: int, length: int, shared: int) -> Tensor:
        """Return the mask of rows that share one attention product after a prefix."""
        place = torch.arange(group * length, device=self.words.device)
        same_row = place[:, None] // length == place // length
        return self.additive(
            same_row & (place[:, None] >= place) if self.causal else same_row, shared
        )

    def padded(self, real: Tensor, shared: int) -> tuple[Tensor, Tensor]:
        """Return the positions, `(batch, length)`, and the mask of rows padded on either side."""
        itself = torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
        seen = (
            torch.ones_like(itself).tril() if self.causal else torch.ones_like(itself)
        )
        places = (real.cumsum(1) - 1).clamp(min=0) + shared
        # A padded position attends to itself: some attention kernels fail if a position attends to nothing.
        return places, self.additive(seen & real[:, None, None, :] | itself, shared)

    def additive(self, seen: Tensor, shared: int) -> Tensor:
        """Return the additive mask that leaves visible what `seen` keeps, and the whole prefix."""
        mask = self.words.new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)
        return functional.pad(mask, (shared, 0))

    def turns(self, length: int) -> Pair | None:
        """Return RoPE's rotation per position: cosine and signed sine, each `(length, width of a head)`."""
        if self.rotary is None:
            return None
        places = torch.arange(length, device=self.words.device)
        cosine, sine = self.rotary(self.words, places[None])
        half = self.head_width // 2
        return cosine[0], torch.cat([-sine[0, :, :half], sine[0, :, half:]], 1)


def _turn(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    return (heads * cosine).addcmul_(heads.roll(heads.shape[-1] // 2, -1), sine)


def _attend(attention: Any, products: Products) -> Linear:
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
    return products.linear(torch.cat([part.weight for part in parts]), bias)


def _gated(inner: Any, products: Products) -> Linear:
    gate = products.linear_of(inner.gate_proj, "silu")
    widen = products.linear_of(inner.up_proj, join="mul")
    narrow = products.linear_of(inner.down_proj)
    return lambda x, other: narrow(widen(x, gate(x)), other)


def _layer_norm(norm: Any, cast: Cast) -> Norm:
    weight = None if norm.weight is None else cast(norm.weight)
    bias = None if norm.bias is None else cast(norm.bias)
    eps = norm.eps
    return lambda x: functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _rms_norm(norm: Any, cast: Cast) -> Norm:
    weight = cast(norm.weight)
    eps = norm.variance_epsilon

    def normalize(x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return functional.rms_norm(x, x.shape[-1:], weight, eps)
        # Three times as fast in bf16 as `rms_norm`, which makes fp32 copies: batch normalisation with each
        # token as a channel divides in one pass, in fp32.
        square = (
            torch.linalg.vector_norm(x, dim=-1, dtype=torch.float32).square()
            / x.shape[-1]
        )
        return functional.batch_norm(
            x[None], torch.zeros_like(square), square, eps=eps
        )[0].mul_(weight)

    return normalize
