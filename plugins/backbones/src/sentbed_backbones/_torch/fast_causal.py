"""A faster forward pass of OPT and LLaMA for encoding.

One product computes queries, keys and values. On a processor, weights are laid out once for oneDNN, and the
activation is fused into the product. Tests compare the states with those of transformers.
"""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import torch
import transformers
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache

from sentbed_backbones._torch.fast_blocks import (
    Attend,
    Block,
    Norm,
    Stack,
    hide,
    in_whole_groups,
    layer_norm,
    rms_norm,
    same_row,
)
from sentbed_backbones._torch.interventions import BuiltIntervention, ChangeStates
from sentbed_backbones._torch.prepacked_cpu_linear import Linear, Products, is_plain
from sentbed_backbones._torch.token_states import CausalPass, positions

Rotation: TypeAlias = tuple[Tensor, Tensor]
"""Cosine and signed sine of RoPE's rotations, each `(batch or 1, length, 1, width of a head)`."""

TOKENS_BEHIND_A_PREFIX = 48
"""Approximate number of tokens in one attention product after a shared prefix, on a processor."""

TOKENS_ALONE = 32
"""Largest number of tokens in one attention product without a prefix, in bf16 on a processor."""

ACTIVATIONS = {
    transformers.OPTModel: ("activation_function", ("relu", "gelu")),
    transformers.LlamaModel: ("hidden_act", ("silu", "swish")),
}
"""For each architecture, the setting of its activation and the activations that are implemented."""

KEPT_FREQUENCIES = ("dynamic", "longrope")
"""Kinds of RoPE whose module keeps frequencies from call to call, which depend on the longest text so far."""


