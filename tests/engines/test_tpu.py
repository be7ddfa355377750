"""The engine on JAX does what the one on PyTorch does."""

from __future__ import annotations

import pytest
from engine_pair import Case, EnginePair, batch
from engine_suite import TrainingSuite, assert_arrays, assert_number
from sentbed_hardware.cpu import Cpu

pytestmark = pytest.mark.jax

Tpu = pytest.importorskip("sentbed_tpu.tpu", reason="needs sentbed-tpu").Tpu


class TestTpu(TrainingSuite):
    """Which parts meet makes no difference to a compiler that has compiled each."""

    runtime = Tpu(platform="cpu", precision="fp32")


@pytest.fixture(scope="module")
def eight_devices(tmp_path_factory):
    runtime = Tpu(platform="cpu", precision="fp32", devices=8, parallel="fsdp")
    directory = tmp_path_factory.mktemp("engines")
    return EnginePair(runtime.build(), Cpu(threads=1).build(), directory)


@pytest.mark.parametrize("backbone", ["bert", "t5", "opt", "llama", "static"])
def test_eight_devices_that_share_the_weights_have_the_gradient_of_one(
    eight_devices, backbone
):
    case = Case(backbone)
    encoder, reference = eight_devices.encoders(case)
    columns = batch(case, encoder)
    loss, gradients = eight_devices.trainer(case, encoder).gradients(columns)
    trainer = eight_devices.trainer(case, reference)
    expected_loss, expected_gradients = trainer.gradients(columns)
    assert_number(loss, expected_loss, 1e-5)
    assert_arrays(gradients, expected_gradients, 1e-4)
