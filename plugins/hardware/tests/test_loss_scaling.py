"""The trainer for fp16, on an engine that computes in fp32: its gradients can be compared."""

from __future__ import annotations

import math

import pytest
import torch
from sentbed import RunError
from sentbed_hardware._torch.cuda import CudaEngine
from sentbed_hardware._torch.loss_scaling import FIRST, STEPS_TO_DOUBLE, ScalingTrainer
from sentbed_hardware._torch.trainer import TorchTrainer
from sentbed_hardware.engine_parts.process_group import Processes


@pytest.fixture
def engine():
    return CudaEngine(torch.device("cpu"), torch.float32, False, {}, 4096)


@pytest.fixture
def train(toys, engine, assemble):
    def make(kind=ScalingTrainer, **options):
        encoder = assemble(dropout=0.3, on=engine)
        training = toys.train(
            encoder, toys.loss(learned=True), toys.recorder(), **options
        ).training
        engine.trainer_class = kind
        return engine.trainer({"encoder": encoder}, training)

    return make


@pytest.fixture
def overflowing(monkeypatch):
    """Let gradients overflow above a scale; returns the scales at which they were computed."""

    def above(limit):
        scales = []
        whole = TorchTrainer._backward

        def backward(self, columns):
            output = whole(self, columns)
            scales.append(self.scale)
            if self.scale > limit:
                next(iter(self.parameters.values())).grad.view(-1)[0] = math.inf
            return output

        monkeypatch.setattr(TorchTrainer, "_backward", backward)
        return scales

    return above


def gradients(trainer):
    return trainer.optimizer.gradients[-1]


def require_equal(gradients, expected):
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        assert torch.equal(gradient, expected[name]), name


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_what_passes_the_encoder_is_scaled_and_the_gradient_is_not(
    columns,
    train,
    micro_batch,
):
    torch.manual_seed(5)
    plain = train(TorchTrainer, micro_batch=micro_batch)
    expected = plain.step(columns)
    torch.manual_seed(5)
    trainer = train(micro_batch=micro_batch)
    seen = []
    dense = trainer.towers["encoder"].module.backbone.dense
    dense.register_full_backward_hook(
        lambda _, __, out: seen.append(float(out[0].abs().max()))
    )
    actual = trainer.step(columns)
    assert actual.loss == expected.loss
    assert actual.grad_norm == pytest.approx(expected.grad_norm, rel=1e-6)
    # A power of two changes no bit.
    require_equal(gradients(trainer), gradients(plain))
    assert "loss.log_temperature" in gradients(trainer)
    assert max(seen) > 100


def test_a_gradient_that_overflows_is_computed_again_at_half_the_scale(
    columns,
    train,
    overflowing,
):
    torch.manual_seed(5)
    plain = train(TorchTrainer)
    expected = plain.step(columns)
    scales = overflowing(FIRST / 8)
    torch.manual_seed(5)
    trainer = train()
    actual = trainer.step(columns)
    assert scales == [FIRST, FIRST / 2, FIRST / 4, FIRST / 8]
    # Same dropout, nothing left behind: the step is the plain one, and it is taken.
    assert actual.loss == expected.loss
    require_equal(gradients(trainer), gradients(plain))
    assert trainer.steps == 1
    trainer.step(columns)
    assert scales[4:] == [FIRST / 8]


def test_a_gradient_that_is_never_finite_has_diverged(
    columns,
    train,
    overflowing,
):
    scales = overflowing(0)
    trainer = train()
    result = trainer.step(columns)
    assert (scales[0], scales[-1], len(scales)) == (FIRST, 1, 17)
    assert not math.isfinite(result.grad_norm)
    assert trainer.optimizer.gradients == []


def test_a_loss_that_is_not_finite_has_diverged_at_once(
    columns,
    train,
    overflowing,
):
    scales = overflowing(math.inf)
    trainer = train()
    with torch.no_grad():
        trainer.towers["encoder"].module.backbone.words.weight.fill_(math.nan)
    result = trainer.step(columns)
    assert not math.isfinite(result.loss)
    assert scales == [FIRST]
    assert trainer.scale == FIRST


def test_the_scale_grows_again_after_many_steps_without_an_overflow(
    columns,
    train,
    overflowing,
):
    overflowing(FIRST)
    trainer = train()
    trainer.good_steps = STEPS_TO_DOUBLE - 2
    trainer.step(columns)
    assert (trainer.scale, trainer.good_steps) == (FIRST, STEPS_TO_DOUBLE - 1)
    trainer.step(columns)
    assert (trainer.scale, trainer.good_steps) == (2 * FIRST, 0)
    trainer.good_steps = 7
    trainer.step(columns)
    assert (trainer.scale, trainer.good_steps) == (FIRST, 0)


def test_a_state_knows_the_scale(
    columns,
    train,
    overflowing,
    tmp_path,
):
    overflowing(FIRST / 4)
    trainer = train()
    for _ in range(2):
        trainer.step(columns)
    trainer.save(tmp_path / "state")
    restored = train()
    restored.load(tmp_path / "state")
    assert (restored.scale, restored.good_steps) == (FIRST / 4, 1)


def test_several_processes_do_not_train_in_fp16(
    engine,
):
    # They are told before they say anything to each other.
    with pytest.raises(RunError, match=r'set `precision = "bf16"` or "fp32"$'):
        ScalingTrainer(engine.placement, Processes(world=2), print, {}, None)


def test_gradients_too_small_for_fp16_arrive(toys, columns, assemble):
    def gradient(dtype, kind):
        engine = CudaEngine(torch.device("cpu"), dtype, False, {}, 4096)
        encoder = assemble(on=engine)
        training = toys.train(encoder, toys.loss(temperature=1e6), toys.sgd()).training
        engine.trainer_class = kind
        _, gradients = engine.trainer({"encoder": encoder}, training).gradients(columns)
        return torch.from_numpy(gradients["encoder.backbone.dense.weight"])

    exact = gradient(torch.float32, TorchTrainer)
    unscaled = gradient(torch.float16, TorchTrainer)
    scaled = gradient(torch.float16, ScalingTrainer)
    assert 0 < exact.abs().max() < 1e-5
    assert (unscaled - exact).norm() > 0.1 * exact.norm()
    assert (scaled - exact).norm() < 0.01 * exact.norm()