class FastCausal(CausalPass):
    """A faster `CausalPass` of an OPT or a LLaMA in eval mode.

    Attention is causal, unless `is_causal` is false in the configuration; then a shared prefix is not
    supported. With `layers`, `TokenStates.layers` has the embeddings and the output of every layer; the last
    layer's is after the final norm. With `depth`, only the first `depth` blocks are copied and run, without the
    final norm.
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
        intervention: BuiltIntervention | None = None,
    ) -> None:
        super().__init__(intervention)
        config = model.config
        self.causal = getattr(config, "is_causal", True)
        self.heads = self.key_heads = config.num_attention_heads
        self.positions: Tensor | None = None
        self.project_in: Linear | None = None
        self.rotary: nn.Module | None = None
        if type(model) is transformers.OPTModel:
            self.stack = self._take_opt(model.decoder, products, depth, layers)
        else:
            self.stack = self._take_llama(model, products, depth, layers)

        # Concurrent calls would share what an intervention keeps during a call, and RoPE's frequencies for the
        # longest text.
        rope = getattr(self.rotary, "rope_type", None)
        self.reentrant = intervention is None and rope not in KEPT_FREQUENCIES

    def _take_opt(
        self,
        model: Any,
        products: Products,
        depth: int | None,
        layers: bool,
    ) -> Stack:
        """Copy the embeddings of an OPT, and return its blocks in their fast form."""
        places = model.embed_positions
        self.words = products.copied(model.embed_tokens.weight)
        self.positions = products.copied(places.weight[places.offset :])
        self.head_width = model.config.hidden_size // self.heads
        if model.project_in is not None:
            self.project_in = products.linear_of(model.project_in)

        activation = model.config.activation_function
        blocks = []
        for layer in model.layers[:depth]:
            parts = layer.self_attn
            block = Block(
                attend=products.joint(parts.q_proj, parts.k_proj, parts.v_proj),
                join=products.linear_of(parts.out_proj),
                attention_norm=layer_norm(layer.self_attn_layer_norm, products),
                inner=products.inner(layer.fc1, activation, layer.fc2),
                inner_norm=layer_norm(layer.final_layer_norm, products),
            )
            blocks.append(block)

        finish: list[Norm] = []
        if depth is None and model.final_layer_norm is not None:
            finish.append(layer_norm(model.final_layer_norm, products))
        if depth is None and model.project_out is not None:
            finish.append(products.linear_of(model.project_out))

        return Stack(blocks, model.config.do_layer_norm_before, layers, finish)

    def _take_llama(
        self,
        model: Any,
        products: Products,
        depth: int | None,
        layers: bool,
    ) -> Stack:
        """Copy the embeddings of a LLaMA, and return its blocks in their fast form."""
        self.words = products.copied(model.embed_tokens.weight)
        self.rotary = copy.deepcopy(model.rotary_emb)
        self.key_heads = model.config.num_key_value_heads
        self.head_width = model.config.head_dim

        blocks = []
        for layer in model.layers[:depth]:
            parts = layer.self_attn
            mlp = layer.mlp
            inner = products.gated_inner(
                mlp.gate_proj, "silu", mlp.up_proj, mlp.down_proj
            )
            block = Block(
                attend=products.joint(parts.q_proj, parts.k_proj, parts.v_proj),
                join=products.linear_of(parts.o_proj),
                attention_norm=rms_norm(layer.input_layernorm, products),
                inner=inner,
                inner_norm=rms_norm(layer.post_attention_layernorm, products),
            )
            blocks.append(block)

        finish = []
        if depth is None:
            finish.append(rms_norm(model.norm, products))

        return Stack(blocks, True, layers, finish)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        act: ChangeStates | None = None,
        past: DynamicCache | None = None,
        shared: int = 0,
    ) -> TokenStates:
        """Return the states of the rows, `(batch, length, width)`; `act` may change them during the pass.

        Rows are padded on the right or on the left, never within a text. `past` has the cached keys and values
        of the `shared` tokens that precede every row.
        """
        rows, length = input_ids.shape
        group = 1
        places = torch.arange(shared, shared + length, device=input_ids.device)[None]
        real: Tensor | None = None
        if attention_mask is None or (self.causal and attention_mask[:, 0].all()):
            # Under causal attention, no token of a text attends to padding on the right.
            if act is None:
                group = self.group(rows, length, shared)
        else:
            places = positions(attention_mask) + shared
            real = attention_mask.bool()

        input_ids = in_whole_groups(input_ids, group)

        hidden = functional.embedding(input_ids, self.words)
        if self.project_in is not None:
            hidden = self.project_in(hidden)
        if self.positions is not None:
            hidden = hidden + functional.embedding(places, self.positions)

        mask = self.mask(group, length, shared, real)
        attend = self.attention(group, mask, self.rotations(places), past)
        return self.stack.run(hidden, attend, attention_mask, rows, act)

    def attention(
        self,
        group: int,
        mask: Tensor | None,
        rotations: Rotation | None,
        past: Any,
    ) -> Attend:
        """Return attention over `past` and the rows themselves, for `group` rows in one product.

        `mask` hides tokens. Without a mask, tokens attend causally or, in a bidirectional model, to the whole
        row.
        """
        head_counts = [self.heads, self.key_heads, self.key_heads]

        def attend(number: int, mixed: Tensor) -> Tensor:
            batch, length = mixed.shape[:2]
            heads = mixed.view(batch, length, -1, self.head_width)
            query, key, value = heads.split(head_counts, 2)
            if rotations is not None:
                # Queries and keys are rotated together; the last heads are the values.
                rotated = _rotate(heads[:, :, : -self.key_heads], *rotations)
                query, key = rotated.split(head_counts[:2], 2)

            shape = (batch // group, group * length, -1, self.head_width)
            query = query.view(shape).transpose(1, 2)
            key = key.view(shape).transpose(1, 2)
            value = value.view(shape).transpose(1, 2)
            if past is not None:
                key, value = past.update(key, value, number)

            context = functional.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=mask,
                is_causal=self.causal and mask is None,
                enable_gqa=self.heads != self.key_heads,
            )
            return context.transpose(1, 2).reshape(batch, length, -1)

        return attend

    def group(
        self,
        rows: int,
        length: int,
        shared: int,
    ) -> int:
        """Return how many rows share one attention product, masked from each other.

        Attention over few tokens is too small a product for a processor. Several rows in one product are
        faster, although part of the product is discarded; behind a prefix, they also share one copy of its keys
        and values.
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

    def mask(
        self,
        group: int,
        length: int,
        shared: int,
        real: Tensor | None,
    ) -> Tensor | None:
        """Return the mask that is added to the attention scores of a group; None if the kernel needs none.

        `real`, `(batch, length)`, is False for padding.
        """
        if real is None and group == 1 and not shared:
            return None

        seen = same_row(group, length, self.words.device)
        if self.causal:
            seen = seen.tril()
        if real is not None:
            seen = seen & real[:, None, None, :]

        mask = hide(self.words.new_zeros(()), seen)
        return functional.pad(mask, (shared, 0))

    def rotations(self, places: Tensor) -> Rotation | None:
        """Return RoPE's rotations at the positions `places`, `(batch or 1, length)`; None without RoPE."""
        if self.rotary is None:
            return None

        cosine, sine = self.rotary(self.words, places)
        first, second = sine.chunk(2, -1)
        signed = torch.cat([-first, second], -1)
        return cosine[:, :, None], signed[:, :, None]


def _rotate(
    heads: Tensor,
    cosine: Tensor,
    sine: Tensor,
) -> Tensor:
    """Rotate heads `(batch, length, heads, width)`: components half a width apart form a pair."""
    half = heads.shape[-1] // 2
    swapped = heads.roll(half, -1)
    return (heads * cosine).addcmul_(swapped, sine)
