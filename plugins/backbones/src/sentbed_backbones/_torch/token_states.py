"""Forward passes of transformers as modules `(input_ids, attention_mask | None) -> TokenStates`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from sentbed import ModelError
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache

from sentbed_backbones._torch.interventions import (
    Batch,
    BuiltIntervention,
    ChangeStates,
    ReachedError,
    hooked,
)


class EncoderStates(nn.Module):
    """A bidirectional encoder; if the model has a masked-language-modelling head, the states are its logits.

    With `counts`, positions are computed from the mask and passed to the model, so that padding may be on
    either side. It is for models with absolute positions that do not compute them from the padding themselves.
    """

    def __init__(
        self,
        model: Any,
        layers: bool,
        counts: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.layers = layers
        self.counts = counts

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        position_ids: Tensor | None = None,
    ) -> TokenStates:
        """Return the states of the last layer and, with `layers`, of every layer.

        `position_ids` `(batch, length)` are passed to the model instead of computed positions.
        """
        places = {}
        if position_ids is not None:
            places["position_ids"] = position_ids
        elif self.counts and attention_mask is not None:
            places["position_ids"] = positions(attention_mask)

        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            output_hidden_states=self.layers,
            **places,
        )
        # The first field is `last_hidden_state` or, in a model with a head, `logits`.
        return TokenStates(output[0], attention_mask, output.hidden_states)


def positions(attention_mask: Tensor) -> Tensor:
    """Return the position of each token in its text, `(batch, length)`, whichever side is padded."""
    return (attention_mask.cumsum(1) - 1).clamp(min=0)


class EncoderDecoderStates(nn.Module):
    """T5's encoder and decoder, with the start token as the only decoder input (Sentence-T5, section 3.1)."""

    def __init__(self, model: Any, layers: bool) -> None:
        super().__init__()
        self.model = model
        self.layers = layers
        self.start = start_token(model.config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> TokenStates:
        """Return the encoder's states and the decoder's first output."""
        shape = (input_ids.shape[0], 1)
        # Graph exporters would assume fp32 without the type.
        start = torch.full(
            shape, self.start, dtype=torch.int64, device=input_ids.device
        )
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=start,
            use_cache=False,
            output_hidden_states=self.layers,
        )
        return TokenStates(
            output.encoder_last_hidden_state,
            attention_mask,
            output.encoder_hidden_states,
            decoder_state=output.last_hidden_state[:, 0],
        )


def start_token(config: Any) -> int:
    """Return the id of the token with which T5's decoder starts."""
    start = getattr(config, "decoder_start_token_id", None)
    if start is None:
        start = config.pad_token_id

    return int(start)


class CausalStates(nn.Module):
    """The forward pass of a causal model: `(input_ids, attention_mask | None, past, shared) -> TokenStates`.

    Positions are computed from the mask, so padding may be on either side. With `depth`, only the first `depth`
    blocks are run: `TokenStates.layers` has the embeddings and the outputs of these blocks, without the final
    norm. `intervention`, if it is not None, changes states during the pass; `TokenStates.layers` has the outputs
    of the blocks before it changes them.
    """

    def __init__(
        self,
        model: Any,
        layers: bool,
        depth: int | None = None,
        intervention: BuiltIntervention | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.layers = layers
        self.depth = depth
        self.intervention = intervention

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        past: DynamicCache | None = None,
        shared: int = 0,
        auxiliary: Batch | None = None,
    ) -> TokenStates:
        """Return the states of the rows.

        `past` has the cached keys and values of the `shared` tokens that precede every row. `auxiliary` has the
        auxiliary prompt of each row: the same text in a second prompt.

        Raises:
            ModelError: if the intervention needs auxiliary prompts and `auxiliary` is None.
        """
        act: ChangeStates | None = None
        if self.intervention is not None:
            act = self.intervention.function_for(
                input_ids, attention_mask, auxiliary, self.run
            )

        return self.run(input_ids, attention_mask, act, past, shared)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        act: ChangeStates | None = None,
        past: DynamicCache | None = None,
        shared: int = 0,
    ) -> TokenStates:
        """Return the states of the rows; `act` changes them during the pass."""
        whole_mask = attention_mask
        if attention_mask is None:
            # OPT's own code computes positions with a sum that is not deterministic on a GPU.
            last = shared + input_ids.shape[1]
            places = torch.arange(shared, last, device=input_ids.device)[None]
        else:
            places = positions(attention_mask) + shared
            whole_mask = functional.pad(attention_mask, (shared, 0), value=1)

        inputs = {
            "input_ids": input_ids,
            "attention_mask": whole_mask,
            "position_ids": places,
            "past_key_values": past,
            "use_cache": past is not None,
        }
        with ExitStack() as hooks:
            if act is not None:
                assert self.intervention is not None
                blocks, acts_at = blocks_of(self.model), self.intervention.places
                hooks.enter_context(hooked(blocks, acts_at, act))

            if self.depth is not None:
                states = first_states(self.model, self.depth, inputs)
                return TokenStates(states[-1], attention_mask, states)

            output = self.model(**inputs, output_hidden_states=self.layers)

        return TokenStates(
            output.last_hidden_state, attention_mask, output.hidden_states
        )


def base_of(model: Any) -> Any:
    """Return the base model of a model with an adapter, or the model itself."""
    if hasattr(model, "get_base_model"):
        return model.get_base_model()

    return model


def outer_lists(module: nn.Module) -> Iterator[nn.ModuleList]:
    """Yield the lists of modules in a module, except lists within other lists."""
    for part in module.children():
        if isinstance(part, nn.ModuleList):
            # Its parts are not searched: a block may have as many experts as the model has blocks.
            yield part
        else:
            yield from outer_lists(part)


def blocks_of(model: Any) -> Any:
    """Return the `ModuleList` of a model's blocks. Raises `ModelError` if there is not exactly one."""
    count = model.config.num_hidden_layers
    base = base_of(model)
    matching = [part for part in outer_lists(base) if len(part) == count]
    if len(matching) != 1:
        raise ModelError(
            f"`{type(base).__name__}` has {len(matching)} lists of {count} blocks, expected one; "
            'read the last layer, `layers = "last"`, freeze no `layers`, or choose another model'
        )

    return matching[0]


def first_states(
    model: Any,
    depth: int,
    inputs: dict[str, Any],
) -> tuple[Tensor, ...]:
    """Return the embeddings and the outputs of blocks 0 to `depth` - 1; no later block is run."""
    states: list[Tensor] = []

    def record(
        _: Any,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        if arguments:
            states.append(arguments[0])
        else:
            states.append(named["hidden_states"])

        if len(states) > depth:
            raise ReachedError

    # A block's output differs between architectures, its input does not: states are inputs of the next block.
    blocks = blocks_of(model)[: depth + 1]
    with ExitStack() as hooks:
        for block in blocks:
            # This hook comes before an intervention's hook, which changes the block's input.
            handle = block.register_forward_pre_hook(
                record, with_kwargs=True, prepend=True
            )
            hooks.enter_context(handle)

        try:
            model(**inputs)
        except ReachedError:
            # An intervention that only records the states of an auxiliary prompt also ends the pass in this
            # way; its caller ignores the result.
            return tuple(states)

    raise ModelError(
        f"the pass of `{type(model).__name__}` ran {len(states)} of its first {depth + 1} blocks; "
        'read the last layer, `layers = "last"`, or choose another model'
    )
