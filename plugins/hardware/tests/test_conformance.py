"""Every runtime of this distribution keeps the contract of its kind."""

from __future__ import annotations

import sentbed_hardware
import torch
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
