"""Every runtime, optimiser and schedule of this distribution keeps the contract of its kind."""

from __future__ import annotations

import sentbed_hardware
import torch
from sentbed_hardware.learning_rate_schedules import Linear
from sentbed_testing import component_rules, offered, parametrize_with_rules

NO_GPU = {"engine": "there is no GPU"}
RUNTIMES = []
for runtime in offered(sentbed_hardware.runtimes()):
    # Whether there is a GPU is the machine's business.
    is_absent = runtime.name == "cuda" and not torch.cuda.is_available()
    skip = NO_GPU if is_absent else {}
    RUNTIMES.append(component_rules(runtime, skip=skip, must_run=True))


@parametrize_with_rules(RUNTIMES)
def test_a_runtime_keeps_the_contract(rule):
    rule()


@parametrize_with_rules(
    offered(sentbed_hardware.optimizers()), example={"lr": 1e-3}, must_run=True
)
def test_an_optimizer_keeps_the_contract(rule):
    rule()


@parametrize_with_rules(
    [
        *offered(sentbed_hardware.schedules()),
        component_rules(Linear, example={"warmup": 0.1}, must_run=True),
    ],
    must_run=True,
)
def test_a_schedule_keeps_the_contract(rule):
    rule()
