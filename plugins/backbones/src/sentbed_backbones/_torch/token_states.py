"""Models of transformers as modules `(input_ids, attention_mask | None) -> TokenStates`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from sentbed import ModelError
from sentbed.protocols import TokenStates
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from sentbed_backbones._torch.interventions import (
    Batch,
    BuiltIntervention,
    ChangeStates,
    ReachedError,
    hooked,
    last_tokens,
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


class CausalPass(nn.Module):
    """The forward pass of a causal model: `(input_ids, attention_mask | None, past, shared) -> TokenStates`.

    `intervention`, if it is not None, changes states during the pass; `TokenStates.layers` has the
    outputs of the blocks before it changes them.
    """

    def __init__(self, intervention: BuiltIntervention | None) -> None:
        super().__init__()
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
        raise NotImplementedError


class CausalStates(CausalPass):
    """The forward pass of transformers; positions are computed from the mask, so padding may be on either side.

    With `depth`, only the first `depth` blocks are run: `TokenStates.layers` has the embeddings and the outputs
    of these blocks, without the final norm.
    """

    def __init__(
        self,
        model: Any,
        layers: bool,
        depth: int | None = None,
        intervention: BuiltIntervention | None = None,
    ) -> None:
        super().__init__(intervention)
        self.model = model
        self.layers = layers
        self.depth = depth

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


class SharedPrefixStates(nn.Module):
    """A causal model for encoding that computes a shared prefix once and caches it.

    `(input_ids, attention_mask | None, prefix | None) -> TokenStates`; the returned states and mask begin with
    those of the prefix.
    """

    def __init__(self, states: CausalPass) -> None:
        super().__init__()
        self.states = states
        self.reentrant: bool = getattr(states, "reentrant", False)
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
            layers = tuple(map(_joined, prefix_states.layers, row_states.layers))

        last = _joined(prefix_states.last_hidden_state, row_states.last_hidden_state)
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
        return _joined(self.keys, key_states, 2), _joined(self.values, value_states, 2)


def _joined(
    first: Tensor,
    rows: Tensor,
    dim: int = 1,
) -> Tensor:
    """Put a prefix's tensor `(1, ...)` before the tensor of each row, along `dim`."""
    shape = (len(rows), *first.shape[1:])
    return torch.cat([first.expand(shape), rows], dim)


class PoolerStates(nn.Module):
    """A forward pass that returns what a pooler reads: states averaged over layers, the mask token's state.

    `readings` has the numbers of the layers to average: first those of the backbone, then those of each prompt
    that names layers. If there is more than one such set of numbers, each call needs the argument `readings`:
    for each row, the index of its set. With `hides`, tokens may be hidden from the pooler: each call needs the
    argument `hidden`, and the returned mask is never None. See `TokenBatch`.
    """

    def __init__(
        self,
        states: Any,
        readings: Sequence[tuple[int, ...]],
        keep_layers: bool,
        mask_id: int | None,
        hides: bool = False,
    ) -> None:
        super().__init__()
        self.states = states
        self.reentrant: bool = getattr(states, "reentrant", False)
        self.readings = readings
        self.keep_layers = keep_layers
        self.mask_id = mask_id
        self.hides = hides

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        *prefix: Tensor,
        hidden: Tensor | None = None,
        readings: Tensor | None = None,
        **auxiliary: Batch,
    ) -> TokenStates:
        """Return the token states for the pooler.

        `hidden` `(batch, shared + length)` and `readings` `(batch,)` are the fields of `TokenBatch`.

        Raises:
            ModelError: if one of these fields is needed and is None.
        """
        self._require_fields(hidden, readings)
        states: TokenStates = self.states(
            input_ids, attention_mask, *prefix, **auxiliary
        )
        vectors = self.chosen(states, readings)
        states = states._replace(last_hidden_state=vectors)
        if self.mask_id is not None:
            # A text may contain a mask token too; the last one is the template's.
            last = last_tokens(input_ids, input_ids == self.mask_id)
            shape = (-1, 1, vectors.shape[-1])
            mask_state = vectors.gather(1, last[:, None, None].expand(shape))
            states = states._replace(mask_state=mask_state[:, 0])

        if hidden is not None:
            mask = (~hidden).long()
            if states.attention_mask is not None:
                mask = states.attention_mask * mask

            states = states._replace(attention_mask=mask)

        if not self.keep_layers:
            states = states._replace(layers=None)

        return states

    def _require_fields(self, hidden: Tensor | None, readings: Tensor | None) -> None:
        """Raise `ModelError` if a field of the batch is None, although the vectors depend on it."""
        missing = []
        if self.hides and hidden is None:
            missing.append("hidden")
        if len(self.readings) > 1 and readings is None:
            missing.append("readings")
        if missing:
            raise ModelError(
                f"the prompts of this encoder hide tokens or choose layers, and its module is called without "
                f"`{'` and `'.join(missing)}`; an engine hands over `TokenBatch.keywords` (docs/engines.md)"
            )

    def chosen(self, states: TokenStates, readings: Tensor | None) -> Tensor:
        """Return the states of each row, averaged over the layers that it reads, `(batch, length, width)`."""
        vectors = self.mean_of_layers(states, self.readings[0])
        for place, numbers in enumerate(self.readings[1:], 1):
            assert readings is not None
            # All rows are computed with each set of layers: a compiled graph cannot select rows by their
            # content.
            is_read = (readings == place)[:, None, None]
            vectors = torch.where(
                is_read, self.mean_of_layers(states, numbers), vectors
            )

        return vectors

    @staticmethod
    def mean_of_layers(states: TokenStates, numbers: tuple[int, ...]) -> Tensor:
        """Return the states averaged over the layers with these numbers, `(batch, length, width)`."""
        if numbers == (-1,):
            last: Tensor = states.last_hidden_state
            return last

        assert states.layers is not None
        return (
            torch.stack([states.layers[number] for number in numbers]).float().mean(0)
        )


