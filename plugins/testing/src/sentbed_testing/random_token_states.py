"""Random token states for poolers and losses. No other module of the kit imports PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from sentbed.protocols import Module, Tensor, TokenStates

from sentbed_testing.component_under_test import NotRunError, Subject

WIDTH = 8
"""Default width of states and vectors."""
LENGTHS = (7, 2, 4, 1, 9)
"""Number of tokens of each sentence of a batch."""
LAYERS = 3
"""Number of layers, not counting the embeddings."""
GARBAGE = 1e4
"""Standard deviation of the random states of padding."""


def load_torch() -> Any:
    """Return PyTorch. Raises `NotRunError` if it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise NotRunError(
            "PyTorch is not installed; run `pip install torch`"
        ) from error


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Seed torch's CPU generator, and restore its state at the end of the `with` block."""
    torch = load_torch()
    with torch.random.fork_rng(devices=[]):
        # `torch.manual_seed` takes a thousand times as long, since it records the stack for a later start of
        # CUDA.
        torch.default_generator.manual_seed(seed)
        yield


def build(subject: Subject, seed: int = 0) -> Module:
    """Return the torch module of a pooler or a loss, initialised from a seed."""
    part = subject.ready
    with seeded(seed):
        return part.build(subject.width)


def draw_states(
    lengths: Sequence[int] = LENGTHS,
    width: int = WIDTH,
    side: str = "right",
    needs: Collection[str] = (),
    more: int = 0,
    seed: int = 0,
    garbage: float = GARBAGE,
) -> TokenStates:
    """Return random token states of a batch of sentences. The states of a sentence do not depend on its padding.

    Args:
        lengths: number of tokens of each sentence, not counting padding.
        width: dimension of a token state.
        side: side of the padding, `right` or `left`; `none` cuts all sentences to the shortest, without a mask.
        needs: optional fields that the states have: `layers`, `decoder` or `mask-token`.
        more: number of padding tokens after the longest sentence (before it, if `side` is `left`).
        seed: seed of the random numbers.
        garbage: standard deviation of the states of padding.
    """
    torch = load_torch()
    generator = torch.Generator().manual_seed(seed)
    sentences = [
        torch.randn(LAYERS + 1, length, width, generator=generator)
        for length in lengths
    ]
    decoder_state = torch.randn(len(lengths), width, generator=generator)
    mask_state = torch.randn(len(lengths), width, generator=generator)

    if side == "none":
        layers = torch.stack(
            [sentence[:, : min(lengths)] for sentence in sentences], dim=1
        )
        mask = None
    else:
        longest = max(lengths) + more
        layers = garbage * torch.randn(
            LAYERS + 1, len(lengths), longest, width, generator=generator
        )
        mask = torch.zeros(len(lengths), longest, dtype=torch.long)
        for row, (sentence, length) in enumerate(zip(sentences, lengths, strict=True)):
            start = 0 if side == "right" else longest - length
            place = slice(start, start + length)
            layers[:, row, place] = sentence
            mask[row, place] = 1

    states = TokenStates(layers[-1], mask)
    if "layers" in needs:
        states = states._replace(layers=tuple(layers))
    if "decoder" in needs:
        states = states._replace(decoder_state=decoder_state)
    if "mask-token" in needs:
        states = states._replace(mask_state=mask_state)
    return states


def over(states: TokenStates, change: Callable[[Tensor], Tensor]) -> TokenStates:
    """Return states in which `change` is applied to every tensor except the mask."""
    changed = states._replace(last_hidden_state=change(states.last_hidden_state))
    if states.layers is not None:
        changed = changed._replace(layers=tuple(map(change, states.layers)))
    if states.decoder_state is not None:
        changed = changed._replace(decoder_state=change(states.decoder_state))
    if states.mask_state is not None:
        changed = changed._replace(mask_state=change(states.mask_state))
    return changed


def own_memory(value: Any) -> Any:
    """Return `value` with copies of its tensors, also of tensors within tuples, lists and mappings.

    A CPU may sum in another order if the data of a tensor is aligned differently in memory, as in a view. Two
    results can only be equal to the bit if both are computed from such copies.
    """
    if isinstance(value, load_torch().Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {name: own_memory(part) for name, part in value.items()}
    if isinstance(value, TokenStates):
        return TokenStates(*map(own_memory, value))
    if isinstance(value, tuple | list):
        return type(value)(map(own_memory, value))
    return value


def rows_of(states: TokenStates, rows: Any) -> TokenStates:
    """Return the token states of some rows of a batch."""
    chosen = over(states, lambda value: value[rows])
    mask = states.attention_mask
    return chosen if mask is None else chosen._replace(attention_mask=mask[rows])


def distance(actual: Tensor, reference: Tensor) -> float:
    """Return the largest absolute difference, divided by the largest absolute value of `reference`.

    It is infinite if the shapes differ or the difference is NaN, so that `max` keeps it.
    """
    if actual.shape != reference.shape:
        return math.inf
    if not reference.numel():
        return 0.0
    largest = float(reference.detach().abs().max())
    difference = float((actual - reference).detach().abs().max()) / (largest or 1.0)
    return math.inf if math.isnan(difference) else difference
