"""The contract of an intervention. It changes random states of a batch whose texts have different lengths."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from sentbed.protocols import BlockStates, Intervention
from torch.testing import assert_close

from sentbed_testing.component_contract import ComponentContract
from sentbed_testing.token_states import random_states

LENGTHS = (7, 4, 5)
"""Number of tokens of each text."""
PLACEHOLDER = 2
"""Index of the placeholder in each text, not counting padding."""
POINTS = ("attention-heads", "block-input")
"""Points of a transformer block at which an intervention may act."""


class InterventionContract(ComponentContract):
    """Tests of an intervention, at each of its places."""

    component: ClassVar[Intervention]
    width: ClassVar[int] = 8
    """Dimension of the states."""

    def inputs(
        self,
        component: Intervention,
        side: str = "right",
    ) -> list[BlockStates]:
        """Return random states for each place, padded on one side.

        If the intervention asks for it, each text has a placeholder (a token that its prompt must
        contain), or the state of an auxiliary prompt (a second prompt that the backbone reads first).
        """
        states, mask, *_ = random_states(LENGTHS, self.width, side)
        assert mask is not None
        positions = torch.arange(mask.shape[1])
        last = (mask * positions).argmax(dim=1)
        starts = last + 1 - torch.tensor(LENGTHS)
        batch = BlockStates("", 0, states, mask * (positions + 1), mask, last)
        if component.placeholder is not None:
            batch = batch._replace(placeholder=starts + PLACEHOLDER)

        if component.auxiliary is not None:
            batch = batch._replace(auxiliary=torch.ones(len(LENGTHS), self.width))

        inputs = []
        for point, block in sorted(component.places):
            copied = states.clone()
            inputs.append(batch._replace(point=point, block=block, states=copied))

        return inputs

    def cut(
        self,
        inputs: BlockStates,
        rows: slice,
        tokens: slice,
    ) -> BlockStates:
        """Return some rows without the tokens before and after `tokens`."""
        part: dict[str, Any] = inputs._asdict()
        for name in ("states", "input_ids", "attention_mask"):
            part[name] = part[name][rows, tokens]
        for name in ("last", "placeholder"):
            if part[name] is not None:
                part[name] = part[name][rows] - tokens.start
        if inputs.auxiliary is not None:
            part["auxiliary"] = inputs.auxiliary[rows]
        return BlockStates(**part)

    def test_places(self, component: Intervention) -> None:
        """`places` has known points of blocks, which are numbered from 0."""
        places = list(component.places)

        assert places
        assert len(set(places)) == len(places)

        for point, block in places:
            assert point in POINTS
            assert block >= 0

    def test_is_a_function(self, component: Intervention) -> None:
        """It returns states of the shape that it gets, the same in every call, and does not change its input."""
        first, second = component.build(), component.build()
        for inputs in self.inputs(component):
            before = inputs.states.clone()
            states = first(inputs)
            assert states.shape == before.shape
            assert_close(inputs.states, before, rtol=0, atol=0)
            assert_close(second(inputs), states, rtol=0, atol=0)

    @pytest.mark.parametrize("side", ["right", "left"])
    def test_alone_as_in_a_batch(
        self,
        component: Intervention,
        side: str,
    ) -> None:
        """A text has the same states alone and in a batch, padded on either side."""
        change = component.build()
        for inputs in self.inputs(component, side):
            states = change(inputs)
            for row, length in enumerate(LENGTHS):
                end = int(inputs.last[row]) + 1
                tokens = slice(end - length, end)
                text = self.cut(inputs, slice(row, row + 1), tokens)
                alone = change(text._replace(attention_mask=None))
                assert_close(alone[0], states[row, tokens])

    def test_a_shared_prefix(self, component: Intervention) -> None:
        """With `shares_prefix`, it neither changes nor reads the states of a prefix.

        A prefix is everything before the placeholder or, without a placeholder, before the last token.
        """
        if not component.shares_prefix:
            pytest.skip("it does not say `shares_prefix`")

        change = component.build()
        for inputs in self.inputs(component):
            states = change(inputs)
            ends = inputs.last
            if inputs.placeholder is not None:
                ends = inputs.placeholder
            for row, end in enumerate(ends.tolist()):
                unchanged = inputs.states[row, :end]
                assert_close(states[row, :end], unchanged, rtol=0, atol=0)

            length = int(ends.min())
            rest = self.cut(inputs, slice(None), slice(length, None))
            assert_close(change(rest), states[:, length:])