class TemplateDenoising(nn.Module):
    """Runs `PoolerStates`, and subtracts the template's state from the mask token's state.

    The template's state is the mask token's state in the template without a sentence. The tokens behind the
    sentence keep the positions that they have in the text, so the template's state depends on the sentence's
    length. Source: PromptBERT (Jiang et al., 2022), section 4.3.
    """

    def __init__(
        self,
        read: PoolerStates,
        template: EmptyTemplate,
        first_position: int,
    ) -> None:
        super().__init__()
        self.read = read
        self.template = template
        self.first_position = first_position

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        readings: Tensor | None = None,
    ) -> TokenStates:
        """Return the token states for the pooler; `readings` as in `PoolerStates`."""
        states: TokenStates = self.read(input_ids, attention_mask, readings=readings)
        if attention_mask is None:
            lengths = torch.full_like(input_ids[:, 0], input_ids.shape[1])
        else:
            lengths = attention_mask.sum(1)

        assert states.mask_state is not None
        return states._replace(
            mask_state=states.mask_state - self._noise(lengths, readings)
        )

    def _noise(self, lengths: Tensor, readings: Tensor | None) -> Tensor:
        """Return the mask state of the template without a sentence, `(batch, width)`.

        It is computed for texts of these lengths, which decide the positions.
        """
        template = self.template
        ids = torch.tensor(template.ids, device=lengths.device)

        order = torch.arange(len(template.ids), device=lengths.device)
        is_behind = order >= template.sentence_place

        sentence = (lengths - len(template.ids)).clamp(min=0)[:, None]
        places = self.first_position + order + sentence * is_behind

        ids = ids.expand(len(lengths), -1)
        states: TokenStates = self.read.states(ids, None, places)
        chosen: Tensor = self.read.chosen(states, readings)
        return chosen[:, template.mask_place]


class EmptyTemplate(NamedTuple):
    """The tokens of a template without a sentence."""

    ids: tuple[int, ...]
    """Ids of the tokens, special tokens included."""
    sentence_place: int
    """Number of tokens before the place of the sentence."""
    mask_place: int
    """Index of the mask token."""

    @classmethod
    def of(cls, template: tuple[str, str], tokenizer: Any) -> EmptyTemplate:
        """Tokenise a template, which is the text before the sentence and the text behind it.

        White space before the sentence is left out; white space behind the sentence remains.

        Raises:
            ModelError: if a token covers parts of both texts, or if no mask token follows the sentence.
        """
        prefix, suffix = (
            part.replace("{mask}", tokenizer.mask_token) for part in template
        )
        before = tokenizer(prefix.strip())["input_ids"]
        ids = tokenizer((prefix.rstrip() + suffix).strip())["input_ids"]
        mask_id = tokenizer.mask_token_id

        # `before` has special tokens at its beginning and at its end; only the leading ones are counted.
        leading = tokenizer(tokenizer.mask_token)["input_ids"].index(mask_id)
        place = len(before) - len(tokenizer("")["input_ids"]) + leading
        if ids[:place] != before[:place] or mask_id not in ids[place:]:
            raise ModelError(
                f"the template {prefix + '{text}' + suffix!r} is tokenised as {ids} without a sentence, "
                f"which does not begin with its first part, {before[:place]}, or has no mask token behind "
                "it; put punctuation around `{text}`, or use a pooler without `denoise`"
            )

        last = len(ids) - 1 - ids[::-1].index(mask_id)
        return cls(tuple(ids), place, last)
