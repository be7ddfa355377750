"""Engines do what the engine of `cpu` does; those on JAX and on a GPU have files of their own."""

from __future__ import annotations

from engine_suite import ENCODERS, EveryPair, TrainingSuite, each, with_losses
from sentbed_hardware.cpu import Cpu
from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_openvino.openvino_runtime import OpenVino


class TestCpu(TrainingSuite, EveryPair):
    """The reference itself: what needs none, such as micro-batches, padding and states."""

    runtime = Cpu(threads=1)

    @each(with_losses(ENCODERS))
    def test_micro_batches_with_each_pooler_and_loss(self, pair, case):
        self.test_micro_batches_have_the_gradient_of_the_batch(pair, case)


class TestOnnxRuntime(EveryPair):
    runtime = OnnxRuntime(threads=1)


class TestOpenVino(EveryPair):
    runtime = OpenVino(threads=1)
