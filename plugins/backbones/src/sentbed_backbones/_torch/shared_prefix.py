"""Encoding of texts that share a prefix, with the prefix's keys and values from a cache."""

from __future__ import annotations

from typing import Any

import torch
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from sentbed_backbones._torch.interventions import Batch
from sentbed_backbones._torch.token_states import CausalStates


class SharedPrefixStates(nn.Module):
    """A causal model for encoding that computes a shared prefix once and caches it.

    `(input_ids, attention_mask | None, prefix | None) -> TokenStates`; the returned states and mask begin with
    those of the prefix.
    """

    def __init__(self, states: CausalStates) -> None:
        super().__init__()
        self.states = states
        self._kept: tuple[Tensor, DynamicCache, TokenStates] | None = None

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        prefix: Tensor | None = None,
        auxiliary: Batch | None = None,
    ) -> TokenStates:
        """Return the states of the prefix followed by those of each row."""
        if prefix is None:
            states: TokenStates = self.states(
                input_ids, attention_mask, auxiliary=auxiliary
            )
            return states

        past, prefix_states = self._cached_prefix(prefix)
        shared = len(prefix)
        row_states = self.states(input_ids, attention_mask, past, shared, auxiliary)
        if attention_mask is not None:
            attention_mask = functional.pad(attention_mask, (shared, 0), value=1)

        layers = None
        if prefix_states.layers is not None:
            assert row_states.layers is not None
            layers = tuple(map(joined, prefix_states.layers, row_states.layers))

        last = joined(prefix_states.last_hidden_state, row_states.last_hidden_state)
        return TokenStates(last, attention_mask, layers)

    def _cached_prefix(self, prefix: Tensor) -> tuple[DynamicCache, TokenStates]:
        """Return keys and values of a prefix, and its states; the last prefix's are kept for the next call."""
        kept = self._kept
        if kept is None or not torch.equal(kept[0], prefix):
            past = DynamicCache()
            states = self.states.run(prefix[None], None, past=past)
            for layer in past.layers:
                layer.__class__ = SharedLayer

            kept = (prefix.clone(), past, states)
            self._kept = kept

        return kept[1:]


class SharedLayer(DynamicLayer):
    """Cached keys and values of the prefix in one layer; keys and values of the rows are not cached."""

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *_: Any,
        **__: Any,
    ) -> tuple[Tensor, Tensor]:
        """Return the keys and values of the prefix followed by those of each row."""
        assert self.keys is not None
        assert self.values is not None
        return joined(self.keys, key_states, 2), joined(self.values, value_states, 2)


def joined(
    first: Tensor,
    rows: Tensor,
    dim: int = 1,
) -> Tensor:
    """Put a prefix's tensor `(1, ...)` before the tensor of each row, along `dim`."""
    shape = (len(rows), *first.shape[1:])
    return torch.cat([first.expand(shape), rows], dim)
