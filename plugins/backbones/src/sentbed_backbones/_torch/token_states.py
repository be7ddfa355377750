"""A transformers model as `module(input_ids, attention_mask | None) -> TokenStates`."""

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
    Acting,
    Batch,
    Function,
    ReachedError,
    hooked,
    last_tokens,
)


class EncoderStates(nn.Module):
    """A bidirectional model; of one with a head for masked tokens, logits stand in the place of states.

    With `counts`, positions are counted from the mask and passed to the model, so that padding may be on
    either side; for models with absolute positions that do not count them themselves.
    """

    def __init__(self, model: Any, layers: bool, counts: bool = False) -> None:
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
        """Return the last layer's states, and every layer's if requested.

        `position_ids` `(batch, length)` replace the positions that are counted, for a model that takes them.
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
        # The first field is `last_hidden_state`, or `logits` of a model with a head.
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
        # Exporters of graphs take a fill without a type for fp32.
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
    """Return the id of the token with which the decoder of a T5 starts."""
    start = getattr(config, "decoder_start_token_id", None)
    if start is None:
        start = config.pad_token_id

    return int(start)


class CausalPass(nn.Module):
    """A pass of a decoder: `module(input_ids, attention_mask | None, past, shared) -> TokenStates`.

    With `acting`, an intervention changes states on the way; `TokenStates.layers` are the blocks' outputs
    before it does.
    """

    def __init__(self, acting: Acting | None) -> None:
        super().__init__()
        self.acting = acting

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        past: DynamicCache | None = None,
        shared: int = 0,
        auxiliary: Batch | None = None,
    ) -> TokenStates:
        """Return the rows' states; `past` is a cache of the `shared` tokens before every row.

        `auxiliary` is the auxiliary prompt of each row.

        Raises:
            ModelError: if the intervention needs it and it is not given.
        """
        act: Function | None = None
        if self.acting is not None:
            act = self.acting.on(input_ids, attention_mask, auxiliary, self.run)

        return self.run(input_ids, attention_mask, act, past, shared)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        act: Function | None = None,
        past: DynamicCache | None = None,
        shared: int = 0,
    ) -> TokenStates:
        """Return the rows' states, which `act` changes on the way."""
        raise NotImplementedError


class CausalStates(CausalPass):
    """transformers' own pass; positions are counted from the mask, so that padding may be on either side.

    With `depth`, the pass ends before block `depth` (from 0): `TokenStates.layers` are the embeddings and the
    outputs of the blocks before it, none of them after the final norm.
    """

    def __init__(
        self,
        model: Any,
        layers: bool,
        depth: int | None = None,
        acting: Acting | None = None,
    ) -> None:
        super().__init__(acting)
        self.model = model
        self.layers = layers
        self.depth = depth

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        act: Function | None = None,
        past: DynamicCache | None = None,
        shared: int = 0,
    ) -> TokenStates:
        """Return the rows' states, which `act` changes on the way."""
        seen = attention_mask
        if attention_mask is None:
            # OPT itself would count positions with a sum that is not deterministic on a GPU.
            last = shared + input_ids.shape[1]
            places = torch.arange(shared, last, device=input_ids.device)[None]
        else:
            places = positions(attention_mask) + shared
            seen = functional.pad(attention_mask, (shared, 0), value=1)

        inputs = {
            "input_ids": input_ids,
            "attention_mask": seen,
            "position_ids": places,
            "past_key_values": past,
            "use_cache": past is not None,
        }
        with ExitStack() as hooks:
            if act is not None:
                assert self.acting is not None
                blocks, acts_at = blocks_of(self.model), self.acting.places
                hooks.enter_context(hooked(blocks, acts_at, act))

            if self.depth is not None:
                states = first_states(self.model, self.depth, inputs)
                return TokenStates(states[-1], attention_mask, states)

            output = self.model(**inputs, output_hidden_states=self.layers)

        return TokenStates(
            output.last_hidden_state, attention_mask, output.hidden_states
        )


def base_of(model: Any) -> Any:
    """Return the model under an adapter, or the model itself."""
    if hasattr(model, "get_base_model"):
        return model.get_base_model()

    return model


def outer_lists(module: nn.Module) -> Iterator[nn.ModuleList]:
    """Yield the lists of modules within a module that are in no other list."""
    for part in module.children():
        if isinstance(part, nn.ModuleList):
            # Not what is in it: a block may have as many experts as the model has blocks.
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


