"""The rules of interventions find what is planted."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest
from component_checks import check_component
from sentbed.protocols import Intervention
from sentbed_testing import ConformanceError


@attrs.frozen
class LastToZero(Intervention):
    """Sets the state of the last token to zero."""

    name: ClassVar[str] = "last-to-zero"

    in_place: bool = False
    """Whether it writes into its input."""

    @property
    def places(self):
        """The input of the first block."""
        return frozenset({("block-input", 0)})

    def build(self):
        """Return the function."""
        import torch

        def change(inputs):
            states = inputs.states
            if not self.in_place:
                states = states.clone()
            states[torch.arange(len(states)), inputs.last] = 0.0
            return states

        return change


def test_an_intervention_that_keeps_its_contract_passes_every_rule():
    assert not check_component(LastToZero)[1]


def test_an_intervention_that_would_write_the_same_again_is_found_to_write_in_place():
    with pytest.raises(ConformanceError, match="it changes the states in place"):
        check_component(LastToZero, example={"in_place": True})
