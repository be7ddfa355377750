"""A faster forward pass of OPT and LLaMA for encoding.

One product computes queries, keys and values; on a processor, weights are laid out once for oneDNN and the
activation is fused into the product. A prefix shared by all texts passes through the layers once. A test
checks that it equals transformers' own forward pass.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
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
from sentbed_backbones._torch.packed_parts import (
    Norm,
    in_whole_groups,
    layer_norm,
    projections,
    rms_norm,
)
from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products, is_plain

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
    """RoPE's rotations of prefix and rows; with some kinds of scaling they depend on the total length."""
    attended: list[Pair]
    """Keys and values of each layer, each `(1, shared, heads, width of a head)`."""
    states: list[Tensor]
    """The states to return for the prefix, each `(1, shared, width)`."""

    def holds(self, prefix: Tensor, turns: Pair | None) -> bool:
        """Whether it is the past of this prefix, under rotations that are the same for its tokens."""
        if not torch.equal(self.ids, prefix):
            return False

        if self.turns is None or turns is None:
            return True

        shared = len(prefix)
        return torch.equal(self.turns[0][:shared], turns[0][:shared])


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
        changed = self.act(place, states[:first].view(self.rows, length, -1))
        changed = changed.reshape(first, -1)
        if len(states) == first:
            return changed

        return torch.cat([changed, states[first:]])


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
        self.final_norm: Norm | None = None
        self.layers: list[Layer] = []
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
        cast = products.copied
        self.words = cast(model.embed_tokens.weight)
        self.positions = cast(
            model.embed_positions.weight[model.embed_positions.offset :]
        )
        self.head_width = model.config.hidden_size // self.heads
        self.norm_before = model.config.do_layer_norm_before
        if model.final_layer_norm is not None:
            self.final_norm = layer_norm(model.final_layer_norm, cast)
        if model.project_in is not None:
            self.project_in = products.linear_of(model.project_in)
            self.project_out = products.linear_of(model.project_out)

        activation = model.config.activation_function
        for layer in model.layers[: self.depth]:
            parts = layer.self_attn
            self.layers.append(
                Layer(
                    projections(products, parts.q_proj, parts.k_proj, parts.v_proj),
                    products.linear_of(parts.out_proj),
                    layer_norm(layer.self_attn_layer_norm, cast),
                    products.inner_of(layer.fc1, activation, layer.fc2),
                    layer_norm(layer.final_layer_norm, cast),
                )
            )

    def _take_llama(self, model: Any, products: Products) -> None:
        cast = products.copied
        self.words = cast(model.embed_tokens.weight)
        self.rotary = copy.deepcopy(model.rotary_emb)
        self.key_heads = model.config.num_key_value_heads
        self.head_width = model.config.head_dim
        self.final_norm = rms_norm(model.norm, cast)
        for layer in model.layers[: self.depth]:
            parts = layer.self_attn
            self.layers.append(
                Layer(
                    projections(products, parts.q_proj, parts.k_proj, parts.v_proj),
                    products.linear_of(parts.o_proj),
                    rms_norm(layer.input_layernorm, cast),
                    _gated(layer.mlp, products),
                    rms_norm(layer.post_attention_layernorm, cast),
                )
            )

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
        past: Past | None = None
        if prefix is not None and shared:
            past = self.remember(prefix, turns)

        mask: Tensor | None = None
        if attention_mask is None or (self.causal and attention_mask[:, 0].all()):
            # Padding on the right is behind all that a token attends to.
            group = self.group(rows, length, shared)
            places = torch.arange(shared, shared + length, device=input_ids.device)
            if past is not None or group > 1:
                mask = self.grouped(group, length, shared)
        else:
            group = 1
            places, mask = self.padded(attention_mask.bool(), shared)

        input_ids = in_whole_groups(input_ids, group)
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

        layers = tuple(states) if self.keeps_layers else None
        return TokenStates(states[-1], attention_mask, layers)

    def remember(self, prefix: Tensor, turns: Pair | None) -> Past:
        """Return the cached states of the prefix, computed again unless it is the previous one."""
        past = self.past
        if past is not None and past.holds(prefix, turns):
            return past

        places = torch.arange(len(prefix), device=prefix.device)
        attended: list[Pair] = []
        states = self.run(prefix[None], places, turns, None, 1, None, attended)
        past = Past(prefix.clone(), turns, attended, states)
        self.past = past
        return past

    def run(  # noqa: C901, PLR0912 - a pass from tokens to states, in its order
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
            normed = layer.attention_norm(hidden) if self.norm_before else hidden
            heads = layer.attend(normed).view(batch, length, -1, self.head_width)
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
                past_key, past_value = past.attended[number]
                key = torch.cat([past_key.expand(len(key), -1, -1, -1), key], 1)
                value = torch.cat([past_value.expand(len(value), -1, -1, -1), value], 1)
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
        if not self.keeps_layers:
            return [last]

        return [*states, last]

    def group(self, rows: int, length: int, shared: int) -> int:
        """Return how many rows share one attention product, masked from each other.

        Attention over few tokens is too small a product for a processor: several rows at a time are faster
        although part of the product is discarded, and after a prefix they share one copy of it.
        """
        if self.words.device.type != "cpu":
            return 1
        if shared:
            group = round(TOKENS_BEHIND_A_PREFIX / length)
        elif self.words.dtype == torch.bfloat16:
            group = TOKENS_ALONE // length
        else:
            return 1
        return max(1, min(group, rows))

    def grouped(self, group: int, length: int, shared: int) -> Tensor:
        """Return the mask of rows that share one attention product after a prefix."""
        place = torch.arange(group * length, device=self.words.device)
        seen = place[:, None] // length == place // length
        if self.causal:
            seen = seen & (place[:, None] >= place)
        return self.additive(seen, shared)

    def padded(self, real: Tensor, shared: int) -> tuple[Tensor, Tensor]:
        """Return the positions, `(batch, length)`, and the mask of rows padded on either side."""
        itself = torch.eye(real.shape[1], dtype=torch.bool, device=real.device)
        seen = torch.ones_like(itself)
        if self.causal:
            seen = seen.tril()

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


def _gated(inner: Any, products: Products) -> Linear:
    gate = products.linear_of(inner.gate_proj, "silu")
    widen = products.linear_of(inner.up_proj, join="mul")
    narrow = products.linear_of(inner.down_proj)
    return lambda x, other: narrow(widen(x, gate(x)), other)
