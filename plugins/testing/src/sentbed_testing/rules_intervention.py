"""Rules of an intervention, tested on random states of texts of different lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sentbed.protocols import BlockStates, Tensor

from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import distance, load_torch, seeded

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

LENGTHS = (7, 4, 5)
PLACEHOLDER = 2
"""Index of the placeholder in each row, without padding."""
POINTS = ("attention-heads", "block-input")


def _places(subject: Subject) -> list[tuple[str, int]]:
    return sorted(subject.ready.places)


def _states(
    subject: Subject, place: tuple[str, int], side: str = "right"
) -> BlockStates:
    """Return states of three texts, with a placeholder and an auxiliary prompt if the traits ask for them."""
    torch, traits = load_torch(), subject.part.traits
    with seeded(0):
        rows = [torch.randn(length, subject.width) for length in LENGTHS]
        auxiliary = torch.randn(len(LENGTHS), subject.width)
    states = torch.zeros(len(LENGTHS), max(LENGTHS), subject.width)
    mask = torch.zeros(states.shape[:2], dtype=torch.int64)
    lengths = torch.tensor(LENGTHS)
    starts = torch.zeros_like(lengths)
    if side == "left":
        starts = max(LENGTHS) - lengths

    for row, (start, values) in enumerate(zip(starts.tolist(), rows, strict=True)):
        states[row, start : start + len(values)] = values
        mask[row, start : start + len(values)] = 1

    input_ids = mask * torch.arange(1, max(LENGTHS) + 1)
    last = starts + lengths - 1
    seen = BlockStates(*place, states, input_ids, mask, last)
    if traits.placeholder is not None:
        seen = seen._replace(placeholder=starts + PLACEHOLDER)
    if traits.auxiliary is not None:
        seen = seen._replace(auxiliary=auxiliary)
    return seen


def _row(seen: BlockStates, row: int) -> BlockStates:
    """Return one row without its padding."""
    assert seen.attention_mask is not None
    start = int(seen.attention_mask[row].argmax())
    kept = slice(start, start + LENGTHS[row])
    row_slice = slice(row, row + 1)
    placeholder = (
        None if seen.placeholder is None else seen.placeholder[row_slice] - start
    )
    auxiliary = None if seen.auxiliary is None else seen.auxiliary[row_slice]
    return seen._replace(
        states=seen.states[row_slice, kept],
        input_ids=seen.input_ids[row_slice, kept],
        attention_mask=None,
        last=seen.last[row_slice] - start,
        placeholder=placeholder,
        auxiliary=auxiliary,
    )


def _each(
    subject: Subject, side: str = "right"
) -> Iterator[tuple[str, BlockStates, Tensor]]:
    """Yield each place with random states and the states that the intervention returns for them."""
    function: Any = subject.ready.build()
    for place in _places(subject):
        seen = _states(subject, place, side)
        yield "{} {}".format(*place), seen, function(seen)


def places(subject: Subject) -> Findings:
    """`places` names known points of blocks numbered from 0, at least one and each once."""
    positions = list(subject.ready.places)
    if not positions:
        yield "`places` is empty", "name at least one point and block"
    if len(set(positions)) < len(positions):
        yield "`places` has the same place twice", "name each once"
    for point, block in positions:
        if point not in POINTS:
            yield f"it acts at the point {point!r}", f"choose among {', '.join(POINTS)}"
        if not isinstance(block, int) or block < 0:
            yield f"it acts at block {block!r}", "number blocks from 0"


def shape(subject: Subject) -> Findings:
    """It returns states of the same shape, and does not change its input in place."""
    torch = load_torch()
    for place, seen, _ in _each(subject):
        before = seen.states.clone()
        states = subject.ready.build()(seen)
        if states.shape != seen.states.shape:
            yield (
                f"at {place} it returns {tuple(states.shape)} for states {tuple(seen.states.shape)}",
                "return states of the same shape",
            )
        if not torch.equal(before, seen.states):
            yield (
                f"at {place} it changes the states in place",
                "return new states, as `torch.where` does",
            )


def repeats(subject: Subject) -> Findings:
    """A second function that `build` returns gives the same states."""
    torch = load_torch()
    for (place, _, first), (_, _, second) in zip(
        _each(subject), _each(subject), strict=True
    ):
        if not torch.equal(first, second):
            yield (
                f"at {place} a second function gives other states",
                "draw nothing, and keep nothing",
            )


def padding(subject: Subject) -> Findings:
    """A text has the same states alone and in a batch, padded on either side."""
    function = subject.ready.build()
    for side in ("right", "left"):
        for place, seen, states in _each(subject, side):
            assert seen.attention_mask is not None
            for row in range(len(LENGTHS)):
                together = states[row][seen.attention_mask[row].bool()]
                off = distance(function(_row(seen, row))[0], together)
                if not off <= 1e-6:
                    yield (
                        f"at {place}, padded on the {side}, a row differs by {off:.2g} of its size from "
                        "itself alone (allowed 1e-06)",
                        "read `last`, `placeholder` and the mask, not fixed positions",
                    )
                    break


def prefix(subject: Subject) -> Findings:
    """With `shares_prefix`, states before the placeholder (or last token) are neither changed nor read."""
    if not subject.part.traits.shares_prefix:
        return
    torch = load_torch()
    for place, seen, states in _each(subject):
        ends = seen.last if seen.placeholder is None else seen.placeholder
        for row, end in enumerate(ends.tolist()):
            if not torch.equal(states[row, :end], seen.states[row, :end]):
                yield (
                    f"at {place} it changes states before index {end} of row {row} under `shares_prefix`",
                    "take `shares_prefix` out of its traits",
                )
                return
        cut = int(ends.min())
        assert seen.attention_mask is not None
        placeholder = None if seen.placeholder is None else seen.placeholder - cut
        behind = seen._replace(
            states=seen.states[:, cut:],
            input_ids=seen.input_ids[:, cut:],
            attention_mask=seen.attention_mask[:, cut:],
            last=seen.last - cut,
            placeholder=placeholder,
        )
        off = distance(subject.ready.build()(behind), states[:, cut:])
        if not off <= 1e-6:
            yield (
                f"at {place} other states come of the same rows without their first {cut} (by {off:.2g} of "
                "their size), and under `shares_prefix` those are missing where texts share them",
                "take `shares_prefix` out of its traits, or read no states of a prefix",
            )
            return


RULES = {
    "places": places,
    "shape": shape,
    "repeats": repeats,
    "padding": padding,
    "prefix": prefix,
}
