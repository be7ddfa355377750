"""The contract of a learning-rate schedule."""

from __future__ import annotations

from typing import ClassVar

import pytest
from sentbed.protocols import Schedule

from sentbed_testing.component_contract import ComponentContract


class ScheduleContract(ComponentContract):
    """Tests of a schedule."""

    component: ClassVar[Schedule]

    @pytest.mark.parametrize("total", [1, 2, 10, 1000])
    def test_factors(
        self,
        component: Schedule,
        total: int,
    ) -> None:
        """The factor of each step is in [0, 1], and the same in every call."""
        factors = [component.factor(step, total) for step in range(total)]

        assert all(0 <= factor <= 1 for factor in factors)
        assert factors == [component.factor(step, total) for step in range(total)]

    def test_some_steps_train(self, component: Schedule) -> None:
        """Not all factors are 0."""
        assert any(component.factor(step, 1000) for step in range(1000))