def first_states(model: Any, depth: int, inputs: dict[str, Any]) -> tuple[Tensor, ...]:
    """Return the embeddings and the outputs of blocks 0 to `depth` - 1; no later block is run."""
    states: list[Tensor] = []

    def record(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if arguments:
            states.append(arguments[0])
        else:
            states.append(named["hidden_states"])
        if len(states) > depth:
            raise ReachedError

    # Only a block's input is the same thing in every architecture; a model's own loop cannot be shortened.
    blocks = blocks_of(model)[: depth + 1]
    with ExitStack() as hooks:
        for block in blocks:
            # Before an intervention's, which changes what a block reads and not what the one before it gave.
            handle = block.register_forward_pre_hook(
                record, with_kwargs=True, prepend=True
            )
            hooks.enter_context(handle)

        try:
            model(**inputs)
        except ReachedError:
            # Also of an intervention that records an auxiliary prompt, which needs no states.
            return tuple(states)

    raise ModelError(
        f"the pass of `{type(model).__name__}` ran {len(states)} of its first {depth + 1} blocks; "
        'read the last layer, `layers = "last"`, or choose another model'
    )


class SharedPrefixStates(nn.Module):
    """A causal model for encoding that computes a shared prefix once and caches it.

    `module(input_ids, attention_mask | None, prefix | None)`; the states and mask that it returns begin with
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
        """Return the states of prefix and rows."""
        if prefix is None:
            states: TokenStates = self.states(
                input_ids, attention_mask, auxiliary=auxiliary
            )
            return states

        past, first = self._of_prefix(prefix)
        shared = len(prefix)
        behind = self.states(input_ids, attention_mask, past, shared, auxiliary)
        if attention_mask is not None:
            attention_mask = functional.pad(attention_mask, (shared, 0), value=1)

        layers = None
        if first.layers is not None:
            assert behind.layers is not None
            layers = tuple(map(_joined, first.layers, behind.layers))

        last = _joined(first.last_hidden_state, behind.last_hidden_state)
        return TokenStates(last, attention_mask, layers)

    def _of_prefix(self, prefix: Tensor) -> tuple[DynamicCache, TokenStates]:
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
    """The cached keys and values of the prefix; those of the rows are not kept."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Return the prefix's keys and values followed by each row's."""
        assert self.keys is not None
        assert self.values is not None
        return _joined(self.keys, key_states, 2), _joined(self.values, value_states, 2)


def _joined(first: Tensor, behind: Tensor, dim: int = 1) -> Tensor:
    shape = (len(behind), *first.shape[1:])
    return torch.cat([first.expand(shape), behind], dim)


class Read(nn.Module):
    """The states that a pooler gets from a module: chosen layers averaged, the mask token's state.

    `readings` has the numbers of the layers to average: the backbone's own, then those that a text may
    choose; if there are such, each call needs the `readings` of its rows. With `hides`, tokens may be hidden
    from the pooler: each call needs the `hidden` ones, and the mask is never None. See `TokenBatch`.
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

        `hidden` `(batch, shared + length)` and `readings` `(batch,)` are those of `TokenBatch`.

        Raises:
            ModelError: if one of them is needed and not given.
        """
        self._require_fields(hidden, readings)
        states: TokenStates = self.states(
            input_ids, attention_mask, *prefix, **auxiliary
        )
        vectors = self.chosen(states, readings)
        states = states._replace(last_hidden_state=vectors)
        if self.mask_id is not None:
            # A text may contain a mask token itself: the template's is the last one.
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
        """Raise `ModelError` if a field of the batch is missing that the vectors depend on."""
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
        """Return each row's states in the layers that it reads, `(batch, length, width)`."""
        vectors = self.mean_of_layers(states, self.readings[0])
        for place, numbers in enumerate(self.readings[1:], 1):
            assert readings is not None
            # Every row is computed in every reading: a compiler knows no rows that it does not compute.
            is_read = (readings == place)[:, None, None]
            vectors = torch.where(
                is_read, self.mean_of_layers(states, numbers), vectors
            )

        return vectors

    @staticmethod
    def mean_of_layers(states: TokenStates, numbers: tuple[int, ...]) -> Tensor:
        """Return the mean of these layers' states, `(batch, length, width)`."""
        if numbers == (-1,):
            last: Tensor = states.last_hidden_state
            return last

        assert states.layers is not None
        return (
            torch.stack([states.layers[number] for number in numbers]).float().mean(0)
        )


class TemplateDenoising(nn.Module):
    """The states that a pooler gets, with the template's own part taken out of the mask token's.

    From the state of each text's mask token it subtracts that of the template without a sentence. What stands
    behind the sentence keeps its positions there, so that the difference depends on the sentence's length.
    Source: PromptBERT (Jiang et al., 2022), section 4.3.
    """

    def __init__(
        self, read: Read, template: EmptyTemplate, first_position: int
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
        """Return the token states for the pooler; `readings` are as in `Read`."""
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
        """Return the empty template's mask state for texts of these lengths, `(batch, width)`."""
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
    """A template without a sentence, tokenised."""

    ids: tuple[int, ...]
    """Ids, special tokens included."""
    sentence_place: int
    """Number of ids before the sentence."""
    mask_place: int
    """Place of the mask token."""

    @classmethod
    def of(cls, template: tuple[str, str], tokenizer: Any) -> EmptyTemplate:
        """Tokenise the text before and after the sentence.

        White space before the sentence is left out, as the one behind the sentence stays.

        Raises:
            ModelError: if the tokenizer joins both parts, or the template has no mask token.
        """
        prefix, suffix = (
            part.replace("{mask}", tokenizer.mask_token) for part in template
        )
        before = tokenizer(prefix.strip())["input_ids"]
        ids = tokenizer((prefix.rstrip() + suffix).strip())["input_ids"]
        mask_id = tokenizer.mask_token_id

        # Special tokens stand before a text and behind it.
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
