"""What the tokens of a built model attend to, found by trial passes over a few tokens.

A configuration says it under a name of each architecture's own, and not all code follows its configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import torch
from sentbed import ModelError
from sentbed.protocols import TokenStates
from torch import Tensor
from torch.nn import functional

from sentbed_backbones._torch.interventions import ReachedError, with_changed_input
from sentbed_backbones._torch.token_states import (
    CausalStates,
    SharedPrefixStates,
    blocks_of,
)

FIRST_ID = 3
"""The first token of a trial text; the ids before it are mostly special."""

TRIAL_LENGTH = 7
"""Tokens of a trial text."""

PADDING = 2
"""Padded positions behind a trial text."""

TRIAL_PREFIX = 4
"""Tokens of a trial text that are its prefix."""

TRIAL_WINDOW = 2
"""Sliding window of a trial pass, in tokens: less than half of a trial text, however it is counted."""

LARGEST_ERROR = 1e-3
"""Largest error of a state behind a shared prefix, as a share of what the prefix changes in that state: 1
where a model drops the prefix, some hundredths where one of many blocks does, and 1e-6 by rounding in
fp32."""

LARGEST_COARSE_ERROR = 0.25
"""The same in half precision and over weights in 4 bits, whose rounding is far coarser."""

CACHE_ERRORS = (
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a model's code raises of a cache of another kind than its own."""

Measure = Callable[[Tensor, Tensor], None]


class Reach(NamedTuple):
    """How many tokens before and after it a token attends to."""

    before: int
    after: int


class Attention(NamedTuple):
    """How far the middle token of a trial text attends in each block tried, without and with padding."""

    unpadded: tuple[Reach, ...]
    padded: tuple[Reach, ...]

    @property
    def depends_on_padding(self) -> bool:
        """Whether some block attends to later tokens only with padding in the batch, or only without."""
        ahead = [reach.after > 0 for reach in self.unpadded]
        return ahead != [reach.after > 0 for reach in self.padded]

    @property
    def bidirectional(self) -> bool:
        """Whether any block attends to later tokens."""
        return any(reach.after for reach in self.unpadded + self.padded)

    @property
    def bidirectional_in_every_block(self) -> bool:
        """Whether all blocks attend to later tokens."""
        return all(reach.after for reach in self.unpadded + self.padded)


def attention_of(model: Any) -> Attention:
    """Return what the tokens of a text attend to.

    Two texts of a few tokens pass through the model, forwards and backwards. No random number is drawn.

    Raises:
        ModelError: if the model's states have no gradient.
    """
    unpadded = block_reaches(model)
    padded = block_reaches(model, padded=True)
    return Attention(tuple(unpadded), tuple(padded))


def windowed_blocks(model: Any) -> tuple[bool, ...]:
    """Return whether each block attends within a sliding window alone, in every direction that it attends in.

    A text longer than the window would be a costly pass: the window of the configuration, from which masks
    are made in each pass, is set to two tokens for it.
    """
    config = model.config
    window = getattr(config, "sliding_window", None)
    if window is None:
        return ()

    config.sliding_window = TRIAL_WINDOW
    try:
        reaches = block_reaches(model)
    finally:
        config.sliding_window = window

    return tuple(max(reach) <= TRIAL_WINDOW for reach in reaches)


def block_reaches(
    model: Any, padded: bool = False, length: int = TRIAL_LENGTH
) -> list[Reach]:
    """Return how far the middle token of a text of `length` tokens attends, in each block that is tried.

    Read from the gradient of the block's output for that token with respect to the block's inputs, which is
    exactly zero where a token is hidden, in every precision. Outputs for two texts would not do: where tokens
    are routed to experts, another token changes the rounding of all. Of a model without a list of its blocks,
    it is how far the last state depends on embeddings.

    Raises:
        ModelError: if the model's states have no gradient.
    """
    ids = torch.arange(FIRST_ID, FIRST_ID + length, device=_device_of(model))[None]
    mask = None
    if padded:
        mask = functional.pad(torch.ones_like(ids), (0, PADDING))
        ids = functional.pad(ids, (0, PADDING), value=FIRST_ID)

    middle = length // 2
    reaches: list[Reach] = []

    def measure(inputs: Tensor, output: Tensor) -> None:
        # The sum of a normalised vector is constant: components need weights that differ.
        weights = torch.linspace(-1, 1, output.shape[-1], device=output.device)
        state = output[..., middle, :].float()
        (gradient,) = torch.autograd.grad((state * weights).sum(), inputs)
        is_attended = (gradient.abs() > 0).any(-1)
        # Gemma 3n's blocks have several states of each token.
        is_attended = is_attended.flatten(0, -2).any(0)
        attended = is_attended.nonzero()[:, 0].tolist()
        if not attended:
            raise ModelError(
                f"the gradient of `{type(model).__name__}` in a trial pass is zero or not finite, and its "
                "attention cannot be read from it; choose another model or `dtype`"
            )

        reaches.append(Reach(middle - min(attended), max(attended) - middle))

    states = CausalStates(model, False)
    blocks = _blocks_or_none(model)
    with _in_eval_mode(model), torch.enable_grad():
        if blocks is not None:
            tried = blocks[: _trial_depth(model, blocks)]
            with _each_measured(tried, measure), suppress(ReachedError):
                states(ids, mask)

            return reaches

        with _embeddings_kept(model) as embeddings:
            output = states(ids, mask).last_hidden_state

        measure(embeddings[0], output)
        return reaches


