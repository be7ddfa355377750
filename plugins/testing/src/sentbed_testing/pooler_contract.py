"""The contract of a pooler: its module is called with random token states."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from sentbed.protocols import POOLER_NEEDS, Pooler, TokenStates, TokenVectors
from torch import Tensor
from torch.nn import Module
from torch.testing import assert_close
from torch.utils._pytree import tree_map_only

from sentbed_testing.component_contract import require_known_words
from sentbed_testing.module_contract import ModuleContract, with_gradient
from sentbed_testing.token_states import LENGTHS, random_states

GARBAGE = 1e4
"""Standard deviation of the states of padding that must change nothing."""


class PoolerContract(ModuleContract):
    """Tests of a pooler."""

    component: ClassVar[Pooler]

    def test_needs(self, component: Pooler) -> None:
        """No word of its `needs` is a misspelt one of `POOLER_NEEDS`."""
        require_known_words(component.needs, POOLER_NEEDS)

    def states(
        self,
        component: Pooler,
        **options: Any,
    ) -> TokenStates:
        """Return random states with the fields that the pooler needs; see `random_states`."""
        needs = component.needs
        return random_states(width=self.width, needs=needs, **options)

    def arguments(self, component: Any) -> tuple[TokenStates]:
        """Return random states."""
        states: TokenStates = with_gradient(self.states(component))
        return (states,)

    def results(self, output: Any) -> list[Tensor]:
        """Return the vector of each sentence, or its token vectors `(tokens, width)` without padding."""
        if isinstance(output, TokenVectors):
            masks = output.mask
            return [row[mask] for row, mask in zip(output.vectors, masks, strict=True)]

        return list(output)

    def differentiable(self, output: Any) -> Tensor:
        """Return all vectors as one."""
        return torch.cat([row.flatten() for row in self.results(output)])

    @pytest.fixture
    def fixed_module(
        self,
        component: Pooler,
        module: Module,
    ) -> Module:
        """The module in each mode in which it draws no random numbers."""
        if module.training:
            torch.manual_seed(1)
            first = module(*self.arguments(component))
            torch.manual_seed(2)
            second = module(*self.arguments(component))
            if not torch.equal(self.differentiable(first), self.differentiable(second)):
                pytest.skip("it draws random numbers in training")

        return module

    @pytest.mark.parametrize("lengths", [(7, 2, 4), (3, 3), (1,)])
    @pytest.mark.parametrize("side", ["right", "left"])
    def test_shape(
        self,
        component: Pooler,
        module: Module,
        lengths: tuple[int, ...],
        side: str,
    ) -> None:
        """It returns `(batch, output_width(width))`; in training, `(batch, trained_width(width))`."""
        output = module(self.states(component, lengths=lengths, side=side))
        width = component.output_width(self.width)
        if module.training:
            width = component.trained_width(self.width)

        if component.output == "tokens":
            assert isinstance(output, TokenVectors)
            assert output.vectors.shape == (*output.mask.shape, width)
            assert output.mask.dtype == torch.bool
            assert len(output.mask) == len(lengths)

        else:
            assert isinstance(output, Tensor)
            assert output.shape == (len(lengths), width)
            assert output.is_floating_point()

    @pytest.mark.parametrize(("side", "more"), [("right", 5), ("left", 0), ("left", 5)])
    def test_padding_changes_nothing(
        self,
        component: Pooler,
        fixed_module: Module,
        side: str,
        more: int,
    ) -> None:
        """Padding changes no vector, whatever its side, length and states: leave out tokens whose mask is 0."""
        vectors = self.call(fixed_module, self.states(component))
        padded = self.states(component, side=side, more=more, garbage=GARBAGE)

        assert_close(self.call(fixed_module, padded), vectors)

    def test_alone_as_in_a_batch(
        self,
        component: Pooler,
        fixed_module: Module,
    ) -> None:
        """A sentence alone, without a mask, has the vector that it has in a batch."""
        states = self.states(component)
        vectors = self.call(fixed_module, states)
        for row, length in enumerate(LENGTHS):

            def only(tensor: Tensor, row: int = row, length: int = length) -> Tensor:
                if tensor.ndim == 3:
                    return tensor[row : row + 1, :length]
                return tensor[row : row + 1]

            sentence = tree_map_only(Tensor, only, states)
            sentence = sentence._replace(attention_mask=None)
            assert_close(self.call(fixed_module, sentence), [vectors[row]])
