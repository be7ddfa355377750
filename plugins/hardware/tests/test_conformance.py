"""Every runtime, optimiser and schedule of this distribution keeps the contract of its kind."""

from __future__ import annotations

import pytest
import sentbed_hardware
import torch
from sentbed_hardware.learning_rate_schedules import Linear
from sentbed_testing import check_component, offered

NO_GPU = {"tried": "there is no GPU"}


@pytest.mark.parametrize("runtime", offered(sentbed_hardware.runtimes()))
def test_a_runtime_keeps_the_contract(runtime: type) -> None:
    # Whether there is a GPU is the machine's business.
    absent = runtime.name == "cuda" and not torch.cuda.is_available()
    skip = NO_GPU if absent else {}
    report = check_component(runtime, kind="runtime", skip=skip)
    assert report.not_run.keys() == ({"engine"} if absent else set()) | skip.keys()


@pytest.mark.parametrize("optimizer", offered(sentbed_hardware.optimizers()))
def test_an_optimizer_keeps_the_contract(optimizer: type) -> None:
    assert (
        check_component(optimizer, kind="optimizer", example={"lr": 1e-3}).not_run == {}
    )


@pytest.mark.parametrize("schedule", offered(sentbed_hardware.schedules()))
def test_a_schedule_keeps_the_contract(schedule: type) -> None:
    assert check_component(schedule, kind="schedule").not_run == {}


def test_a_schedule_with_a_warm_up_keeps_the_contract() -> None:
    assert check_component(Linear, example={"warmup": 0.1}).not_run == {}
