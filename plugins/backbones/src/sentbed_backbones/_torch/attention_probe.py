"""Trial passes over a few tokens, which show what the tokens of a built model attend to.

The configuration is not enough: each architecture names its setting differently, and not all code follows it.
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
from sentbed_backbones._torch.shared_prefix import SharedPrefixStates
from sentbed_backbones._torch.token_states import CausalStates, blocks_of

FIRST_ID = 3
"""Id of the first token of a trial text; the ids before it are mostly special tokens."""

TRIAL_LENGTH = 7
"""Number of tokens of a trial text."""

PADDING = 2
"""Number of padding tokens behind a trial text."""

TRIAL_PREFIX = 4
"""Number of tokens of a trial text that are its prefix."""

TRIAL_WINDOW = 2
"""Sliding window of a trial pass in tokens: less than half of a trial text, whether or not the token itself
counts."""

LARGEST_ERROR = 1e-3
"""Largest error of a state behind a shared prefix, relative to the change that the prefix makes in this state.
The relative error is 1 if a model drops the prefix, a few hundredths if one of many blocks drops it, and 1e-6
by rounding in fp32."""

LARGEST_COARSE_ERROR = 0.25
"""Largest relative error in half precision and with weights in 4 bits, where rounding is far coarser."""

CACHE_ERRORS = (
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Exceptions that a model's code raises if it is given a cache of a kind that it does not support."""

Measure = Callable[[Tensor, Tensor], None]


class Reach(NamedTuple):
    """Numbers of tokens before and after a token to which the token attends."""

    before: int
    after: int


class Attention(NamedTuple):
    """Reach of a trial text's middle token in each tried block, in a batch without and with padding."""

    unpadded: tuple[Reach, ...]
    padded: tuple[Reach, ...]

    @property
    def depends_on_padding(self) -> bool:
        """Whether some block attends to later tokens only with padding in the batch, or only without padding."""
        without_padding = [reach.after > 0 for reach in self.unpadded]
        with_padding = [reach.after > 0 for reach in self.padded]
        return without_padding != with_padding

    @property
    def bidirectional(self) -> bool:
        """Whether any tried block attends to later tokens."""
        return any(reach.after for reach in self.unpadded + self.padded)

    @property
    def bidirectional_in_every_block(self) -> bool:
        """Whether all tried blocks attend to later tokens."""
        return all(reach.after for reach in self.unpadded + self.padded)


def attention_of(model: Any) -> Attention:
    """Return what the tokens of a text attend to.

    Two texts of a few tokens pass through the model, forwards and backwards. Random generators are not used.

    Raises:
        ModelError: if the model's states have no gradient.
    """
    unpadded = block_reaches(model)
    padded = block_reaches(model, padded=True)
    return Attention(tuple(unpadded), tuple(padded))


def windowed_blocks(model: Any) -> tuple[bool, ...]:
    """Return for each tried block whether its attention, in every direction, is limited to a sliding window.

    The result is empty if the configuration has no window. A pass over a text longer than the window would be
    costly. Every pass makes its masks from the window in the configuration. For the trial, this window is
    therefore set to two tokens.
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
    model: Any,
    padded: bool = False,
    length: int = TRIAL_LENGTH,
) -> list[Reach]:
    """Return the reach of the middle token of a text of `length` tokens, in each tried block.

    The reach is read from the gradient of the token's output state with respect to the block's inputs. In every
    precision, the gradient is exactly zero at tokens to which the middle token does not attend. Comparing the
    outputs for two texts would not work: where tokens are routed to experts, another token changes the rounding
    of all states. If the model has no list of blocks, there is one reach: how far the last state depends on
    embeddings.

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
        # The sum of a normalised vector is constant, so the components get different weights.
        weights = torch.linspace(-1, 1, output.shape[-1], device=output.device)
        state = output[..., middle, :].float()
        (gradient,) = torch.autograd.grad((state * weights).sum(), inputs)
        is_attended = (gradient.abs() > 0).any(-1)
        # Gemma 3n's blocks have several states for each token.
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
    """Whether a model gives a text the same states if keys and values of its prefix come from a cache.

    The states differ if the model attends in both directions, if it needs more of the prefix than keys and
    values, or if a block ignores the cache. To find out, four texts of a few tokens pass through all blocks.
    With LongRoPE the answer is False without a trial: the rotations of a prefix depend on the longest text in
    the batch, and the cache does not know that text.
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
    # Weights in 4 bits are packed into whole numbers, and so are not fp32 either.
    is_fp32 = all(weight.dtype == torch.float32 for weight in model.parameters())
    largest_error = LARGEST_COARSE_ERROR
    if is_fp32:
        largest_error = LARGEST_ERROR

    return bool(error <= largest_error * effect)


def _last_state(states: TokenStates) -> Tensor:
    """Return the state of the last token of the first row."""
    state: Tensor = states.last_hidden_state[0, -1]
    return state.float()


def _device_of(model: Any) -> torch.device:
    """Return the device for token ids: the CPU if accelerate reads weights layer by layer and moves ids."""
    device: torch.device = model.device
    if device.type == "meta":
        return torch.device("cpu")

    return device


def _trial_depth(model: Any, blocks: Sequence[Any]) -> int:
    """Return how many of the first blocks are tried: at least two, and at least one of each kind.

    A pass through all blocks of a large model takes seconds, and minutes in bf16 on a processor without bf16
    instructions. The kind of a block is its class and its layer type in the configuration. If the code is not
    part of transformers, all blocks are tried.
    """
    if getattr(model.config, "auto_map", None):
        return len(blocks)

    layer_types = getattr(model.config, "layer_types", None) or [None] * len(blocks)
    kinds = list(zip(map(type, blocks), layer_types, strict=False))
    last_of_a_new_kind = max(kinds.index(kind) for kind in kinds)
    depth = max(2, last_of_a_new_kind + 1)
    return min(depth, len(blocks))


def _blocks_or_none(model: Any) -> Sequence[Any] | None:
    """Return the blocks of a model; None if they cannot be found."""
    try:
        return list(blocks_of(model))
    except ModelError:
        return None


@contextmanager
def _each_measured(blocks: Sequence[Any], measure: Measure) -> Iterator[None]:
    """Call `measure` with the input and output of each block; the graph of a block begins at its input.

    After the last block, `ReachedError` ends the pass.
    """
    inputs: dict[int, Tensor] = {}

    def begin(
        block: Any,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        def detach(hidden: Tensor) -> Tensor:
            inputs[id(block)] = hidden.detach().requires_grad_()
            return inputs[id(block)]

        return with_changed_input(detach, block, arguments, named)

    def end(
        block: Any,
        _: Any,
        output: Any,
    ) -> None:
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
    """Let the graph begin at the word embeddings of a text, which are appended to the yielded list."""
    kept: list[Tensor] = []

    def begin(
        _: Any,
        __: Any,
        output: Tensor,
    ) -> Tensor:
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
