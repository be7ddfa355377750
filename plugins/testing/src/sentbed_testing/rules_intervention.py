"""Rules of an intervention. It changes random states of a batch whose texts have different lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sentbed.protocols import BlockStates, Tensor

from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import distance, load_torch, seeded

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

LENGTHS = (7, 4, 5)
"""Number of tokens of each text."""
PLACEHOLDER = 2
"""Index of the placeholder in each text, not counting padding."""
POINTS = ("attention-heads", "block-input")
"""Points of a transformer block at which an intervention may act."""
TOLERANCE = 1e-6


def _draw_states(
    subject: Subject,
    place: tuple[str, int],
    side: str = "right",
) -> BlockStates:
    """Return random states at a place (point and block), padded on one side.

    If the intervention's traits ask for it, each text has a placeholder (a token that its prompt must contain),
    or the state of an auxiliary prompt (a second prompt that the backbone reads first).
    """
    torch, traits = load_torch(), subject.part
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
        tokens = slice(start, start + len(values))
        states[row, tokens] = values
        mask[row, tokens] = 1

    input_ids = mask * torch.arange(1, max(LENGTHS) + 1)
    last = starts + lengths - 1
    inputs = BlockStates(*place, states, input_ids, mask, last)
    if traits.placeholder is not None:
        inputs = inputs._replace(placeholder=starts + PLACEHOLDER)
    if traits.auxiliary is not None:
        inputs = inputs._replace(auxiliary=auxiliary)
    return inputs


def _single_text(inputs: BlockStates, row: int) -> BlockStates:
    """Return the states of one text without padding."""
    assert inputs.attention_mask is not None
    start = int(inputs.attention_mask[row].argmax())
    tokens = slice(start, start + LENGTHS[row])
    rows = slice(row, row + 1)
    single = inputs._replace(
        states=inputs.states[rows, tokens],
        input_ids=inputs.input_ids[rows, tokens],
        attention_mask=None,
        last=inputs.last[rows] - start,
    )
    if inputs.placeholder is not None:
        single = single._replace(placeholder=inputs.placeholder[rows] - start)
    if inputs.auxiliary is not None:
        single = single._replace(auxiliary=inputs.auxiliary[rows])
    return single


def _outputs(
    subject: Subject, side: str = "right"
) -> Iterator[tuple[str, BlockStates, Tensor]]:
    """Yield each place as text, its random states, and the states that the intervention returns for them."""
    function: Any = subject.ready.build()
    for point, block in sorted(subject.ready.places):
        inputs = _draw_states(subject, (point, block), side)
        yield f"{point} {block}", inputs, function(inputs)


def places(subject: Subject) -> Findings:
    """`places` has at least one place. A place is a known point of a block, and occurs once."""
    positions = list(subject.ready.places)
    if not positions:
        yield "`places` is empty", "name at least one point and block"
    if len(set(positions)) < len(positions):
        yield "`places` has the same place twice", "name each place once"
    for point, block in positions:
        if point not in POINTS:
            yield f"it acts at the point {point!r}", f"choose among {', '.join(POINTS)}"
        if not isinstance(block, int) or block < 0:
            yield f"it acts at block {block!r}", "number blocks from 0"


def shape(subject: Subject) -> Findings:
    """It returns states of the shape that it gets, and does not change its input in place."""
    torch = load_torch()
    for place, inputs, states in _outputs(subject):
        if states.shape != inputs.states.shape:
            yield (
                f"at {place} it returns {tuple(states.shape)} for states {tuple(inputs.states.shape)}",
                "return states of the same shape",
            )

        before = _draw_states(subject, (inputs.point, inputs.block))
        if not torch.equal(before.states, inputs.states):
            yield (
                f"at {place} it changes the states in place",
                "return new states, as `torch.where` does",
            )


def repeats(subject: Subject) -> Findings:
    """The functions that two calls of `build` return give the same states."""
    torch = load_torch()
    for (place, _, first), (_, _, second) in zip(
        _outputs(subject), _outputs(subject), strict=True
    ):
        if not torch.equal(first, second):
            yield (
                f"at {place} the function of a second `build` gives other states",
                "draw no random numbers, and keep nothing between calls",
            )


def padding(subject: Subject) -> Findings:
    """A text has the same states alone and in a batch, padded on either side."""
    function = subject.ready.build()
    for side in ("right", "left"):
        for place, inputs, states in _outputs(subject, side):
            assert inputs.attention_mask is not None
            for row in range(len(LENGTHS)):
                together = states[row][inputs.attention_mask[row].bool()]
                alone = function(_single_text(inputs, row))[0]
                difference = distance(alone, together)
                if not difference <= TOLERANCE:
                    yield (
                        f"at {place}, states of a text in a batch padded on the {side} differ by "
                        f"{difference:.2g} of their size from its states alone (allowed {TOLERANCE:g})",
                        "read positions from `last`, `placeholder` and the mask",
                    )
                    break


def prefix(subject: Subject) -> Findings:
    """With `shares_prefix`, it neither changes nor reads the states of a prefix.

    A prefix is everything before the placeholder or, without a placeholder, before the last token.
    """
    if not subject.part.shares_prefix:
        return
    torch = load_torch()
    for place, inputs, states in _outputs(subject):
        ends = inputs.last if inputs.placeholder is None else inputs.placeholder
        for row, end in enumerate(ends.tolist()):
            if not torch.equal(states[row, :end], inputs.states[row, :end]):
                yield (
                    f"at {place} it changes states before index {end} of row {row} in spite of `shares_prefix`",
                    "remove `shares_prefix` from its traits",
                )
                return

        length = int(ends.min())
        assert inputs.attention_mask is not None
        without_prefix = inputs._replace(
            states=inputs.states[:, length:],
            input_ids=inputs.input_ids[:, length:],
            attention_mask=inputs.attention_mask[:, length:],
            last=inputs.last - length,
        )
        if inputs.placeholder is not None:
            placeholder = inputs.placeholder - length
            without_prefix = without_prefix._replace(placeholder=placeholder)
        states_without_prefix = subject.ready.build()(without_prefix)
        difference = distance(states_without_prefix, states[:, length:])
        if not difference <= TOLERANCE:
            yield (
                f"its traits say `shares_prefix`, but at {place} the other states change by {difference:.2g} of "
                f"their size if the first {length} states, a shared prefix, are missing",
                "remove `shares_prefix` from its traits, or read no states of a prefix",
            )
            return


RULES = {
    "places": places,
    "shape": shape,
    "repeats": repeats,
    "padding": padding,
    "prefix": prefix,
}
