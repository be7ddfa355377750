"""Every optimiser and schedule of this distribution keeps the contract of its kind."""

from __future__ import annotations

import pytest
import sentbed_hardware
from sentbed_hardware.learning_rate_schedules import Linear
from sentbed_testing import OptimizerContract, ScheduleContract, offered


class TestOptimizers(OptimizerContract):
    @pytest.fixture(params=offered(sentbed_hardware.optimizers()))
    def component(self, request):
        return request.param(lr=1e-3)


class TestSchedules(ScheduleContract):
    @pytest.fixture(params=offered(sentbed_hardware.schedules()))
    def component(self, request):
        return request.param()


class TestWarmup(ScheduleContract):
    component = Linear(warmup=0.1)
