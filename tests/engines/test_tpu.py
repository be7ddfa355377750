"""The engine on JAX keeps the contract, and agrees with that on PyTorch."""

from __future__ import annotations

import pytest
from contract_choice import CPU, EACH, TPU, first_of_each
from sentbed._registry.registry import load_plugins
from sentbed_testing import engine_rules, parametrize_with_rules

PLUGINS = load_plugins()
ON_EIGHT_DEVICES = engine_rules(
    TPU | {"devices": 8, "parallel": "fsdp"},
    reference=CPU,
    plugins=PLUGINS,
    groups=[("backbone",)],
)
GRADIENTS_ON_EIGHT_DEVICES = {
    name: rule
    for name, rule in ON_EIGHT_DEVICES.items()
    if name.startswith("gradients/")
}
ON_TPU = engine_rules(TPU, reference=CPU, plugins=PLUGINS, groups=EACH)


# Which parts meet makes no difference to a compiler that has compiled each: the pairs are the CPU's to try.
@pytest.mark.jax
@parametrize_with_rules(
    [
        {
            name: ON_TPU[name]
            for name in sorted(first_of_each(ON_TPU), key=[*ON_TPU].index)
        }
    ]
)
def test_tpu_agrees_with_cpu(rule):
    pytest.importorskip("sentbed_tpu", reason="needs sentbed-tpu")
    if "tpu" not in PLUGINS.names("runtime"):
        pytest.skip("no runtime `tpu` is installed")
    rule()


@pytest.mark.jax
@parametrize_with_rules([GRADIENTS_ON_EIGHT_DEVICES])
def test_eight_devices_that_share_the_weights_have_the_gradient_of_one(
    rule,
):
    pytest.importorskip("sentbed_tpu", reason="needs sentbed-tpu")
    rule()