def prefix_can_be_shared(model: Any) -> bool:
    """Whether states behind cached keys and values of a prefix are those of the whole text.

    They are not where a model attends in both directions, keeps more of a text than keys and values, or
    ignores a cache in any block: four texts of a few tokens pass through all of the model. Under LongRoPE,
    the rotations of a prefix are those of the longest text in its batch, which is not in the cache.
    """
    if any(getattr(part, "rope_type", None) == "longrope" for part in model.modules()):
        return False

    ids = torch.arange(FIRST_ID, FIRST_ID + TRIAL_LENGTH, device=_device_of(model))
    prefix, rest = ids[:TRIAL_PREFIX], ids[None, TRIAL_PREFIX:]
    states = CausalStates(model, False)
    with _in_eval_mode(model), torch.no_grad():
        whole = _last_state(states(ids[None], None))
        dropped = _last_state(states(rest, None, shared=TRIAL_PREFIX))
        try:
            behind = _last_state(SharedPrefixStates(states)(rest, None, prefix))
        except CACHE_ERRORS:
            return False

    error = (behind - whole).norm()
    effect = (dropped - whole).norm()
    # Weights in 4 bits are packed into whole numbers.
    is_fp32 = all(weight.dtype == torch.float32 for weight in model.parameters())
    largest_error = LARGEST_COARSE_ERROR
    if is_fp32:
        largest_error = LARGEST_ERROR

    return bool(error <= largest_error * effect)


def _last_state(states: TokenStates) -> Tensor:
    state: Tensor = states.last_hidden_state[0, -1]
    return state.float()


def _device_of(model: Any) -> torch.device:
    """Return a device for ids; where weights are read from disk layer by layer, they are moved from any."""
    device: torch.device = model.device
    if device.type == "meta":
        return torch.device("cpu")

    return device


def _trial_depth(model: Any, blocks: Sequence[Any]) -> int:
    """Return how many of the first blocks are tried: at least two, and one of each kind.

    A pass through all of a large model takes seconds, and minutes in bf16 on a processor without it. Kinds
    are those of the configuration and of the code; of code that is not transformers' own, all blocks are
    tried.
    """
    if getattr(model.config, "auto_map", None):
        return len(blocks)

    layer_types = getattr(model.config, "layer_types", None) or [None] * len(blocks)
    kinds = list(zip(map(type, blocks), layer_types, strict=False))
    last_of_a_new_kind = max(kinds.index(kind) for kind in kinds)
    depth = max(2, last_of_a_new_kind + 1)
    return min(depth, len(blocks))


def _blocks_or_none(model: Any) -> Sequence[Any] | None:
    try:
        return list(blocks_of(model))
    except ModelError:
        return None


@contextmanager
def _each_measured(blocks: Sequence[Any], measure: Measure) -> Iterator[None]:
    """Call `measure` with the input and output of each block, whose graph begins at its input.

    Behind the last of them, `ReachedError` ends the pass.
    """
    inputs: dict[int, Tensor] = {}

    def begin(block: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        def detach(hidden: Tensor) -> Tensor:
            inputs[id(block)] = hidden.detach().requires_grad_()
            return inputs[id(block)]

        return with_changed_input(detach, block, arguments, named)

    def end(block: Any, _: Any, output: Any) -> None:
        if isinstance(output, tuple | list):
            output = output[0]

        measure(inputs.pop(id(block)), output)
        if block is blocks[-1]:
            raise ReachedError

    with ExitStack() as hooks:
        for block in blocks:
            handle = block.register_forward_pre_hook(begin, with_kwargs=True)
            hooks.enter_context(handle)
            hooks.enter_context(block.register_forward_hook(end))

        yield


@contextmanager
def _embeddings_kept(model: Any) -> Iterator[list[Tensor]]:
    """Let the graph begin at the word embeddings, which are appended to the list."""
    kept: list[Tensor] = []

    def begin(_: Any, __: Any, output: Tensor) -> Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[-1]

    with model.get_input_embeddings().register_forward_hook(begin):
        yield kept


@contextmanager
def _in_eval_mode(model: Any) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
